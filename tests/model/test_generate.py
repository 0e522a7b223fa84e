"""Texts are generated with a cache, and looked into."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from model.generate import generate
from model.introspect import observe
from pipeline.errors import InputError
from tests.model.evaluation.evaluation_world import plain_generation, prompts_of, small_model
from tests.model.tiny_network import DR, DR_DA, LA, VARIANTS, build, by_reference, random_documents, random_tokens

END = 0


def test_end_token_ends_a_row_and_is_left_out() -> None:
    model, prompts = small_model(), prompts_of(5, 9, 14, 3)
    free = generate(model, prompts, max_new_tokens=10, end_token=-1)
    end = free[1][4]
    written = generate(model, prompts, max_new_tokens=10, end_token=end)
    assert written == [tokens[: tokens.index(end)] if end in tokens else tokens for tokens in free]
    assert len(written[1]) <= 4


def test_stop_sees_each_prompts_own_tokens_and_ends_only_its_row() -> None:
    model, prompts = small_model(), prompts_of(30, 4, 11, 6, 18)
    free = generate(model, prompts, max_new_tokens=20, end_token=-1)
    lengths = iter(range(1, 6))
    wanted = {tuple(tokens[:length]) for tokens, length in zip(free, lengths, strict=True)}
    written = generate(model, prompts, max_new_tokens=20, end_token=-1, stop=lambda tokens: tuple(tokens) in wanted)
    assert [len(tokens) for tokens in written] == [1, 2, 3, 4, 5]
    assert all(tokens == more[: len(tokens)] for tokens, more in zip(written, free, strict=True))


def test_never_past_the_sequence_length() -> None:
    model = small_model(sequence_length=32)
    (long,), (short,) = prompts_of(50), prompts_of(28)
    # Room for the answer is kept by cutting the prompt on the left,
    written = generate(model, [long], max_new_tokens=10, end_token=-1)
    assert written == [plain_generation(model, long[-22:], 10, -1)]
    # but never more than half the length: of a long answer the end is missing instead.
    written = generate(model, [long, short[:12]], max_new_tokens=100, end_token=-1)
    assert written == [plain_generation(model, long[-16:], 16, -1), plain_generation(model, short[:12], 20, -1)]


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
        generate(small_model(), **{"prompts": [[1]], "max_new_tokens": 2, "end_token": END, **options})


def test_writing_does_not_count_as_training() -> None:
    model = small_model().train()
    generate(model, prompts_of(4, 3), max_new_tokens=3, end_token=-1)
    assert not any(router.counts.any() for router in model.routers().values())


pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("config", VARIANTS)
def test_prefill_and_steps_equal_whole_forwards_for_rows_of_different_lengths(config):
    """The engine native leaves the padding out where single tokens are wanted: what is read and cached is the same."""
    model, tokens = build(config).eval(), random_tokens(3, 12)
    lengths, wanted = [5, 2, 7], [(0, 4), (2, 6), (2, 0), (1, 1), (0, 4)]
    padded = torch.zeros(3, 7, dtype=torch.long)
    for row, length in enumerate(lengths):
        padded[row, :length] = tokens[row, :length]
    places = torch.tensor([row * 7 + position for row, position in wanted])

    def whole(row, length):
        return model(tokens[row : row + 1, :length])[0]

    expected = torch.stack([whole(row, position + 1)[-1] for row, position in wanted])
    torch.testing.assert_close(model.logits(model.read(padded, torch.tensor(lengths), places)), expected)
    cache, other = (model.new_cache(3, 12) for _ in range(2))
    torch.testing.assert_close(model.logits(other.extend(padded, torch.tensor(lengths), wanted=places)), expected)
    prefill = model.logits(cache.extend(padded, torch.tensor(lengths)))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(prefill[row, :length], whole(row, length))
    for step in range(5):
        new = torch.stack([tokens[row, length + step] for row, length in enumerate(lengths)])[:, None]
        expected = torch.stack([whole(row, length + step + 1)[-1] for row, length in enumerate(lengths)])
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
    with pytest.raises(InputError, match="room for 12 positions: 11 are filled, 2 more"):
        cache.extend(tokens[:, :2])


BATCHES = [(tokens, random_documents()) for tokens in (random_tokens(), random_tokens().flip(0))]


def test_maps_are_means_over_real_tokens():
    model = build(DR_DA)
    seen = observe(model, BATCHES)
    assert seen.tokens == 2 * 20
    np.testing.assert_allclose(seen.depth_attention.sum(axis=1), 1, rtol=1e-5)
    assert (np.triu(seen.depth_attention, 1) == 0).all()
    assert seen.selections.shape == (3, 5)
    assert (seen.selections.sum(axis=1) == 2 * seen.tokens).all()
    halves = [observe(model, [batch]) for batch in BATCHES]
    assert (sum(half.selections for half in halves) == seen.selections).all()
    np.testing.assert_allclose(sum(half.depth_attention for half in halves) / 2, seen.depth_attention, rtol=1e-5)


def test_observing_leaves_the_model_as_it_was():
    model = build(DR_DA)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    observe(model, BATCHES)
    assert model.training
    assert all((before[name] == value).all() for name, value in model.state_dict().items())
    observe(model.eval(), BATCHES)
    assert not model.training


def test_layered_models_have_experts_per_depth_and_no_map():
    seen = observe(build(LA), BATCHES)
    assert seen.depth_attention is None
    assert seen.selections.shape == (3, 5)
    assert [len(column) for column in seen.rows()["depth_attention"].values()] == [0, 0, 0]


def test_a_window_over_depth():
    seen = observe(build(dataclasses.replace(DR_DA, depth=5, depth_window=2)), BATCHES)
    assert (np.tril(seen.depth_attention, -2) == 0).all()
    np.testing.assert_allclose(seen.depth_attention.sum(axis=1), 1, rtol=1e-5)


def test_rows_are_those_of_the_tables():
    seen = observe(build(DR_DA), BATCHES)
    rows = list(zip(*seen.rows()["depth_attention"].values(), strict=True))
    assert [row[:2] for row in rows] == [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3)]
    assert rows[4][2] == seen.depth_attention[2, 1]
    rows = list(zip(*seen.rows()["expert_usage"].values(), strict=True))
    assert len(rows) == 3 * 5
    assert rows[6] == (2, 1, seen.selections[1, 1])
