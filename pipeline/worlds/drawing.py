"""Draw items and shuffle lists with `random.Random.random`, the one method whose numbers Python promises to keep."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


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
