"""Draw at random, and compare texts.

What is drawn is drawn by `random.Random.random`, the one method whose numbers Python promises to
keep.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")
HIGHEST = 9  # number in a story, and its lowest is 0
STARTS = (0, 2, 3, 4, 5, 6, 7, 8, 9)  # not 1, which would want the singular
DIGITS = tuple(map(str, range(HIGHEST + 1)))
GRAM = 5
_WORD = re.compile(r"[a-z]+|[0-9]")


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
