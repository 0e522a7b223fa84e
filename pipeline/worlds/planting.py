"""What the built-in world does wrong on purpose: traces, duplicates, leaks and broken rows, each with its ground truth.

Clean stories are kept apart from each other and from the benchmarks (`Crowd`), so that whatever a stage removes beyond
what was planted is that stage's mistake. Without it a language of few words repeats itself by chance, and nobody could
say which pairs ought to be found.
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
    """One planned row of the training split. `of` is the row it repeats, or the id of the benchmark item it leaks."""

    story: Story
    question: str
    kind: str = "clean"
    edit: str | None = None
    of: Row | str | None = None
    trace: str = "none"


class Crowd:
    """Stories that no sound stage takes for one another.

    Two stories of one crowd with the same numbers have word 5-grams of a Jaccard similarity below 0.7 (and 3-grams
    below 0.8). No story holds as much as `COVERAGE` of the 5-grams of a benchmark question, nor of one about the same
    thing when all numbers are read as equal.
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
        """Take a story in unless it is too near to one already there or to a benchmark question."""
        keys = _keys(story)
        if not self._keys.isdisjoint(keys) or self._covers_item(story):
            return False
        self._keys.update(keys)
        return True

    def tell(self, random: Random, steps: Sequence[int]) -> Story:
        """A new story of one of these numbers of steps."""
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
    """The 5-grams of the question, and those without its numbers but with the thing in front."""
    exact = words(story.question)
    blind = ["0" if word.isdigit() else word for word in exact]
    return grams(exact, GRAM), frozenset((story.thing, *gram) for gram in grams(blind, GRAM))


def _keys(story: Story) -> list[tuple]:
    """Stories near each other share one of these.

    Where one verb is exchanged, either the first or the second half of the verbs is as it was; in a story of few steps
    that changes so much of the text that more has to agree. Steps that change places count as the same.
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


# --- edits of text: what a duplicate or a leak may look like ---


def _respace(random: Random, question: str) -> str:
    pieces = question.split(" ")
    return pieces[0] + "".join(pick(random, (" ", "  ", " ", "\n", " \t")) + piece for piece in pieces[1:]) + "  "


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
    """A row that tells `story` again in the way that `edit` names."""
    if edit in TEXT_EDITS:
        return Row(story, TEXT_EDITS[edit](random, story.question), edit=edit)
    other = STORY_EDITS[edit](random, story)
    return Row(other, other.question, edit=edit)


def similarity(first: Row, second: Row) -> float:
    """Jaccard similarity of the word 5-grams of question and answer, case and punctuation aside."""
    return jaccard(*(grams(words(f"{row.question} {row.story.answer}"), GRAM) for row in (first, second)))


# --- rows ---


def repeat_exactly(original: Row) -> Row:
    """The same document again."""
    return Row(original.story, original.question, "exact", "verbatim", original)


def repeat_nearly(random: Random, original: Row, edit: str) -> Row | None:
    """The same document with a small edit; None where the story is too short for it to remain a near duplicate."""
    row = edited(random, original.story, edit)
    row.kind, row.of = "near", original
    return row if similarity(row, original) >= SIMILAR else None


def vary_numbers(random: Random, original: Row, crowd: Crowd) -> Row | None:
    """The same words with other numbers: another problem, which has to stay. None where none was found."""
    for _ in range(100):
        story = with_other_numbers(random, original.story)
        if story is not None and crowd.admit(story):
            return Row(story, story.question, "numbers", "numbers", original)
    return None


def leak(random: Random, story: Story, item: str, edit: str) -> Row:
    """A benchmark item among the training rows."""
    row = edited(random, story, edit)
    row.kind, row.of = "leak", item
    return row


def columns(random: Random, row: Row) -> dict[str, str | None]:
    """The row as it is written: question, response with its trace, answer."""
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
    """The answer behind a reasoning trace in one of the markings that public data sets use (none: the answer alone)."""
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
