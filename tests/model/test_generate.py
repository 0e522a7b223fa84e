"""Generation: equal to recomputing everything, whatever is batched with what; and what ends it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.generate import generate
from pipeline.errors import InputError
from tests.model.evaluation.evaluation_world import plain_generation, small_model

END = 0
VARIANTS = {
    "LA": {"recurrent": False, "depth_attention": False},
    "DR": {"depth_attention": False},
    "DR+DA": {},
    "DR+DA sequential": {"mixture": "sequential"},
    "DR+DA window": {"depth_window": 2},
}


def prompts_of(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(sum(lengths))
    return [torch.randint(1, 320, (length,), generator=generator).tolist() for length in lengths]


@pytest.mark.parametrize("depth", [None, 2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_batched_cached_equals_plain(variant: str, depth: int | None) -> None:
    model = small_model(**VARIANTS[variant])
    depth = depth if model.config.recurrent else None
    prompts = prompts_of(1, 40, 7, 7, 23, 60)
    for batch_tokens in (100, 10_000):
        written = generate(model, prompts, max_new_tokens=8, end_token=END, batch_tokens=batch_tokens, depth=depth)
        assert written == [plain_generation(model, prompt, 8, END, depth) for prompt in prompts]


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


@settings(max_examples=10)
@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    count=st.integers(1, 8),
    batch_tokens=st.integers(1, 400),
)
def test_batching_never_changes_what_is_written(lengths: list[int], count: int, batch_tokens: int) -> None:
    model, prompts = small_model(), prompts_of(*lengths)
    together = generate(model, prompts, max_new_tokens=count, end_token=END, batch_tokens=batch_tokens)
    alone = [generate(model, [prompt], max_new_tokens=count, end_token=END)[0] for prompt in prompts]
    assert together == alone


def test_never_past_the_sequence_length() -> None:
    model = small_model(sequence_length=32)
    (long,), (short,) = prompts_of(50), prompts_of(28)
    # Room for the answer is kept by cutting the prompt on the left,
    written = generate(model, [long], max_new_tokens=10, end_token=-1)
    assert written == [plain_generation(model, long[-22:], 10, -1)]
    # but never more than half the length: of a long answer the end is missing instead.
    written = generate(model, [long, short[:12]], max_new_tokens=100, end_token=-1)
    assert written == [plain_generation(model, long[-16:], 16, -1), plain_generation(model, short[:12], 20, -1)]


def test_sampling_depends_on_the_place_alone() -> None:
    model, prompts = small_model(), prompts_of(5, 17, 9, 9, 30)

    def sample(temperature: float, **options: int) -> list[list[int]]:
        return generate(model, prompts, max_new_tokens=8, end_token=-1, temperature=temperature, **options)

    assert sample(1.5) == sample(1.5, batch_tokens=1)
    assert sample(1e-6) == sample(0.0) != sample(1.5)


def test_sampling_follows_the_probabilities() -> None:
    model = small_model()
    (prompt,) = prompts_of(6)
    with torch.inference_mode():
        expected = (model(torch.tensor([prompt]))[0, -1] / 2.0).softmax(-1)
    written = generate(model, [prompt] * 4000, max_new_tokens=1, end_token=-1, temperature=2.0, batch_tokens=10**6)
    counts = torch.bincount(torch.tensor(written).flatten(), minlength=len(expected)) / len(written)
    assert (counts - expected).abs().max() < 0.03  # about four standard errors at probability 1/2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": [[1], []]}, "prompt 1 holds no token"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"max_new_tokens": 2.5}, "is 2.5, but"),
        ({"temperature": float("nan")}, "temperature is nan, but"),
        ({"temperature": -1.0}, "temperature is -1.0, but"),
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
