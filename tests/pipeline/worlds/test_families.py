"""Problems of every family: right answers, variants, edits, and answers that are near uniform; crowds of problems."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.worlds import relations, sums, swaps
from pipeline.worlds.planting import EDITS, edited
from pipeline.worlds.problem import DIGITS, Problem, words
from pipeline.worlds.settings import WorldSettings
from tests.pipeline.worlds.solver import solve

LONG = WorldSettings(longest=12, hops=4, distractors=2, swaps=6)
ANSWERS = {"sums": DIGITS, "relations": DIGITS, "swaps": tuple(map(str, swaps.CUPS))}
each_family = pytest.mark.parametrize("family", ANSWERS)
seeds = st.integers(0, 10**6)


def draw(family: str, seed: int, steps: int) -> Problem:
    return LONG.family(family).draw(Random(seed), steps)


@each_family
@given(seed=seeds, part=st.sampled_from(("all", "short", "long")))
def test_answers_are_right_and_values_are_possible_answers(family: str, seed: int, part: str) -> None:
    drawn = LONG.family(family, part)
    for steps in (drawn.steps[0], drawn.steps[-1]):
        problem = drawn.draw(Random(seed), steps)
        values = solve(problem.question)
        assert len(values) == steps + 1
        assert {str(value) for value in values} <= set(ANSWERS[family])
        assert problem.answer == str(values[-1])
        assert problem.reasoning(Random(seed)).endswith(f" {problem.answer}.")
        assert problem.numbers == tuple(int(digit) for digit in re.findall(r"\d", problem.question))


@each_family
def test_answers_are_near_uniform(family: str) -> None:
    drawn = WorldSettings().family(family)
    random = Random(0)
    counts = Counter(drawn.draw(random, drawn.steps[number % len(drawn.steps)]).answer for number in range(12_000))
    assert set(counts) == set(ANSWERS[family])
    fair = 12_000 / len(counts)
    assert all(0.85 * fair < count < 1.15 * fair for count in counts.values())


@given(seeds, st.integers(1, 3))
def test_distractors_never_decide_the_answer(seed: int, steps: int) -> None:
    problem = relations.draw(Random(seed), steps, 2)
    *sentences, question = problem.question.split(". ")
    needed = [text for text, place in zip(sentences, problem.order, strict=True) if place <= steps]
    assert solve(". ".join([*needed, question])) == solve(problem.question)
    assert len(sentences) in range(1 + steps, 4 + steps)


@each_family
@given(seed=seeds)
def test_variants_in_other_numbers_keep_the_words_and_are_right(family: str, seed: int) -> None:
    problem = draw(family, seed, 3)
    other = problem.with_other_numbers(Random(seed + 1))
    if other is not None:
        assert re.sub(r"\d", "#", other.question) == re.sub(r"\d", "#", problem.question)
        assert solve(other.question)[-1] == int(other.answer)
        assert {str(value) for value in solve(other.question)} <= set(ANSWERS[family])


@each_family
@settings(max_examples=30)
@given(seed=seeds, edit=st.sampled_from(EDITS))
def test_edits_change_no_number_and_no_answer(family: str, seed: int, edit: str) -> None:
    problem = draw(family, seed, 4)
    row = edited(Random(seed), problem, edit, "near", "item")
    assert re.findall(r"\d", row.question) == re.findall(r"\d", problem.question)
    assert row.problem.answer == problem.answer
    if edit in ("verbatim", "spacing", "case", "punctuation", "latex"):
        assert words(row.question) == words(problem.question)
    else:
        assert words(row.question) != words(problem.question)


@given(seeds)
def test_sums_of_few_nouns_use_no_others(seed: int) -> None:
    story = WorldSettings(nouns=6).family("sums").draw(Random(seed), 2)
    assert story.name in ("Ann", "Mia", "Eva", "Ben", "Tom", "Sam")
    assert story.thing in sums.THINGS[:6]
