"""Define what every problem of the built-in world has, whatever its family; draw at random, and compare texts.

What is drawn is drawn by `random.Random.random`, the one method whose numbers Python promises to keep.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TypeVar

Item = TypeVar("Item")
NAMES = ("Ann", "Ben", "Eva", "Leo", "Mia", "Sam", "Tom", "Zoe")
HIGHEST = 9  # number in a problem, and its lowest is 0
STARTS = (0, 2, 3, 4, 5, 6, 7, 8, 9)  # not 1, which would want the singular
DIGITS = tuple(map(str, range(HIGHEST + 1)))
GRAM = 5
MOST_ALIKE = {5: 0.7, 3: 0.8}  # Jaccard similarity, by length of n-gram, from which two problems are alike
_WORD = re.compile(r"[a-z]+|[0-9]")


class Problem(ABC):
    """One problem; text, answer and reasoning follow from the fields of its family's dataclass."""

    thing: str  # that the question is about
    question: str  # the problem in words
    answer: str  # the one right answer: a digit
    numbers: tuple[int, ...]  # in the question, in order

    @abstractmethod
    def reasoning(self, random: Random) -> str:
        """Write a long-winded way to the answer, like a reasoning model."""

    @abstractmethod
    def with_other_numbers(self, random: Random) -> Problem | None:
        """Draw the numbers again: a problem in equal words. None where the draw gives no such problem."""

    @abstractmethod
    def with_another_word(self, random: Random) -> Problem:
        """Exchange one word for another of equal meaning."""

    @abstractmethod
    def with_another_name(self, random: Random) -> Problem:
        """Exchange a person's name for another, wherever it stands."""

    def keys(self) -> list[tuple]:
        """Return keys of which similar problems have one in common."""
        return [(self.thing, *sorted(self.numbers))]

    def resembles(self, others: Sequence[Problem]) -> bool:
        """Test whether one of the problems with a common key is so similar that it may be taken for a duplicate."""
        own = {size: grams(self.told, size) for size in MOST_ALIKE} if others else {}
        return any(
            jaccard(own[size], grams(other.told, size)) >= most for other in others for size, most in MOST_ALIKE.items()
        )

    @cached_property
    def told(self) -> list[str]:
        """The words of the question and the answer."""
        return words(f"{self.question} {self.answer}")

    def marks(self) -> Iterator[tuple[Hashable, Sequence[str]]]:
        """Yield texts as words, each behind what has to agree before n-grams are compared.

        A problem that holds many n-grams of one text of a benchmark item may be taken for a leak.
        """
        yield None, words(self.question)


@dataclass(frozen=True)
class Family:
    """A kind of problems: how a problem of a number of steps is drawn, and the numbers of steps that are asked for."""

    draw: Callable[[Random, int], Problem]
    steps: range


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
