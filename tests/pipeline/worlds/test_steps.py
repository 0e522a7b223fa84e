"""The steps of the built-in problems, counted from their texts."""

from __future__ import annotations

from random import Random

import pytest

from dreamer_study.pipeline.worlds import sheets, stories
from dreamer_study.pipeline.worlds.steps import steps_of


@pytest.mark.parametrize(
    ("benchmark", "question", "steps"),
    [
        ("world_expressions", "expressions plus 1 2 3 ; minus plus 2 3 4", 2),
        ("world_expressions", "expressions minus 1 2", 1),
        ("world_chain", "chain a k b l k A l B ; once a k ; twice b", 2),
        ("world_chain", "chain a k k A ; thrice a", 3),
        ("world_tracking", "tracking 4 1 3 = 3 ; 2 0 =", 2),
        ("world_tracking", "tracking 4 1 3 =", 3),
        ("world_short", "Ann has 3 coins. She finds 4 more. How many coins has Ann now?", 1),
        ("world_recall", "recall i t d n ; d", None),
        ("gsm8k", "Ann has 3 coins. How many?", None),
    ],
)
def test_the_steps_of_the_last_question_count(
    benchmark: str, question: str, steps: int | None
) -> None:
    assert steps_of(benchmark, question) == steps


@pytest.mark.parametrize("benchmark", ["world_short", "world_long", "world_choice"])
def test_a_story_has_as_many_steps_as_were_drawn(benchmark: str) -> None:
    random = Random(3)
    for steps in range(1, 9):
        story = stories.draw(random, steps)
        assert steps_of(benchmark, story.question) == len(story.steps) == steps


def test_an_expression_has_as_many_steps_as_were_drawn() -> None:
    random = Random(3)
    for operations in range(1, 9):
        text, _ = sheets._expression(random, operations, 5)
        beginning = sheets.draw_expressions(random, 4, 4, 5).prompt
        assert steps_of("world_expressions", f"{beginning} 3 ; {text}") == operations


def test_numbers_and_hops_are_those_that_were_drawn() -> None:
    random = Random(3)
    for _ in range(20):
        tracking = sheets.draw_tracking(random, 3, 5, 4)
        question, _ = tracking.questions[-1]
        assert steps_of("world_tracking", tracking.prompt) == len(question.split()) - 1
        chain = sheets.draw_chain(random, 3, 4, 3)
        word = chain.questions[-1][0].split()[0]
        assert steps_of("world_chain", chain.prompt) == sheets.HOPS.index(word) + 1
