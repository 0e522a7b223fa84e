"""Index the passages of benchmark items by their n-grams.

The index maps short n-grams with numbers masked to passages, and knows which of these n-grams are
particular, that is, rare in the documents and not made of masked numbers and signs only.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.decontaminate.coverage import Passage
from dreamer_study.pipeline.decontaminate.judgement import Problem
from dreamer_study.pipeline.decontaminate.passages import QUESTION, read_passages
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from dreamer_study.pipeline.text.arrays import IdTable, bounds, ranges, unique
from dreamer_study.pipeline.text.ngrams import gathered_ids, ngrams, sequence_ids, windows
from dreamer_study.pipeline.text.words import LETTERS, NUMBER, Words, mask_numbers, number_sums

_FEW_PASSAGES = 64  # with the same numbers: what more have in common says nothing of one of them
_LEAST_LETTER_WORDS = 2  # that an n-gram must hold to be particular


class InvertedIndex:
    """Map n-gram ids to the passages that hold them.

    Passages 0 and 1 hold the n-gram 70, passage 0 also 90; a document holds 90, 80 and 70, of which
    the index has two:

    >>> index = InvertedIndex(np.array([70, 90, 70], np.uint64), np.array([0, 0, 1]))
    >>> at, places = index.table.find(np.array([90, 80, 70], np.uint64))
    >>> documents, passages, counts = index.common(np.zeros(2, np.int64), places)
    >>> documents.tolist(), passages.tolist(), counts.tolist()
    ([0, 0], [0, 1], [2, 1])
    """

    def __init__(self, grams: np.ndarray, passages: np.ndarray) -> None:
        """Take pairs of n-gram id and passage.

        `places` int64 are the places of the pairs' n-grams in the sorted table.
        """
        ids, self.places = np.unique(grams, return_inverse=True)
        self.table = IdTable(ids)
        self.size = max(len(ids), 1)
        self._count = int(passages.max(initial=0)) + 1
        # A pair (n-gram, passage) as one number, n-gram first: one sort removes repeated pairs and
        # groups them by n-gram.
        pairs = unique(self.places * self._count + passages)
        places, self.passages = np.divmod(pairs, self._count)
        self._offsets = np.searchsorted(places, np.arange(len(ids) + 1))

    def passages_of(self, place: int) -> list[int]:
        """List the passages that hold the n-gram at a place of the table."""
        return self.passages[self._offsets[place] : self._offsets[place + 1]].tolist()

    def common(
        self, documents: np.ndarray, grams: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Count the different n-grams that documents and passages have in common.

        `grams` int64 [H] are the places of n-grams that are in `documents` int64 [H]. Returns
        documents, passages and counts, one each for every pair that has any in common.
        """
        documents, grams = np.divmod(unique(documents * self.size + grams), self.size)
        entries, offsets = ranges(self._offsets[grams], self._offsets[grams + 1])
        pairs = np.repeat(documents, np.diff(offsets)) * self._count + self.passages[entries]
        pairs, counts = np.unique(pairs, return_counts=True)
        return *np.divmod(pairs, self._count), counts


class ItemIndex:
    """Hold all passages of the benchmark items, P in all, in flat arrays.

    The words of passage p are `ids` and `kinds` at `offsets[p]:offsets[p + 1]`, its short n-grams
    `short` (as they are) at `short_offsets[p]:short_offsets[p + 1]`, with `places` of their masked
    form in `masked`. Passages shorter than an n-gram are not `searched`; questions among them match
    as a whole.
    """

    def __init__(self, items: pa.Table, settings: DecontaminationSettings) -> None:
        """Take a table with the columns question and answer, and perhaps options and solution."""
        self.settings = settings
        self.table = items
        passages = read_passages(items, settings)
        self.items = passages.items
        self.passage_kinds = passages.kinds
        self.offsets = passages.offsets
        self.ids = passages.ids
        self.kinds = passages.word_kinds
        self.last = passages.last
        self.options = passages.options
        self.parts = passages.parts
        self.texts = passages.questions
        self.lengths = np.diff(self.offsets)
        self.question = self.passage_kinds == QUESTION
        self.sequences = sequence_ids(self.ids, self.offsets[:-1], self.offsets[1:])
        self.searched = self.lengths >= settings.short_words
        self._index_short_questions()
        self._index_ngrams()
        self._choose_anchors()
        self._index_numbers()
        self.passage_at = lru_cache(1 << 12)(self._passage_at)
        self.problem_at = lru_cache(1 << 12)(self._problem_at)

    def _index_short_questions(self) -> None:
        """Index the questions that match as a whole. Equal ones may have different options."""
        whole = np.flatnonzero(self.question & ~self.searched)
        self.whole = InvertedIndex(self.sequences[whole], whole)

    def _index_ngrams(self) -> None:
        """Index the masked n-grams of the searched passages.

        `passage` and `used` say of which passage a short n-gram is, and whether it is searched for.
        """
        self.short, self.short_offsets = ngrams(self.ids, self.offsets, self.settings.short_words)
        self.passage = np.repeat(np.arange(len(self.items)), np.diff(self.short_offsets))
        self.used = self.searched[self.passage]
        words = mask_numbers(self.ids, self.kinds, self.offsets)
        masked, _ = ngrams(words, self.offsets, self.settings.short_words)
        self.masked = InvertedIndex(masked[self.used], self.passage[self.used])
        self.places = np.full(len(masked), -1)
        self.places[self.used] = self.masked.places

    def _choose_anchors(self) -> None:
        """Choose the n-gram by which exact copies of each searched passage are found.

        That is the rarest one among the items. `repeats` int64 are the numbers of times that each
        n-gram occurs in the items; `anchors` the chosen ones, with their numbers, ascending;
        `anchor_passages` their passages; `anchor_at` their places in the passages.
        """
        _, same, counts = np.unique(self.short, return_inverse=True, return_counts=True)
        self.repeats = counts[same]
        candidates = np.flatnonzero(self.used)
        # A number that begins a passage is masked, which it may not be behind other words.
        passages = self.passage[candidates]
        begins = candidates == self.short_offsets[passages]
        begins &= self.kinds[self.offsets[passages]] == NUMBER
        # by passage, then by rarity: the first of each passage is its rarest
        candidates = candidates[np.lexsort((self.repeats[candidates], begins, passages))]
        rarest = candidates[np.diff(self.passage[candidates], prepend=-1) > 0]
        rarest = rarest[np.argsort(self.short[rarest], kind="stable")]
        self.anchors = self.short[rarest]
        self.anchor_passages = self.passage[rarest]
        self.anchor_at = rarest - self.short_offsets[self.anchor_passages]
        self.anchored = np.zeros(self.masked.size, bool)
        self.anchored[self.places[rarest]] = True

    def _index_numbers(self) -> None:
        """Index the questions by their numbers in any order, where few have the same numbers."""
        self.numbers = np.diff(bounds(self.kinds == NUMBER)[self.offsets])
        sums = number_sums(self.ids, self.kinds, self.offsets[:-1], self.offsets[1:])
        asked = np.flatnonzero(self.question & (sums != 0))
        _, same, counts = np.unique(sums[asked], return_inverse=True, return_counts=True)
        telling = asked[counts[same] <= _FEW_PASSAGES]
        self.of_numbers = InvertedIndex(sums[telling], telling)

    def settle(self, frequencies: np.ndarray, common: int) -> None:
        """Decide which n-grams are particular: worded, and in at most `common` sampled documents.

        `frequencies` int64 are the numbers of sampled documents that hold each masked n-gram.
        """
        self.particular = frequencies <= common
        self.particular[self.places[self.used & ~self._worded()]] = False
        # Unused n-grams have the place -1, which reads the last one: `used` masks them out.
        particular = self.used & self.particular[self.places]
        counts = np.bincount(self.passage[particular], minlength=len(self.items))
        share = self.settings.particular_coverage * np.diff(self.short_offsets)
        needed = np.maximum(np.ceil(share), 1)
        self.needed = np.where(self.lengths < self.settings.few_words, 1, needed)
        self.graded = self.lengths >= self.settings.shortest
        # of the questions that are found exact only, or by their numbers
        self.templated = int(((counts < self.needed) & self.searched & self.question).sum())

    def _worded(self) -> np.ndarray:
        """Tell which short n-grams say something with their numbers masked, bool.

        They have words of letters, or nothing in them is masked, as in "3, 5, 7, 9".
        """
        in_passage = np.arange(len(self.short)) - self.short_offsets[self.passage]
        first_word = in_passage + self.offsets[self.passage]
        stop = first_word + self.settings.short_words
        letters_before = bounds(self.kinds == LETTERS)
        masked_before = bounds(mask_numbers(self.ids, self.kinds, self.offsets) == 0)
        letters = letters_before[stop] - letters_before[first_word]
        masked = masked_before[stop] - masked_before[first_word]
        return (letters >= _LEAST_LETTER_WORDS) | (masked == 0)

    def hits(self, words: Words) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the masked n-grams of a block of documents.

        Returns int64 [H] document, place in `masked`, first word, in the order of the words.
        """
        n = self.settings.short_words
        masked = mask_numbers(words.ids, words.kinds, words.offsets)
        at, places = self.masked.table.find(windows(masked, n))
        documents = np.searchsorted(words.offsets, at, "right") - 1
        inside = at + n <= words.offsets[documents + 1]  # not beyond the end of its document
        return documents[inside], places[inside], at[inside]

    def copies(
        self, words: Words, documents: np.ndarray, grams: np.ndarray, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find passages that are in a document word for word, from its `hits`.

        Returns documents, passages, first words.
        """
        anchored = self.anchored[grams]
        documents = documents[anchored]
        at = at[anchored]
        grams = gathered_ids(words.ids, at, at + self.settings.short_words)
        first = np.searchsorted(self.anchors, grams)
        stop = np.searchsorted(self.anchors, grams, "right")
        entries, offsets = ranges(first, stop)
        repeats = np.diff(offsets)  # passages with this anchor
        documents = np.repeat(documents, repeats)
        at = np.repeat(at, repeats)
        passages = self.anchor_passages[entries]
        starts = at - self.anchor_at[entries]
        stops = starts + self.lengths[passages]
        inside = (starts >= words.offsets[documents]) & (stops <= words.offsets[documents + 1])
        documents = documents[inside]
        passages = passages[inside]
        starts = starts[inside]
        same = gathered_ids(words.ids, starts, stops[inside]) == self.sequences[passages]
        return documents[same], passages[same], starts[same]

    def _passage_at(self, number: int) -> Passage:
        words = slice(self.offsets[number], self.offsets[number + 1])
        short = slice(self.short_offsets[number], self.short_offsets[number + 1])
        return Passage(
            self.ids[words],
            self.kinds[words],
            self.places[short],
            int(self.last[number]),
            self.parts.get(number, ()),
            self.options.get(number, ()),
            self.settings,
        )

    def _problem_at(self, number: int) -> Problem:
        words = slice(self.offsets[number], self.offsets[number + 1])
        row = int(self.items[number])
        text = self.table["question"][row].as_py() or ""
        answer = self.table["answer"][row].as_py() or ""
        ids = self.ids[words]
        return Problem(text, answer, ids, self.kinds[words], whole=self.texts[row])
