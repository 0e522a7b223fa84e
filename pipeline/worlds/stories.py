"""Generate arithmetic stories of a chosen number of chained steps.

Example of two steps: "Ann has 3 coins. She finds 4 more. Then she loses 2. How many coins does Ann have?"

All values stay within 0 to 9, so that the length of the chain is the only difficulty. The words are few: a tokenizer of
a few hundred tokens holds them whole, and a small model learns them in minutes. Random draws use only
`random.Random.random`, whose sequence Python promises to keep.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

Item = TypeVar("Item")

WOMEN = ("Ann", "Mia", "Eva", "Zoe", "Lily", "Rosa", "Ella", "Nora", "Ruth", "Jane", "Kate", "Lucy", "Mary", "Sara")
MEN = ("Ben", "Tom", "Sam", "Max", "Leo", "Dan", "Paul", "Jack", "Mark", "Hugo", "Noah", "Omar", "Eric", "Adam")
THINGS = (
    *("coins", "cards", "pens", "cups", "books", "balls", "keys", "stones", "shells", "stamps", "beads", "nuts"),
    *("plums", "pears", "toys", "hats", "figs", "eggs", "bricks", "badges", "rings", "boxes", "seeds", "roses"),
)
GAINS = ("finds", "buys", "gets", "wins", "makes")
LOSSES = ("loses", "sells", "drops", "breaks", "mails")
OPENINGS = ("{name} has {start} {thing}.", "{name} owns {start} {thing}.")
LINKS = ("{Pronoun}", "Then {pronoun}")
QUESTIONS = ("How many {thing} does {name} have?", "How many {thing} has {name} now?")
HIGHEST = 9
STARTS = (0, 2, 3, 4, 5, 6, 7, 8, 9)  # not 1, which would want the singular

_WORD = re.compile(r"[a-z]+|[0-9]")


@dataclass(frozen=True)
class Step:
    """One gain (`change` above 0) or loss: "Then she finds 4 more."."""

    verb: str
    change: int
    link: int


@dataclass(frozen=True)
class Story:
    """One problem; text, answer and reasoning follow from its fields."""

    name: str
    thing: str
    start: int
    steps: tuple[Step, ...]
    opening: int
    closing: int

    @property
    def values(self) -> tuple[int, ...]:
        """The values at the start and after each step."""
        values = [self.start]
        for step in self.steps:
            values.append(values[-1] + step.change)
        return tuple(values)

    @property
    def answer(self) -> str:
        """The final value, as text."""
        return str(self.values[-1])

    @property
    def question(self) -> str:
        """The problem in words."""
        pronoun = "she" if self.name in WOMEN else "he"
        opening = OPENINGS[self.opening].format(name=self.name, start=self.start, thing=self.thing)
        steps = [
            f"{LINKS[step.link].format(pronoun=pronoun, Pronoun=pronoun.capitalize())} {step.verb} {_amount(step)}."
            for step in self.steps
        ]
        return " ".join([opening, *steps, QUESTIONS[self.closing].format(name=self.name, thing=self.thing)])


def _amount(step: Step) -> str:
    return f"{step.change} more" if step.change > 0 else str(-step.change)


def pick(random: Random, items: Sequence[Item]) -> Item:
    """Draw one of `items`, by one call of `random.random`."""
    return items[int(random.random() * len(items))]


def shuffled(random: Random, items: Sequence[Item]) -> list[Item]:
    """Return `items` in random order, by calls of `random.random`."""
    items = list(items)
    for last in range(len(items) - 1, 0, -1):
        other = int(random.random() * (last + 1))
        items[last], items[other] = items[other], items[last]
    return items


def tell(random: Random, steps: int) -> Story:
    """Draw a new story. Each value is uniform over the values other than the previous one: answers are near uniform."""
    value = start = pick(random, STARTS)
    told = []
    for _ in range(steps):
        after = pick(random, [v for v in range(HIGHEST + 1) if v != value])
        told.append(
            Step(pick(random, GAINS if after > value else LOSSES), after - value, pick(random, range(len(LINKS))))
        )
        value = after
    return Story(
        name=pick(random, WOMEN + MEN),
        thing=pick(random, THINGS),
        start=start,
        steps=tuple(told),
        opening=pick(random, range(len(OPENINGS))),
        closing=pick(random, range(len(QUESTIONS))),
    )


def with_other_numbers(random: Random, story: Story) -> Story | None:
    """Change the numbers of a story: another problem in equal words. None when the draw leads out of 0 to 9."""
    value = start = pick(random, STARTS)
    steps = []
    for step in story.steps:
        room = HIGHEST - value if step.change > 0 else value
        if not room:
            return None
        change = 1 + pick(random, range(room))
        steps.append(replace(step, change=change if step.change > 0 else -change))
        value += steps[-1].change
    other = replace(story, start=start, steps=tuple(steps))
    return None if numbers(other) == numbers(story) else other


def with_another_verb(random: Random, story: Story) -> Story:
    """Exchange one verb for another of equal meaning."""
    place = pick(random, range(len(story.steps)))
    step = story.steps[place]
    verbs = [verb for verb in (GAINS if step.change > 0 else LOSSES) if verb != step.verb]
    changed = replace(step, verb=pick(random, verbs))
    return replace(story, steps=(*story.steps[:place], changed, *story.steps[place + 1 :]))


def with_another_name(random: Random, story: Story) -> Story:
    """Exchange the name for another of the same pronoun."""
    names = WOMEN if story.name in WOMEN else MEN
    return replace(story, name=pick(random, [name for name in names if name != story.name]))


def reasoning(random: Random, story: Story) -> str:
    """Write a long-winded way to the answer, like a reasoning model."""
    before, lines = story.start, []
    sums = []
    for step, after in zip(story.steps, story.values[1:], strict=True):
        sums.append(f"{before} {'+' if step.change > 0 else '-'} {abs(step.change)} = {after}")
        lines.append(f"{story.name} {step.verb} {_amount(step)}, so that is {sums[-1]}.")
        before = after
    start = pick(random, ("Okay, let me go through this one step at a time.", "Alright, I have to keep count here."))
    check = pick(random, ("Wait, let me check that again:", "Hmm, just to be sure, once more:"))
    return "\n".join(
        [
            f"{start} In the beginning {story.name} has {story.start} {story.thing}.",
            *lines,
            f"{check} {', then '.join(sums)}. That holds.",
            f"So the number of {story.thing} that {story.name} has in the end must be {story.answer}.",
        ]
    )


def numbers(story: Story) -> tuple[int, ...]:
    """List the numbers in the question, in order."""
    return (story.start, *(abs(step.change) for step in story.steps))


def words(text: str) -> list[str]:
    """Split a text into lower-case words and single digits, without punctuation."""
    return _WORD.findall(text.lower())


def grams(tokens: Sequence[str], size: int) -> frozenset[tuple[str, ...]]:
    """Return the set of n-grams of `size` tokens."""
    return frozenset(zip(*(tokens[offset:] for offset in range(size)), strict=False))


def jaccard(first: frozenset, second: frozenset) -> float:
    """Compute the Jaccard similarity of two sets; 1 for two empty ones."""
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared) if first or second else 1.0
