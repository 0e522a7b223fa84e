"""Compare short texts by the word n-grams that they have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Sketch:
    """A set in few bytes: its size, and for each member one of 256 bits.

    Members that set a bit which another sketch has not are not in the other set. So two sketches tell how many members
    the sets have in common at most, faster than the sets tell how many they have.
    """

    size: int
    bits: int

    @classmethod
    def of(cls, members: frozenset) -> Sketch:
        """Sketch a set. Which bits are set differs between processes."""
        bits = 0
        for member in members:
            bits |= 1 << (hash(member) & 255)
        return cls(len(members), bits)

    def may_reach(self, least: float, other: Sketch) -> bool:
        """Test whether the Jaccard similarity of the two sets may be `least` or more."""
        common = self.bits & other.bits
        shared = min(self.size - (self.bits ^ common).bit_count(), other.size - (other.bits ^ common).bit_count())
        return shared / (self.size + other.size - shared) >= least
