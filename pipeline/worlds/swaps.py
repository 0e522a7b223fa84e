"""Generate problems in which a thing lies under one of five cups, and people swap cups.

Example of two steps: "The coin is under cup 2. Ann swaps cups 2 and 3. Tom swaps cups 1 and 3. Where is the coin?"

Each swap is a permutation of the cups, and permutations do not commute. So a model has to follow the swaps in order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from pipeline.worlds.problem import NAMES, Problem, pick, words

THINGS = ("coin", "ball", "key", "ring", "nut", "pearl", "shell", "bead")
ARTICLES = ("The", "A")
CUPS = (1, 2, 3, 4, 5)
MOVED = 2 / 3  # of the swaps move the thing; by chance alone, a swap of two of five cups seldom would


@dataclass(frozen=True)
class Swap:
    """One person's exchange of two cups."""

    name: str
    first: int
    second: int


@dataclass(frozen=True)
class Shuffle(Problem):
    """A problem that hides a thing under a cup, swaps cups, and asks under which cup the thing is."""

    thing: str
    start: int
    swaps: tuple[Swap, ...]
    article: int

    @property
    def places(self) -> tuple[int, ...]:
        """The cups that the thing is under, at the start and after each swap."""
        places = [self.start]
        for swap in self.swaps:
            places.append({swap.first: swap.second, swap.second: swap.first}.get(places[-1], places[-1]))
        return tuple(places)

    @cached_property
    def question(self) -> str:
        opening = f"{ARTICLES[self.article]} {self.thing} is under cup {self.start}."
        return " ".join([opening, *map(_tell, self.swaps), f"Where is the {self.thing}?"])

    @property
    def answer(self) -> str:
        return str(self.places[-1])

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.start, *(cup for swap in self.swaps for cup in (swap.first, swap.second)))

    def reasoning(self, random: Random) -> str:
        start = pick(random, ("Okay, let me follow the cups.", "Alright, I have to keep an eye on the cup."))
        lines = [
            f"{_tell(swap)[:-1]}, so the {self.thing} " + (f"stays under cup {after}." if before == after else
            f"goes from cup {before} to cup {after}.")
            for swap, before, after in zip(self.swaps, self.places, self.places[1:], strict=False)
        ]  # fmt: skip
        check = pick(random, ("Wait, were all swaps counted? Yes.", "Hmm, that was the last swap."))
        end = f"So in the end the {self.thing} must be under cup {self.answer}."
        return "\n".join([f"{start} At first the {self.thing} is under cup {self.start}.", *lines, f"{check} {end}"])

    def with_other_numbers(self, random: Random) -> Shuffle:
        drawn = draw(random, len(self.swaps))
        swaps = tuple(replace(swap, name=own.name) for swap, own in zip(drawn.swaps, self.swaps, strict=True))
        return replace(self, start=drawn.start, swaps=swaps)

    def with_another_word(self, random: Random) -> Shuffle:
        return replace(self, article=1 - self.article)

    def with_another_name(self, random: Random) -> Shuffle:
        old = pick(random, self.swaps).name
        new = pick(random, [name for name in NAMES if all(name != swap.name for swap in self.swaps)])
        return replace(self, swaps=tuple(replace(s, name=new) if s.name == old else s for s in self.swaps))

    def marks(self) -> Iterator[tuple[Hashable, Sequence[str]]]:
        """Yield the question behind its numbers: the words are so few that only equal numbers tell."""
        yield self.numbers, words(self.question)


def _tell(swap: Swap) -> str:
    return f"{swap.name} swaps cups {swap.first} and {swap.second}."


def draw(random: Random, steps: int) -> Shuffle:
    """Draw a new problem. Start and swaps treat all cups alike: answers are near uniform."""
    place = start = pick(random, CUPS)
    swaps = []
    for _ in range(steps):
        others = [cup for cup in CUPS if cup != place]
        second = pick(random, others)
        if random.random() < MOVED:
            first, after = place, second
        else:
            first, after = pick(random, [cup for cup in others if cup != second]), place
        pair = (first, second) if random.random() < 0.5 else (second, first)
        swaps.append(Swap(pick(random, NAMES), *pair))
        place = after
    return Shuffle(thing=pick(random, THINGS), start=start, swaps=tuple(swaps), article=pick(random, range(2)))
