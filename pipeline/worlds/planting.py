"""Plant faults in the built-in world: traces, duplicates, leaks and broken rows, each with its ground truth.

Clean stories are kept dissimilar to each other and to the benchmarks (`Crowd`): without that, a language of few words
repeats itself by chance. So every document that a stage removes beyond the planted faults is a mistake of the stage.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random

from pipeline.errors import InputError
from pipeline.worlds.stories import (
    Story,
    grams,
    jaccard,
    pick,
    reasoning,
    tell,
    with_another_name,
    with_another_verb,
    with_other_numbers,
    words,
)

TRACE_KINDS = ("none", "paired", "tokens", "closing")
BROKEN_KINDS = ("no question", "no response", "missing response", "nothing after the trace", "damaged encoding")
GRAM = 5
COVERAGE = 0.4
SIMILAR = 0.72
TRIES = 10_000


@dataclass
class Row:
    """One row of the training split. `of` is the row that it repeats, or the id of the benchmark item that it leaks."""

    story: Story
    question: str
    kind: str = "clean"
    edit: str | None = None
    of: Row | str | None = None
    trace: str = "none"


class Crowd:
    """A set of stories that no correct stage takes for duplicates of each other or for benchmark items.

    Two stories of a crowd with equal numbers have a Jaccard similarity below 0.7 in word 5-grams (0.8 in 3-grams). No
    story contains the fraction `COVERAGE` of the 5-grams of a benchmark question, also when all numbers are equated and
    the question is about the same thing.
    """

    def __init__(self, benchmark: Iterable[Story] = ()) -> None:
        self._keys: set[tuple] = set()
        self._items: dict[tuple[str, ...], list[int]] = defaultdict(list)  # gram -> places in `_limits`
        self._limits: list[float] = []
        for story in benchmark:
            for found in _grams_of_question(story):
                for gram in found:
                    self._items[gram].append(len(self._limits))
                self._limits.append(COVERAGE * len(found))

    def admit(self, story: Story) -> bool:
        """Add a story, unless it is too similar to a story of the crowd or to a benchmark question."""
        keys = _keys(story)
        if not self._keys.isdisjoint(keys) or self._covers_item(story):
            return False
        self._keys.update(keys)
        return True

    def tell(self, random: Random, steps: Sequence[int]) -> Story:
        """Draw and add a story of one of these numbers of steps. Raises InputError when there is no room for more."""
        for _ in range(TRIES):
            story = tell(random, pick(random, steps))
            if self.admit(story):
                return story
        raise InputError(
            f"the built-in world has no room for more than {len(self._keys)} different stories of {steps[0]} to "
            f"{steps[-1]} steps: ask for fewer documents or more steps"
        )

    def _covers_item(self, story: Story) -> bool:
        exact, blind = _grams_of_question(story)
        hits = Counter(chain.from_iterable(self._items[gram] for gram in (exact | blind) & self._items.keys()))
        return any(count >= self._limits[place] for place, count in hits.items())


def _grams_of_question(story: Story) -> tuple[frozenset[tuple[str, ...]], frozenset[tuple[str, ...]]]:
    """Return the 5-grams of the question, and those with all numbers equated and the thing in front."""
    exact = words(story.question)
    blind = ["0" if word.isdigit() else word for word in exact]
    return grams(exact, GRAM), frozenset((story.thing, *gram) for gram in grams(blind, GRAM))


def _keys(story: Story) -> list[tuple]:
    """Return keys of which similar stories have one in common.

    Two stories that differ in one verb agree in the first or the second half of the verbs. In a story of few steps, one
    verb is a large part of the text, so that more has to agree. The order of steps does not count.
    """
    problem = (story.thing, story.start, *sorted(step.change for step in story.steps))
    verbs = [step.verb for step in story.steps]
    if len(verbs) == 1:
        return [(problem, *verbs, story.name, story.closing, story.steps[0].link)]
    if len(verbs) == 2:
        return [(problem, *sorted(verbs), *sorted(step.link for step in story.steps))]
    if len(verbs) == 3:
        return [(problem, *sorted(verbs))]
    half = len(verbs) // 2
    return [(problem, "first", *sorted(verbs[:half])), (problem, "second", *sorted(verbs[half:]))]


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
STORY_EDITS: dict[str, Callable[[Random, Story], Story]] = {"word": with_another_verb, "name": with_another_name}
EDITS = (*TEXT_EDITS, *STORY_EDITS)


def edited(random: Random, story: Story, edit: str) -> Row:
    """Make a row of `story` after the edit of that name."""
    if edit in TEXT_EDITS:
        return Row(story, TEXT_EDITS[edit](random, story.question), edit=edit)
    other = STORY_EDITS[edit](random, story)
    return Row(other, other.question, edit=edit)


def similarity(first: Row, second: Row) -> float:
    """Compute the Jaccard similarity of the word 5-grams of question and answer, without case and punctuation."""
    return jaccard(*(grams(words(f"{row.question} {row.story.answer}"), GRAM) for row in (first, second)))


# --- rows ---


def repeat_exactly(original: Row) -> Row:
    """Make an exact duplicate."""
    return Row(original.story, original.question, "exact", "verbatim", original)


def repeat_nearly(random: Random, original: Row, edit: str) -> Row | None:
    """Make a near duplicate by a small edit; None where the story is too short to stay a near duplicate."""
    row = edited(random, original.story, edit)
    row.kind, row.of = "near", original
    return row if similarity(row, original) >= SIMILAR else None


def vary_numbers(random: Random, original: Row, crowd: Crowd) -> Row | None:
    """Make a variant in other numbers, which is another problem and has to stay; None after 100 failed draws."""
    for _ in range(100):
        story = with_other_numbers(random, original.story)
        if story is not None and crowd.admit(story):
            return Row(story, story.question, "numbers", "numbers", original)
    return None


def leak(random: Random, story: Story, item: str, edit: str) -> Row:
    """Make a training row of a benchmark item."""
    row = edited(random, story, edit)
    row.kind, row.of = "leak", item
    return row


def columns(random: Random, row: Row) -> dict[str, str | None]:
    """Write the row's columns: question, response with its trace, answer."""
    answer = row.story.answer
    values: dict[str, str | None] = {
        "question": row.question,
        "response": _response(random, row.story, row.trace),
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
            values["response"] = f"<think>\n{reasoning(random, row.story)}\n</think>\n\n"
        case "damaged encoding":
            values["question"] = "".join("\ufffd" if letter in "aeiou" else letter for letter in row.question)
        case _:
            raise AssertionError(row.edit)
    return values


def _response(random: Random, story: Story, trace: str) -> str:
    """Write the answer behind a reasoning trace, marked as in public data sets ("none": the answer alone)."""
    if trace == "none":
        return story.answer
    thoughts = reasoning(random, story)
    match trace:
        case "paired":
            return f"<think>\n{thoughts}\n</think>\n\n{story.answer}"
        case "tokens":
            return (
                f"<|begin_of_thought|>\n\n{thoughts}\n\n<|end_of_thought|>\n\n"
                f"<|begin_of_solution|>\n\n{story.answer}\n\n<|end_of_solution|>"
            )
        case "closing":
            return f"{thoughts}\n</think>\n\n{story.answer}"
        case "unclosed":
            return f"<think>\n{thoughts[: int(len(thoughts) * (0.5 + 0.4 * random.random()))]}"
        case _:
            raise AssertionError(trace)
