"""One passage of a benchmark item compared with one document that shares something with it: grade and coverage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.text.ngrams import NUMBER, windows

EXACT, OVERLAP, TEMPLATE = GRADES = ("exact", "overlap", "template")
_LEAST_GRAMS = 3  # short n-grams to find at least, whatever share of a short passage fewer may be
_AMPLE_GRAMS = 7  # short n-grams found that need no number to go with them


@dataclass(frozen=True)
class Rules:
    """Lengths of n-grams in words, and shares of a passage's n-grams that a document must hold."""

    long: int
    long_coverage: float
    short: int
    short_coverage: float
    template_coverage: float
    particular_coverage: float
    numbers_kept: float
    shortest: int
    shortest_answer: int


class Passage:
    """One question or answer of a benchmark item, to be compared with documents that share something with it."""

    def __init__(
        self,
        ids: np.ndarray,
        kinds: np.ndarray,
        short: np.ndarray,
        blind: np.ndarray,
        places: np.ndarray,
        rules: Rules,
    ) -> None:
        """Words, kinds of words, n-grams as they are and with all numbers equal, and the index's places of these."""
        self.rules, self.length = rules, len(ids)
        self.numbers = np.flatnonzero(kinds == NUMBER).tolist()
        self.short, self.blind, self.long = short.tolist(), blind.tolist(), windows(ids, rules.long).tolist()
        self.places = frozenset(places.tolist())

    def compare(
        self, ids: np.ndarray, kinds: np.ndarray, grams: np.ndarray, at: np.ndarray
    ) -> tuple[str | None, float]:
        """Grade and coverage of this passage in a document of these words, for what is not exact.

        `grams` are the index's particular n-grams in the document, `at` the first word of each, ascending.
        """
        rules = self.rules
        hits = at[[place in self.places for place in grams.tolist()]]
        # Only what stands together is a copy: the stretch of twice the passage's length with the most hits.
        ends = np.searchsorted(hits, hits + 2 * self.length)
        best = int(np.argmax(ends - np.arange(len(hits))))
        first = max(int(hits[best]) - rules.long, 0)
        last = int(hits[ends[best] - 1]) + rules.short + rules.long
        around = slice(first, last + rules.short - 1)
        blinds = windows(without_numbers(ids[around], kinds[around]), rules.short).tolist()
        shorts = windows(ids[first:last], rules.short).tolist()
        coverage = _found(self.blind, blinds) / len(self.blind)
        found = _found(self.short, shorts)
        found_long = _found(self.long, windows(ids[first:last], rules.long).tolist())
        literal = found_long >= rules.long_coverage * len(self.long) or found >= max(
            rules.short_coverage * len(self.short), _LEAST_GRAMS
        )
        if literal and self._numbers_agree(blinds, shorts, found):
            return OVERLAP, coverage
        return (TEMPLATE if literal or coverage >= rules.template_coverage else None), coverage

    def _numbers_agree(self, blinds: list[int], shorts: list[int], found: int) -> bool:
        """Whether, of the numbers whose neighbours are found, enough are the same; one at least, if little is found.

        `blinds` and `shorts` are the document's n-grams at the same places, with all numbers equal and as they are.
        """
        ours = set(self.short)
        theirs = {blind for blind, short in zip(blinds, shorts, strict=False) if short not in ours}
        same, other = set(shorts), [gram in theirs for gram in self.blind]
        kept = replaced = 0
        for at in self.numbers:
            around = slice(max(at - self.rules.short + 1, 0), at + 1)
            here = not same.isdisjoint(self.short[around])
            kept += here
            replaced += any(other[around]) and not here
        enough = kept >= self.rules.numbers_kept * (kept + replaced)
        return enough and (kept > 0 or found >= _AMPLE_GRAMS or not self.numbers)


def _found(grams: list[int], document: list[int]) -> int:
    """How many of these n-grams the document holds, repeated ones each time."""
    there = set(document)
    return sum(gram in there for gram in grams)


def without_numbers(ids: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Word ids uint64 [W] with all numbers equal."""
    return ids * (kinds != NUMBER)
