"""Grade one passage of a benchmark item in one document that shares n-grams with the passage.

Example: "Ann has 3 red pens and 4 blue cups in her bag, and Ben has none at all" has fourteen
5-grams. A document with "box" for "bag" has all words but one and both numbers: overlap, coverage
9/14. With 5 and 6 for 3 and 4: template, coverage 1, since coverage counts n-grams with the numbers
behind words masked. (`scan` runs this example.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dreamer_study.pipeline.decontaminate.agreement import Target
from dreamer_study.pipeline.decontaminate.passages import Options
from dreamer_study.pipeline.decontaminate.settings import OVERLAP, TEMPLATE, DecontaminationSettings
from dreamer_study.pipeline.text.ngrams import windows
from dreamer_study.pipeline.text.words import Words, mask_numbers

_SLACK = 4  # words that may be added before the first n-gram found, or behind the last one
_OPTION_WORDS = 40  # that may be between a stem and its options, or between options


class Passage:
    """Compare one passage of a benchmark item with documents that share n-grams with it."""

    def __init__(
        self,
        ids: np.ndarray,
        kinds: np.ndarray,
        places: np.ndarray,
        last: int,
        parts: Sequence[int],
        options: Options,
        settings: DecontaminationSettings,
    ) -> None:
        """Index the words.

        `places` are the places of their masked n-grams in the item index, `last` is the number of
        words of the last sentence, `parts` as in `Target`.
        """
        self.settings = settings
        self.length = len(ids)
        self.options = options
        # the first and the last word of each n-gram's occurrences in the passage
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for at, gram in enumerate(places.tolist()):
            self.first.setdefault(gram, at)
            self.last[gram] = at
        masked = mask_numbers(ids, kinds, np.zeros(1, np.int64))
        self.masked = windows(masked, settings.short_words).tolist()
        self.long: list[int] = []
        if self.length > settings.many_words:
            self.long = windows(ids, settings.long_words).tolist()
        self.target = Target(ids, kinds, last, parts)

    def grade(
        self, words: Words, inside: slice, grams: np.ndarray, at: np.ndarray
    ) -> tuple[str | None, float]:
        """Compute the grade, None for none, and the coverage in the document `inside`.

        `grams` are the places of the index's particular n-grams in the document, `at` their first
        words, ascending. Coverage is by masked short n-grams.
        """
        of_passage = np.array([gram in self.first for gram in grams.tolist()])
        stretch = self._stretch(grams[of_passage].tolist(), at[of_passage], inside)
        coverage = self.coverage(words, stretch)
        if self.is_copy(words, stretch, inside):
            return OVERLAP, coverage
        return (TEMPLATE if coverage >= self.settings.template_coverage else None), coverage

    def coverage(self, words: Words, stretch: slice) -> float:
        """Compute the share of the masked short n-grams that a stretch holds."""
        masked = mask_numbers(words.ids[stretch], words.kinds[stretch], np.zeros(1, np.int64))
        grams = windows(masked, self.settings.short_words).tolist()
        return _count_held(self.masked, grams) / max(len(self.masked), 1)

    def is_copy(self, words: Words, stretch: slice, inside: slice) -> bool:
        """Test whether the stretch of the document `inside` is an edited copy.

        The options that the passage needs must be there too.
        """
        if self.length > self.settings.many_words:
            grams = windows(words.ids[stretch], self.settings.long_words).tolist()
            needed = self.settings.long_coverage * len(self.long)
            return _count_held(self.long, grams) >= needed
        is_short = self.length < self.settings.few_words
        # A short passage without a number or options ("What is the answer?") could be anybody's.
        if is_short and not self.target.needed and not self.options:
            return False
        if not self.target.agrees(words, stretch, inside if is_short else None):
            return False
        return self.has_options(words, slice(stretch.start, inside.stop))

    def has_options(self, words: Words, behind: slice) -> bool:
        """Test whether all options that the passage needs are in the words `behind`.

        Their order is free.
        """
        room = 3 * sum(map(len, self.options)) + _OPTION_WORDS + 2 * self.length
        ids = words.ids[behind.start : min(behind.stop, behind.start + room)].tolist()
        return all(_contains(ids, option) for option in self.options)

    def _stretch(self, grams: list[int], at: np.ndarray, inside: slice) -> slice:
        """Locate the copy: the stretch of twice the passage's length with the most hits.

        N-grams that are farther apart are no copy together.
        """
        ends = np.searchsorted(at, at + 2 * self.length)
        best = int(np.argmax(ends - np.arange(len(at))))
        end = int(ends[best]) - 1
        # As far as the passage may reach before its first hit and behind its last one.
        start = int(at[best]) - self.last[grams[best]] - _SLACK
        stop = int(at[end]) + self.length - self.first[grams[end]] + _SLACK
        return slice(max(start, inside.start), min(stop, inside.stop))


def _count_held(grams: Sequence[int], document: Sequence[int]) -> int:
    """Count how many of these n-grams the document holds, repeated ones each time."""
    held = set(document)
    return sum(gram in held for gram in grams)


def _contains(ids: list[int], option: tuple[int, ...]) -> bool:
    for at, word in enumerate(ids):
        if word == option[0] and tuple(ids[at : at + len(option)]) == option:
            return True
    return False
