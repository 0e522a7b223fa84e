"""Grade how much of one benchmark passage a document covers, for what is no exact copy.

Example: "Ann has 3 red pens and 4 blue cups in her bag" has eight 5-grams and two numbers. A document with "box" for
"bag" covers seven 5-grams and both numbers: overlap, coverage 7/8. With 5 and 6 for 3 and 4 no number agrees: template,
coverage 7/8, since coverage counts n-grams with numbers masked. (`scan` runs this example.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.decontaminate.settings import OVERLAP, TEMPLATE, DecontaminationSettings
from pipeline.text.ngrams import windows
from pipeline.text.words import NUMBER, mask_numbers

_LEAST_GRAMS = 3  # short n-grams to find at least, however short the passage
_AMPLE_GRAMS = 7  # short n-grams found that need no number to go with them


class Passage:
    """Compare one question or answer of a benchmark item with documents that have n-grams in common with the item."""

    def __init__(
        self, ids: np.ndarray, kinds: np.ndarray, places: np.ndarray, settings: DecontaminationSettings
    ) -> None:
        """Take ids and kinds of the words, and the places of the masked short n-grams in the item index."""
        self.settings, self.length = settings, len(ids)
        self.numbers = np.flatnonzero(kinds == NUMBER).tolist()
        self.short, self.long = (windows(ids, n).tolist() for n in (settings.short_words, settings.long_words))
        self.masked = windows(mask_numbers(ids, kinds), settings.short_words).tolist()
        self.places = frozenset(places.tolist())

    def grade(self, ids: np.ndarray, kinds: np.ndarray, grams: np.ndarray, at: np.ndarray) -> tuple[str | None, float]:
        """Compute the grade, None for none, and the coverage by masked short n-grams in a document of these words.

        `grams` are the places of the index's particular n-grams in the document, `at` their first words, ascending.
        """
        settings = self.settings
        hits = at[[place in self.places for place in grams.tolist()]]
        # Only what stands together is a copy: the stretch of twice the passage's length with the most hits.
        ends = np.searchsorted(hits, hits + 2 * self.length)
        best = int(np.argmax(ends - np.arange(len(hits))))
        first = max(int(hits[best]) - settings.long_words, 0)
        stop = int(hits[ends[best] - 1]) + settings.short_words + settings.long_words
        around = slice(first, stop + settings.short_words - 1)
        masked = windows(mask_numbers(ids[around], kinds[around]), settings.short_words).tolist()
        short = windows(ids[first:stop], settings.short_words).tolist()
        long = windows(ids[first:stop], settings.long_words).tolist()
        coverage = _covered(self.masked, masked) / len(self.masked)
        found = _covered(self.short, short)
        literal = _covered(self.long, long) >= settings.long_coverage * len(self.long) or found >= max(
            settings.short_coverage * len(self.short), _LEAST_GRAMS
        )
        if literal and self._numbers_agree(masked, short, found):
            return OVERLAP, coverage
        return (TEMPLATE if literal or coverage >= settings.template_coverage else None), coverage

    def _numbers_agree(self, masked: Sequence[int], short: Sequence[int], found: int) -> bool:
        """Test whether enough of the numbers whose neighbours are found are equal; at least one, if little is found.

        `masked` and `short` are the document's n-grams at equal places, with numbers masked and as they are.
        """
        ours = set(self.short)
        theirs = {gram for gram, literal in zip(masked, short, strict=False) if literal not in ours}
        same, other = set(short), [gram in theirs for gram in self.masked]
        kept = replaced = 0
        for at in self.numbers:
            around = slice(max(at - self.settings.short_words + 1, 0), at + 1)
            here = not same.isdisjoint(self.short[around])
            kept += here
            replaced += any(other[around]) and not here
        enough = kept >= self.settings.numbers_kept * (kept + replaced)
        return enough and (kept > 0 or found >= _AMPLE_GRAMS or not self.numbers)


def _covered(grams: Sequence[int], document: Sequence[int]) -> int:
    """Count how many of these n-grams the document holds, repeated ones each time."""
    held = set(document)
    return sum(gram in held for gram in grams)
