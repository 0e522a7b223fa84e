"""Plant faults in the built-in world: traces, duplicates, leaks and broken rows, each with its ground truth.

Clean problems are kept dissimilar to each other and to the benchmarks (`Crowd`): without that, a language of few words
repeats itself by chance. So every document that a stage removes beyond the planted faults is a mistake of the stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from pipeline.worlds.crowd import Crowd
from pipeline.worlds.drawing import pick
from pipeline.worlds.likeness import grams, jaccard, words
from pipeline.worlds.problem import GRAM, Problem

TRACE_KINDS = ("none", "paired", "tokens", "closing")
BROKEN_KINDS = ("no question", "no response", "missing response", "nothing after the trace", "damaged encoding")
SIMILAR = 0.72


@dataclass
class Row:
    """One row of the training split. `of` is the row that it repeats, or the id of the benchmark item that it leaks."""

    problem: Problem
    question: str
    kind: str = "clean"
    edit: str | None = None
    of: Row | str | None = None
    trace: str = "none"


# --- edits of text, for duplicates and leaks ---


def _respace(random: Random, question: str) -> str:
    first, *rest = question.split(" ")
    return first + "".join(pick(random, (" ", "  ", " ", "\n", " \t")) + word for word in rest) + "  "


def _recase(random: Random, question: str) -> str:
    return pick(random, (str.upper, str.lower, str.title))(question)


def _repunctuate(random: Random, question: str) -> str:
    return question[:-1].replace(".", pick(random, (";", "!", " ."))) + pick(random, ("", " ?", "??"))


def _as_latex(random: Random, question: str) -> str:
    opening, closing = pick(random, (("$", "$"), (r"\(", r"\)")))
    return "".join(f"{opening}{sign}{closing}" if sign.isdigit() else sign for sign in question)


def _add_phrase(random: Random, question: str) -> str:
    return pick(random, ("Please tell me: {}", "{} Thank you.", "{} Give the number.")).format(question)


TEXT_EDITS: dict[str, Callable[[Random, str], str]] = {
    "verbatim": lambda random, question: question,
    "spacing": _respace,
    "case": _recase,
    "punctuation": _repunctuate,
    "phrase": _add_phrase,
    "latex": _as_latex,
}
PROBLEM_EDITS: dict[str, Callable[[Random, Problem], Problem]] = {
    "word": lambda random, problem: problem.with_another_word(random),
    "name": lambda random, problem: problem.with_another_name(random),
}
EDITS = (*TEXT_EDITS, *PROBLEM_EDITS)


def edited(random: Random, problem: Problem, edit: str) -> Row:
    """Make a row of `problem` after the edit of that name."""
    if edit in TEXT_EDITS:
        return Row(problem, TEXT_EDITS[edit](random, problem.question), edit=edit)
    other = PROBLEM_EDITS[edit](random, problem)
    return Row(other, other.question, edit=edit)


def similarity(first: Row, second: Row) -> float:
    """Compute the Jaccard similarity of the word 5-grams of question and answer, without case and punctuation."""
    return jaccard(*(grams(words(f"{row.question} {row.problem.answer}"), GRAM) for row in (first, second)))


# --- rows ---


def repeat_exactly(original: Row) -> Row:
    """Make an exact duplicate."""
    return Row(original.problem, original.question, "exact", "verbatim", original)


def repeat_nearly(random: Random, original: Row, edit: str) -> Row | None:
    """Make a near duplicate by a small edit; None where the problem is too short to stay a near duplicate."""
    row = edited(random, original.problem, edit)
    row.kind, row.of = "near", original
    return row if similarity(row, original) >= SIMILAR else None


def vary_numbers(random: Random, original: Row, crowd: Crowd) -> Row | None:
    """Make a variant in other numbers, which is another problem and has to stay; None after 100 failed draws."""
    for _ in range(100):
        problem = original.problem.with_other_numbers(random)
        if problem is not None and crowd.admit(problem):
            return Row(problem, problem.question, "numbers", "numbers", original)
    return None


def leak(random: Random, problem: Problem, item: str, edit: str) -> Row:
    """Make a training row of a benchmark item."""
    row = edited(random, problem, edit)
    row.kind, row.of = "leak", item
    return row


def columns(random: Random, row: Row) -> dict[str, str | None]:
    """Write the row's columns: question, response with its trace, answer."""
    answer = row.problem.answer
    values: dict[str, str | None] = {
        "question": row.question,
        "response": _response(random, row.problem, row.trace),
        "answer": answer,
    }
    if row.kind != "broken":
        return values
    match row.edit:
        case "no question":
            values["question"] = ""
        case "no response":
            values["response"] = " \n"
        case "missing response":
            values["response"] = None
        case "nothing after the trace":
            values["response"] = f"<think>\n{row.problem.reasoning(random)}\n</think>\n\n"
        case "damaged encoding":
            values["question"] = "".join("\ufffd" if letter in "aeiou" else letter for letter in row.question)
        case _:
            raise AssertionError(row.edit)
    return values


def _response(random: Random, problem: Problem, trace: str) -> str:
    """Write the answer behind a reasoning trace, marked as in public data sets ("none": the answer alone)."""
    if trace == "none":
        return problem.answer
    thoughts = problem.reasoning(random)
    match trace:
        case "paired":
            return f"<think>\n{thoughts}\n</think>\n\n{problem.answer}"
        case "tokens":
            return (
                f"<|begin_of_thought|>\n\n{thoughts}\n\n<|end_of_thought|>\n\n"
                f"<|begin_of_solution|>\n\n{problem.answer}\n\n<|end_of_solution|>"
            )
        case "closing":
            return f"{thoughts}\n</think>\n\n{problem.answer}"
        case "unclosed":
            return f"<think>\n{thoughts[: int(len(thoughts) * (0.5 + 0.4 * random.random()))]}"
        case _:
            raise AssertionError(trace)
