"""Plant faults in the built-in world, each with its ground truth.

Faults are traces, duplicates, leaks and broken rows. Clean stories are kept dissimilar to each
other and to the benchmarks (`Crowd`): without that, a language of few words repeats itself by
chance. So every document that a stage removes beyond the planted faults is a mistake of the stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from dreamer_study.pipeline.worlds.distinct_problems import Crowd
from dreamer_study.pipeline.worlds.drawing import GRAM, grams, jaccard, pick, words
from dreamer_study.pipeline.worlds.stories import Story

TRACES = {
    "paired": "<think>\n{thoughts}\n</think>\n\n{answer}",
    "tokens": (
        "<|begin_of_thought|>\n\n{thoughts}\n\n<|end_of_thought|>\n\n"
        "<|begin_of_solution|>\n\n{answer}\n\n<|end_of_solution|>"
    ),
    "closing": "{thoughts}\n</think>\n\n{answer}",
}
PHRASES = ("Please tell me: {}", "{} Thank you.", "{} Give the number.")
SIMILAR = 0.72
Edit = Literal["verbatim", "spacing", "case", "punctuation", "phrase", "latex", "word", "name"]


@dataclass
class Row:
    """One row of the training split.

    `of` is the row that this one repeats, or the id of the benchmark item that it leaks.
    """

    story: Story
    question: str
    kind: str = "clean"
    edit: str | None = None
    of: Row | str | None = None
    trace: str = "none"


# --- edits of text, for duplicates and leaks ---


def _respace(random: Random, question: str) -> str:
    text, *rest = question.split(" ")
    for word in rest:
        text += pick(random, (" ", "  ", " ", "\n", " \t")) + word
    return text + "  "


def _repunctuate(random: Random, question: str) -> str:
    point = pick(random, (";", "!", " ."))
    question_mark = pick(random, ("", " ?", "??"))
    return question[:-1].replace(".", point) + question_mark


def _as_latex(random: Random, question: str) -> str:
    opening, closing = pick(random, (("$", "$"), (r"\(", r"\)")))
    return "".join(f"{opening}{sign}{closing}" if sign.isdigit() else sign for sign in question)


TEXT_EDITS: dict[str, Callable[[Random, str], str]] = {
    "verbatim": lambda random, question: question,
    "spacing": _respace,
    "case": lambda random, question: pick(random, (str.upper, str.lower, str.title))(question),
    "punctuation": _repunctuate,
    "phrase": lambda random, question: pick(random, PHRASES).format(question),
    "latex": _as_latex,
}
EDITS: tuple[Edit, ...] = get_args(Edit)


def edited(random: Random, story: Story, edit: Edit, kind: str, of: Row | str) -> Row:
    """Make a row of `story` after the edit of that name, as a duplicate or a leak."""
    if edit in TEXT_EDITS:
        return Row(story, TEXT_EDITS[edit](random, story.question), kind, edit, of)
    other = story.with_another_word(random) if edit == "word" else story.with_another_name(random)
    return Row(other, other.question, kind, edit, of)


def similarity(first: Row, second: Row) -> float:
    """Compute the Jaccard similarity of two rows.

    Compared are the word 5-grams of question and answer, without case and punctuation.
    """
    return jaccard(_grams(first), _grams(second))


def _grams(row: Row) -> frozenset[tuple[str, ...]]:
    return grams(words(f"{row.question} {row.story.answer}"), GRAM)


# --- rows ---


BROKEN: dict[str, Callable[[Random, Row], dict[str, str | None]]] = {
    "no question": lambda random, row: {"question": ""},
    "no response": lambda random, row: {"response": " \n"},
    "missing response": lambda random, row: {"response": None},
    "nothing after the trace": lambda random, row: {
        "response": TRACES["paired"].format(thoughts=row.story.reasoning(random), answer="")
    },
    "damaged encoding": lambda random, row: {
        "question": "".join("\ufffd" if letter in "aeiou" else letter for letter in row.question)
    },
}


def repeat_nearly(random: Random, original: Row, edit: Edit) -> Row | None:
    """Make a near duplicate by a small edit; None where the story is too short to stay one."""
    row = edited(random, original.story, edit, "near", original)
    return row if similarity(row, original) >= SIMILAR else None


def vary_numbers(random: Random, original: Row, crowd: Crowd) -> Row | None:
    """Make a variant in other numbers, which is another story and has to stay.

    None after 100 failed draws.
    """
    for _ in range(100):
        story = original.story.with_other_numbers(random)
        if story is not None and story.numbers != original.story.numbers and crowd.admit(story):
            return Row(story, story.question, "numbers", "numbers", original)
    return None


def columns(random: Random, row: Row) -> dict[str, str | None]:
    """Write the row's columns: question, response with its trace, answer."""
    values: dict[str, str | None] = {
        "question": row.question,
        "response": _response(random, row.story, row.trace),
        "answer": row.story.answer,
    }
    if row.kind == "broken":
        values |= BROKEN[str(row.edit)](random, row)
    return values


def _response(random: Random, story: Story, trace: str) -> str:
    """Write the answer behind a reasoning trace, marked as in public data sets.

    "none" is the answer alone.
    """
    if trace == "none":
        return story.answer
    thoughts = story.reasoning(random)
    if trace == "unclosed":
        share = 0.5 + 0.4 * random.random()
        return f"<think>\n{thoughts[: int(len(thoughts) * share)]}"
    return TRACES[trace].format(thoughts=thoughts, answer=story.answer)
