"""Texts are generated with a cache, and looked into."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from dreamer_study.model.evaluation.generate import generate
from dreamer_study.model.evaluation.observe import observe
from dreamer_study.pipeline.errors import InputError
from tests.model.evaluation.evaluation_world import plain_generation, prompts_of, small_model
from tests.model.tiny_network import (
    DR,
    DR_DA,
    LA,
    VARIANTS,
    build,
    by_reference,
    random_documents,
    random_tokens,
)

END = 0


def test_end_token_ends_a_row_and_is_left_out() -> None:
    model, prompts = small_model(), prompts_of(5, 9, 14, 3)
    free = generate(model, prompts, max_new_tokens=10, end_token=-1)
    end = free[1][4]
    written = generate(model, prompts, max_new_tokens=10, end_token=end)
    assert written == [tokens[: tokens.index(end)] if end in tokens else tokens for tokens in free]
    assert len(written[1]) <= 4


@pytest.mark.slow
def test_stop_sees_each_prompts_own_tokens_and_ends_only_its_row() -> None:
    model, prompts = small_model(), prompts_of(30, 4, 11, 6, 18)
    free = generate(model, prompts, max_new_tokens=20, end_token=-1)
    lengths = iter(range(1, 6))
    wanted = {tuple(tokens[:length]) for tokens, length in zip(free, lengths, strict=True)}
    written = generate(
        model, prompts, max_new_tokens=20, end_token=-1, stop=lambda tokens: tuple(tokens) in wanted
    )
    assert [len(tokens) for tokens in written] == [1, 2, 3, 4, 5]
    assert all(tokens == more[: len(tokens)] for tokens, more in zip(written, free, strict=True))


@pytest.mark.slow
def test_never_past_the_sequence_length() -> None:
    model = small_model(sequence_length=32)
    (long,), (short,) = prompts_of(50), prompts_of(28)
    # Room for the answer is kept by cutting the prompt on the left,
    written = generate(model, [long], max_new_tokens=10, end_token=-1)
    assert written == [plain_generation(model, long[-22:], 10, -1)]
    # but never more than half the length: of a long answer the end is missing instead.
    written = generate(model, [long, short[:12]], max_new_tokens=100, end_token=-1)
    assert written == [
        plain_generation(model, long[-16:], 16, -1),
        plain_generation(model, short[:12], 20, -1),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": [[1], []]}, "prompt 1 holds no token"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"max_new_tokens": 2.5}, "is 2.5, but"),
        ({"depth": 2.0}, "depth is 2.0, but"),
    ],
    ids=str,
)
def test_bad_input(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(
            small_model(), **{"prompts": [[1]], "max_new_tokens": 2, "end_token": END, **options}
        )


def test_writing_does_not_count_as_training() -> None:
    model = small_model().train()
    generate(model, prompts_of(4, 3), max_new_tokens=3, end_token=-1)
    assert not any(router.counts.any() for router in model.routers().values())


pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.slow
@pytest.mark.parametrize("config", VARIANTS)
def test_prefill_and_steps_equal_whole_forwards_for_rows_of_different_lengths(config):
    """The engine native leaves the padding out where single tokens are wanted: what is read and
    cached is the same."""
    model, tokens = build(config).eval(), random_tokens(3, 12)
    lengths, wanted = [5, 2, 7], [(0, 4), (2, 6), (2, 0), (1, 1), (0, 4)]
    padded = torch.zeros(3, 7, dtype=torch.long)
    for row, length in enumerate(lengths):
        padded[row, :length] = tokens[row, :length]
    places = torch.tensor([row * 7 + position for row, position in wanted])

    def whole(row, length):
        return model(tokens[row : row + 1, :length])[0]

    expected = torch.stack([whole(row, position + 1)[-1] for row, position in wanted])
    torch.testing.assert_close(
        model.logits(model.read(padded, torch.tensor(lengths), places)), expected
    )
    cache, other = (model.new_cache(3, 12) for _ in range(2))
    torch.testing.assert_close(
        model.logits(other.extend(padded, torch.tensor(lengths), wanted=places)), expected
    )
    prefill = model.logits(cache.extend(padded, torch.tensor(lengths)))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(prefill[row, :length], whole(row, length))
    for step in range(5):
        new = torch.stack([tokens[row, length + step] for row, length in enumerate(lengths)])[
            :, None
        ]
        expected = torch.stack(
            [whole(row, length + step + 1)[-1] for row, length in enumerate(lengths)]
        )
        torch.testing.assert_close(model.logits(cache.extend(new))[:, 0], expected)
        stepped = model.logits(other.extend(new, wanted=torch.tensor([2, 0])))
        torch.testing.assert_close(stepped, expected[[2, 0]])
    assert cache.lengths.tolist() == other.lengths.tolist() == [10, 7, 12]


def in_parts(model, tokens, cuts, depth=None):
    """Logits of tokens that a cache reads in several parts."""
    cache = model.new_cache(len(tokens), tokens.shape[1], depth)
    parts = [cache.extend(part, depth=depth) for part in tokens.tensor_split(cuts, dim=1)]
    return model.logits(torch.cat(parts, dim=1))


def test_several_tokens_at_once_behind_a_filled_cache():
    model, tokens = build(DR_DA).eval(), random_tokens(2, 11)
    torch.testing.assert_close(in_parts(model, tokens, (4, 9)), model(tokens))
    torch.testing.assert_close(by_reference(in_parts, model, tokens, (4, 9)), model(tokens))


def test_a_cache_for_another_depth():
    model, tokens = build(DR_DA).eval(), random_tokens()
    torch.testing.assert_close(in_parts(model, tokens, (10,), depth=5), model(tokens, depth=5))


def test_a_full_cache_is_refused():
    cache, tokens = build(DR).new_cache(2, 12), random_tokens()
    cache.extend(tokens)
    with pytest.raises(InputError, match="12 positions, of which 11 are filled, so 2 more"):
        cache.extend(tokens[:, :2])


BATCHES = [(tokens, random_documents()) for tokens in (random_tokens(), random_tokens().flip(0))]


def observed(model, batches=BATCHES):
    """Scores by query and key depth, and selections by depth and expert, both counted from 0."""
    found = observe(model, batches)
    scores = {
        (q - 1, k - 1): score
        for q, k, score in zip(*found["depth_attention"].values(), strict=True)
    }
    selections = {
        (depth - 1, expert): n
        for depth, expert, n in zip(*found["expert_usage"].values(), strict=True)
    }
    return scores, selections


def sums(scores, depth):
    return [sum(scores[query, key] for key in range(query + 1)) for query in range(depth)]


def test_maps_are_means_over_real_tokens():
    model = build(DR_DA)
    scores, selections = observed(model)
    assert list(scores) == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    assert sums(scores, 3) == pytest.approx([1] * 3, rel=1e-5)
    assert list(selections) == [(depth, expert) for depth in range(3) for expert in range(5)]
    real, active = 2 * 20, 2
    assert [sum(selections[depth, expert] for expert in range(5)) for depth in range(3)] == [
        real * active
    ] * 3
    halves = [observed(model, [batch]) for batch in BATCHES]
    assert selections == {place: sum(half[place] for _, half in halves) for place in selections}
    assert scores == pytest.approx(
        {place: sum(half[place] for half, _ in halves) / 2 for place in scores}, rel=1e-5
    )


def test_observing_leaves_the_model_as_it_was():
    model = build(DR_DA)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    observe(model, BATCHES)
    assert model.training
    assert all((before[name] == value).all() for name, value in model.state_dict().items())
    observe(model.eval(), BATCHES)
    assert not model.training


def test_layered_models_have_experts_per_depth_and_no_map():
    scores, selections = observed(build(LA))
    assert scores == {}
    assert len(selections) == 3 * 5


def test_a_window_over_depth():
    scores, _ = observed(build(dataclasses.replace(DR_DA, depth=5, depth_window=2)))
    assert all(score == 0 for (query, key), score in scores.items() if key < query - 1)
    assert sums(scores, 5) == pytest.approx([1] * 5, rel=1e-5)
