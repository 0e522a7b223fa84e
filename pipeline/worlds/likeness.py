"""Compare short texts by the word n-grams that they have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[a-z]+|[0-9]")


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
