"""Prompts that are generated from and scored after: read once, and every result is that of two
readings."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from dreamer_study.model.dreamer import Dreamer
from dreamer_study.model.dreamer_cache import Cache
from dreamer_study.model.evaluation.generate import generate
from dreamer_study.model.evaluation.language_model import Generation, LanguageModel
from dreamer_study.model.evaluation.log_likelihoods import Scoring
from tests.model.evaluation.evaluation_world import (
    plain_generation,
    plain_log_likelihood,
    prompts_of,
    small_model,
)

END = 0
Pairs = Sequence[tuple[list[int], list[int]]]


def together(
    model: Dreamer, prompts: list[list[int]], pairs: Pairs, count: int, **options: int | None
) -> tuple[list[list[int]], list[tuple[float, bool]]]:
    """Written tokens and scores of one reading; every request is counted once, as in two
    readings."""
    done: list[float] = []
    scoring = Scoring(model, pairs, finished=done.append, **options)
    settings = {"max_new_tokens": count, "end_token": END, **options}
    written = generate(
        model, prompts, finished=done.append, after_prompts=scoring.after_prompts, **settings
    )
    scores = scoring.finish()
    apart: list[float] = []
    assert written == generate(model, prompts, finished=apart.append, **settings)
    expected = Scoring(model, pairs, finished=apart.append, **options).finish()
    assert [value for value, _ in scores] == pytest.approx(
        [value for value, _ in expected], rel=1e-5, abs=1e-5
    )
    assert [greedy for _, greedy in scores] == [greedy for _, greedy in expected]
    assert sum(done) == sum(apart)
    return written, scores


class Read:
    """Counts the tokens that networks read, and the largest number of rows taken out of a cache at
    once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens = self.rows = 0
        forward, take = Dreamer.forward, Cache.take

        def counted(model: Dreamer, tokens: torch.Tensor, **options: object) -> torch.Tensor:
            self.tokens += tokens.numel()
            return forward(model, tokens, **options)

        def taken(cache: Cache, rows: Sequence[int]) -> None:
            self.rows = max(self.rows, len(rows))
            take(cache, rows)

        monkeypatch.setattr(Dreamer, "forward", counted)
        monkeypatch.setattr(Cache, "take", taken)


FAMILIES = {
    "LA": {"recurrent": False, "depth_attention": False},
    "DR": {"depth_attention": False},
    "DR+DA": {},
}
FAMILIES |= {"sequential": {"mixture": "sequential"}, "window": {"depth_window": 2}}
DEPTHS = [*((family, None) for family in FAMILIES), ("DR", 2), ("DR+DA", 1), ("DR+DA", 6)]


@pytest.mark.slow
@pytest.mark.parametrize("batch_tokens", [1, 150, 100_000])
@pytest.mark.parametrize(("family", "depth"), DEPTHS)
def test_one_reading_equals_a_plain_pass(family: str, depth: int | None, batch_tokens: int) -> None:
    model = small_model(**FAMILIES[family])
    prompts = prompts_of(30, 7, 7, 23, 60, 1)
    pairs = list(zip(prompts, prompts_of(3, 1, 5, 9, 4, 1), strict=True))
    pairs[2] = (prompts[2], plain_generation(model, prompts[2], 3, -1, depth))
    written, scores = together(model, prompts, pairs, 8, batch_tokens=batch_tokens, depth=depth)
    assert written == [plain_generation(model, prompt, 8, END, depth) for prompt in prompts]
    for (context, continuation), (value, greedy) in zip(pairs, scores, strict=True):
        expected, likeliest = plain_log_likelihood(model, context, continuation, depth)
        assert value == pytest.approx(expected, rel=1e-5, abs=1e-4)
        assert greedy == likeliest
    assert scores[2][1]


def test_a_shared_prompt_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, prompts = small_model(), prompts_of(20, 20, 20, 20)
    pairs = list(zip(prompts, prompts_of(1, 1, 4, 3), strict=True))
    read = Read(monkeypatch)
    scoring = Scoring(model, pairs)
    generate(
        model,
        prompts,
        max_new_tokens=6,
        end_token=END,
        stop=lambda _: True,
        after_prompts=scoring.after_prompts,
    )
    # the prompts, and two continuations but for their last tokens, padded
    assert read.tokens == 4 * 20 + 2 * 3
    scoring.finish()
    assert read.tokens == 4 * 20 + 2 * 3


def test_no_more_rows_branch_off_at_once_than_generation_itself_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, prompts = small_model(), prompts_of(*[20] * 9)
    scoring = Scoring(model, list(zip(prompts, prompts_of(*range(2, 11)), strict=True)))
    read = Read(monkeypatch)
    generate(
        model,
        prompts,
        max_new_tokens=10,
        end_token=END,
        stop=lambda _: True,
        after_prompts=scoring.after_prompts,
    )
    assert read.rows == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "count", "again"), [(5, 4, 0), (6, 4, 30 + 5), (30, 40, 0), (31, 40, 30 + 30)]
)
def test_long_continuations_are_read_apart(
    monkeypatch: pytest.MonkeyPatch, length: int, count: int, again: int
) -> None:
    """Where there is no room behind the prompt, which is that of the answer; and where longer than
    the prompt."""
    model, (prompt, gold) = small_model(), prompts_of(30, length)
    together(model, [prompt], [(prompt, gold)], count)
    scoring = Scoring(model, [(prompt, gold)])
    generate(
        model, [prompt], max_new_tokens=count, end_token=END, after_prompts=scoring.after_prompts
    )
    read = Read(monkeypatch)
    scoring.finish()
    assert read.tokens == again


@pytest.mark.slow
def test_a_prompt_that_only_one_of_the_two_cuts() -> None:
    model, (prompt, gold) = small_model(sequence_length=32), prompts_of(28, 3)
    written, ((value, _),) = together(model, [prompt], [(prompt, gold)], 10)
    assert written == [plain_generation(model, prompt[-22:], 10, END)]
    assert value == pytest.approx(plain_log_likelihood(model, prompt, gold)[0], rel=1e-5)


LONG = "Ben gives away 12 of 20 apples. How many are left? " * 9
PROMPTS = ["Question: How many?\nAnswer:", "Ann has ", "", LONG, "Ben has", "Ben has"]
GOLDS = [" 7", "3 coins.", " 12 coins and 8 apples", " naïve ½", " 4 pens", " 5 pens"]


def check_answers(model: LanguageModel, until: tuple[str, ...]) -> dict[str, list]:
    """What the kinds of requests are answered together, as apart; `finished` counts every request
    once."""
    requests = {
        "generate_until": [(prompt, Generation(until, 5 + len(prompt) % 2)) for prompt in PROMPTS],
        "loglikelihood": [
            *zip(PROMPTS, GOLDS, strict=True),
            (PROMPTS[0], " B"),
            ("Ann", " A"),
            ("Ann", " B"),
        ],
        "loglikelihood_rolling": ["Ann has 3 coins."],
    }
    done: list[float] = []
    model.finished = done.append
    found = model.answer(requests)
    assert sum(done) == sum(map(len, requests.values()))
    assert found["generate_until"] == model.generate(requests["generate_until"])
    expected = model.log_likelihoods(requests["loglikelihood"])
    assert [value for value, _ in found["loglikelihood"]] == pytest.approx(
        [value for value, _ in expected], rel=1e-5
    )
    assert [greedy for _, greedy in found["loglikelihood"]] == [greedy for _, greedy in expected]
    assert found["loglikelihood_rolling"] == model.rolling_log_likelihoods(
        requests["loglikelihood_rolling"]
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("batch_tokens", [1, 100, 16_384])
def test_answers_together_are_those_apart(text_model: LanguageModel, batch_tokens: int) -> None:
    model = LanguageModel(text_model.model, text_model.tokenizer, batch_tokens=batch_tokens)
    free = check_answers(model, ())["generate_until"]
    stops = tuple(text[1:2] for text in free[:2])
    cut = check_answers(model, stops)["generate_until"]
    assert any(len(text) < len(whole) for text, whole in zip(cut, free, strict=True))
    assert model.answer({}) == {
        "generate_until": [],
        "loglikelihood": [],
        "loglikelihood_rolling": [],
    }
