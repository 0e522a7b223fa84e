"""Generation: equal to recomputing everything, whatever is batched with what; and what ends it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.generate import Cache, generate
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


@pytest.mark.parametrize("variant", VARIANTS)
def test_batched_cached_equals_plain(variant: str) -> None:
    model = small_model(**VARIANTS[variant])
    prompts = prompts_of(1, 40, 7, 7, 23, 60)
    for batch_tokens in (100, 10_000):
        written = generate(model, prompts, max_new_tokens=8, end_token=END, batch_tokens=batch_tokens)
        assert written == [plain_generation(model, prompt, 8, END) for prompt in prompts]


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


def test_sampling_depends_on_seed_and_place_alone() -> None:
    model, prompts = small_model(), prompts_of(5, 17, 9, 9, 30)

    def sample(seed: int, batch_tokens: int = 10_000) -> list[list[int]]:
        return generate(
            model, prompts, max_new_tokens=8, end_token=-1, temperature=1.5, seed=seed, batch_tokens=batch_tokens
        )

    assert sample(1) == sample(1, batch_tokens=1)
    assert sample(1) != sample(2)
    assert generate(model, prompts, max_new_tokens=8, end_token=-1, temperature=1e-6) == generate(
        model, prompts, max_new_tokens=8, end_token=-1
    )


def test_sampling_follows_the_probabilities() -> None:
    model = small_model()
    (prompt,) = prompts_of(6)
    with torch.inference_mode():
        expected = (model(torch.tensor([prompt]))[0, -1] / 2.0).softmax(-1)
    written = generate(model, [prompt] * 4000, max_new_tokens=1, end_token=-1, temperature=2.0, batch_tokens=10**6)
    counts = torch.bincount(torch.tensor(written).flatten(), minlength=len(expected)) / len(written)
    assert (counts - expected).abs().max() < 0.03  # about four standard errors at probability 1/2


def test_cache_holds_sequence_attention_only() -> None:
    """Depth attention adds nothing that grows: with and without it the cache is equally large."""
    model = small_model()
    caches = [Cache(small_model(**VARIANTS[name]).config, 2, 48) for name in ("DR", "DR+DA")]
    sizes = [sum(value.nbytes for value in vars(cache).values() if isinstance(value, torch.Tensor)) for cache in caches]
    M, K, L = model.config.key_value_heads, model.config.head_size, model.config.depth
    assert sizes[0] == sizes[1] == 2 * L * 2 * M * 48 * K * 4 + 2 * 8


def test_rows_of_a_cache_go_on_in_several_ways() -> None:
    model, prompts = small_model(), prompts_of(9, 4)
    cache = Cache(model.config, 2, 20)
    padded = torch.tensor([prompts[0], prompts[1] + [0] * 5])
    with torch.inference_mode():
        cache.extend(model, padded, torch.tensor([9, 4]))
        cache.take([1, 0, 1])
        logits = model.logits(cache.extend(model, torch.tensor([[5], [6], [7]])))[:, 0]
        for row, (prompt, token) in enumerate(((prompts[1], 5), (prompts[0], 6), (prompts[1], 7))):
            expected = model(torch.tensor([[*prompt, token]]))[0, -1]
            torch.testing.assert_close(logits[row], expected, rtol=1e-4, atol=1e-4)


def test_another_depth() -> None:
    model, prompts = small_model(), prompts_of(8, 3)
    written = generate(model, prompts, max_new_tokens=5, end_token=-1, depth=2)
    with torch.inference_mode():
        for prompt, tokens in zip(prompts, written, strict=True):
            for place, token in enumerate(tokens):
                assert token == int(model(torch.tensor([prompt + tokens[:place]]), depth=2)[0, -1].argmax())


@pytest.mark.parametrize(
    ("prompts", "count", "message"),
    [([[1], []], 4, "prompt 1 holds no token"), ([[1]], 0, "max_new_tokens is 0"), ([[1]], 2.5, "is 2.5, but")],
)
def test_bad_input(prompts: list[list[int]], count: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(small_model(), prompts, max_new_tokens=count, end_token=END)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": float("nan")}, "temperature is nan, but"),
        ({"temperature": -1.0}, "temperature is -1.0, but"),
        ({"seed": -1}, "seed is -1, but"),
        ({"depth": 2.0}, "depth is 2.0, but"),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(small_model(), [[1]], max_new_tokens=2, end_token=END, **options)


def test_writing_does_not_count_as_training() -> None:
    model = small_model().train()
    generate(model, prompts_of(4, 3), max_new_tokens=3, end_token=-1)
    assert not any(router.counts.any() for router in model.routers().values())
