"""Which benchmark items a document contains: an index of the items, and the scan of documents against it.

An item has one or two passages: its question, and its answer if that is a text of its own. A passage is found in a
document in three grades (the thresholds are those of `Rules`):

* exact: the document's question is the item's, or the passage stands in the document, word for word in normal form. A
  passage of few words counts only as the whole question.
* overlap: the document covers enough of the passage's n-grams, and of the numbers whose neighbours are found enough
  are the same. Or the document's question has the numbers of the item's and no others, and enough of its n-grams.
* template: it covers enough n-grams only when all numbers are read as equal, or the numbers are other ones.

N-grams say something only where they are particular. So a share of the passage's n-grams has to be found without those
that many documents share, whatever their numbers, and without those of figures and signs; only between questions with
the same numbers all n-grams will do. That keeps apart texts made from templates, in which each question shares most of
its words with thousands. Documents that hold the whole passage are not among the many: they are leaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.lookup import Lookup
from pipeline.ngrams import LETTERS, NUMBER, Words, blocks, fold, ngrams, sequence_ids, text_column, windows
from pipeline.ragged import ranges

EXACT, OVERLAP, TEMPLATE = GRADES = ("exact", "overlap", "template")
_ANY_NUMBER = np.uint64(0x6E756D6265720001)  # stands for every number where numbers are read as equal
_PLAIN_WORDS = 2  # words of letters that an n-gram must hold to be counted
_LEAST_GRAMS = 3  # short n-grams to find at least, whatever share of a short passage fewer may be
_AMPLE_GRAMS = 7  # short n-grams found that need no number to go with them
_BLOCK = 1 << 20  # bytes of text looked up at once: fewer calls for the few matches of each block

Found = dict[tuple[int, int], tuple[str, float]]  # (document, passage) -> (grade, coverage)


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


@dataclass(frozen=True)
class Match:
    """One item found in one document; `coverage` by short n-grams with all numbers equal, 1 if exact."""

    document: int
    item: int
    grade: str
    coverage: float


class Postings:
    """Which passages hold which n-grams."""

    def __init__(self, grams: np.ndarray, passages: np.ndarray) -> None:
        self.grams, self.places = np.unique(grams, return_inverse=True)
        self.lookup = Lookup(self.grams)
        pairs, _ = _distinct(self.places * (int(passages.max(initial=0)) + 1) + passages)
        self.count = int(passages.max(initial=0)) + 1
        places, self.passages = np.divmod(pairs, self.count)
        self.offsets = np.searchsorted(places, np.arange(len(self.grams) + 1))

    def expand(self, grams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For n-grams (places in `grams`) the passages that hold them, one after the other, and how many each."""
        entries, bounds = ranges(self.offsets[grams], self.offsets[grams + 1])
        return self.passages[entries], np.diff(bounds)

    def shared(self, documents: np.ndarray, grams: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Documents, passages, and how many of the n-grams they share, from documents and n-grams that meet."""
        keys, _ = _distinct(documents * max(len(self.grams), 1) + grams)
        documents, grams = np.divmod(keys, max(len(self.grams), 1))
        passages, counts = self.expand(grams)
        keys, counts = _distinct(np.repeat(documents, counts) * self.count + passages)
        return *np.divmod(keys, self.count), counts


def _distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different keys in order, and how often each is there."""
    keys = np.sort(keys)
    new = np.flatnonzero(np.diff(keys, prepend=-1) > 0)
    return keys[new], np.diff(np.append(new, len(keys)))


class Index:
    """All passages of the benchmark items, P in all, to look documents up in.

    Words and n-grams of the passages lie in flat arrays, those of passage p at `offsets[p]:offsets[p + 1]` and
    `short_offsets[p]:short_offsets[p + 1]`.
    """

    def __init__(self, questions: pa.Array, answers: pa.Array, rules: Rules) -> None:
        self.rules = rules
        sides = [_words(questions, 1), _words(answers, rules.shortest_answer)]
        self.items = np.concatenate([items for items, _, _, _ in sides])
        self.question = np.repeat([True, False], [len(items) for items, _, _, _ in sides])
        self.lengths = np.concatenate([lengths for _, lengths, _, _ in sides])
        self.ids, self.kinds = (np.concatenate([side[k] for side in sides]) for k in (2, 3))
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.sequences = sequence_ids(self.ids, self.offsets[:-1], self.offsets[1:])
        self.searched = self.lengths >= rules.shortest
        whole = np.flatnonzero(self.question & ~self.searched)
        wholes, first = np.unique(self.sequences[whole], return_index=True)
        self.wholes, self.whole_passages = Lookup(wholes), whole[first]

        self.short, self.short_offsets = ngrams(self.ids, self.offsets, rules.short)
        self.blind, _ = ngrams(_blind(self.ids, self.kinds), self.offsets, rules.short)
        self.passage = np.repeat(np.arange(len(self.items)), np.diff(self.short_offsets))  # of each short n-gram
        first = np.arange(len(self.short)) - self.short_offsets[self.passage] + self.offsets[self.passage]
        letters = np.concatenate([[0], np.cumsum(self.kinds == LETTERS)])
        self.plain = letters[first + rules.short] - letters[first] >= _PLAIN_WORDS
        some = self.searched[self.passage]
        self.blind_postings = Postings(self.blind[some], self.passage[some])
        self.places = np.full(len(self.blind), -1)
        self.places[some] = self.blind_postings.places
        self.frequencies = np.zeros(len(self.blind_postings.grams), np.int64)
        _, same, counts = np.unique(self.short, return_inverse=True, return_counts=True)
        self._anchor(counts[same])

        self.numbers = _number_sequences(self.ids, self.kinds, self.offsets[:-1], self.offsets[1:])
        some &= self.question[self.passage] & (self.numbers[self.passage] != 0)
        self.number_lookup = Lookup(np.unique(self.numbers[np.unique(self.passage[some], return_index=True)[0]]))
        self.numbered_postings = Postings(self.short[some] ^ self.numbers[self.passage[some]], self.passage[some])

    def count(self, texts: pa.Array) -> None:
        """Add documents of a sample to the numbers of documents that hold each n-gram.

        A document that holds a whole passage does not count for the n-grams of that passage: however often an item
        leaked, its n-grams are as particular as if it had not, and tell its edited copies.
        """
        size = max(len(self.frequencies), 1)
        for _, _, words in blocks(texts, _BLOCK):
            documents, grams, at = self._hits(words)
            keys, _ = _distinct(documents * size + grams)
            documents, passages = self._copies(words, documents, grams, at)
            inside, bounds = ranges(self.short_offsets[passages], self.short_offsets[passages + 1])
            copied = np.repeat(documents, np.diff(bounds)) * size + self.places[inside]
            counted = np.ones(len(keys), bool)
            counted[np.searchsorted(keys, copied)] = False  # all are there: what is copied was met
            self.frequencies += np.bincount(keys[counted] % size, minlength=len(self.frequencies))

    def settle(self, common: int) -> None:
        """Settle which n-grams are particular: those with plain words that at most `common` sampled documents hold.

        Then documents can be searched.
        """
        some = self.searched[self.passage]
        self.particular = self.frequencies <= common
        self.particular[self.places[some & ~self.plain]] = False
        counted = some.copy()
        counted[some] = self.particular[self.places[some]]
        totals = np.diff(self.short_offsets)
        self.needed = np.maximum(np.ceil(self.rules.particular_coverage * totals), 1)
        counts = np.bincount(self.passage[counted], minlength=len(self.items))
        self.templated = int(((counts < self.needed) & self.searched & self.question).sum())
        frequencies = np.zeros(len(self.short), np.int64)
        frequencies[some] = self.frequencies[self.places[some]]
        self._anchor(frequencies)

    def _anchor(self, frequencies: np.ndarray) -> None:
        """Settle by which n-gram each searched passage is looked for as a whole: the rarest one by `frequencies`.

        `anchors` are these n-grams as they are, ascending; `anchor_passages` their passages, `anchor_at` where there.
        """
        candidates = np.flatnonzero(self.searched[self.passage])
        candidates = candidates[np.lexsort((frequencies[candidates], self.passage[candidates]))]
        first = candidates[np.diff(self.passage[candidates], prepend=-1) > 0]
        first = first[np.argsort(self.short[first], kind="stable")]
        self.anchors, self.anchor_passages = self.short[first], self.passage[first]
        self.anchor_at = first - self.short_offsets[self.anchor_passages]
        self.anchor_flags = np.zeros(len(self.frequencies), bool)
        self.anchor_flags[self.places[first]] = True

    def search(self, questions: pa.Array, responses: pa.Array) -> Iterator[Match]:
        """All passages found in a batch of documents, by the document's row."""
        texts, question_bytes = _with_lengths(questions, responses)
        for first, last, words in blocks(texts, _BLOCK):
            ends = np.searchsorted(words.starts, question_bytes[first:last] + words.text_offsets[:-1])
            ends = np.where(ends > words.offsets[:-1], ends, words.offsets[1:])  # without a question, the whole text
            hits = self._hits(words)
            exact = {**dict.fromkeys(_pairs(*self._copies(words, *hits)), (EXACT, 1.0)), **self._equal(words, ends)}
            found = {**self._overlapping(words, *hits, exact), **self._same_numbers(words, ends, hits[0]), **exact}
            for (document, passage), (grade, coverage) in sorted(found.items()):
                yield Match(first + document, int(self.items[passage]), grade, coverage)

    def _hits(self, words: Words) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where a block meets the index with all numbers equal: document, n-gram (place) and first word there."""
        n = self.rules.short
        at, places = self.blind_postings.lookup.find(windows(_blind(words.ids, words.kinds), n))
        documents = np.searchsorted(words.offsets, at, "right") - 1
        inside = at + n <= words.offsets[documents + 1]
        return documents[inside], places[inside], at[inside]

    def _equal(self, words: Words, question_ends: np.ndarray) -> Found:
        """Short questions that are the same; longer ones are found as contained."""
        first = words.offsets[:-1]
        short = np.flatnonzero((question_ends > first) & (question_ends < first + self.rules.shortest))
        documents, places = self.wholes.find(_sequences(words.ids, first[short], question_ends[short]))
        return dict.fromkeys(_pairs(short[documents], self.whole_passages[places]), (EXACT, 1.0))

    def _copies(
        self, words: Words, documents: np.ndarray, grams: np.ndarray, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Documents and the passages that stand in them word for word."""
        anchored = self.anchor_flags[grams]
        documents, at = documents[anchored], at[anchored]
        grams = _sequences(words.ids, at, at + self.rules.short)
        entries, bounds = ranges(np.searchsorted(self.anchors, grams), np.searchsorted(self.anchors, grams, "right"))
        documents, at = (np.repeat(values, np.diff(bounds)) for values in (documents, at))
        passages = self.anchor_passages[entries]
        start = at - self.anchor_at[entries]
        stop = start + self.lengths[passages]
        inside = (start >= words.offsets[documents]) & (stop <= words.offsets[documents + 1])
        documents, passages, start, stop = documents[inside], passages[inside], start[inside], stop[inside]
        same = _sequences(words.ids, start, stop) == self.sequences[passages]
        return documents[same], passages[same]

    def _overlapping(
        self, words: Words, documents: np.ndarray, grams: np.ndarray, at: np.ndarray, exact: Found
    ) -> Found:
        some = self.particular[grams]
        documents, grams, at = documents[some], grams[some], at[some]
        met, passages, counts = self.blind_postings.shared(documents, grams)
        enough = counts >= self.needed[passages]
        found: Found = {}
        for document, passage in _pairs(met[enough], passages[enough]):
            if (document, passage) in exact:
                continue
            here = slice(*np.searchsorted(documents, (document, document + 1)))
            text = slice(words.offsets[document], words.offsets[document + 1])
            grade, coverage = self.passage_at(passage).compare(
                words.ids[text], words.kinds[text], grams[here], at[here] - text.start
            )
            if grade:
                found[document, passage] = (grade, coverage)
        return found

    def _same_numbers(self, words: Words, question_ends: np.ndarray, documents: np.ndarray) -> Found:
        """Questions with all the numbers of a passage, no others, and enough of its n-grams, common or not.

        `documents` are those that share any n-gram with a passage.
        """
        documents = documents[np.diff(documents, prepend=-1) > 0]
        inside, bounds = ranges(words.offsets[documents], question_ends[documents])
        sequences = _number_sequences(words.ids[inside], words.kinds[inside], bounds[:-1], bounds[1:])
        some, _ = self.number_lookup.find(sequences)
        documents, sequences = documents[some], sequences[some]
        inside, bounds = ranges(words.offsets[documents], question_ends[documents])
        grams, offsets = ngrams(words.ids[inside], bounds, self.rules.short)
        owners = np.repeat(np.arange(len(documents)), np.diff(offsets))
        at, places = self.numbered_postings.lookup.find(grams ^ sequences[owners])
        documents, passages, counts = self.numbered_postings.shared(documents[owners[at]], places)
        coverage = counts / np.diff(self.short_offsets)[passages] if len(passages) else counts.astype(float)
        enough = coverage >= self.rules.short_coverage
        pairs = zip(_pairs(documents[enough], passages[enough]), coverage[enough].tolist(), strict=True)
        return {pair: (OVERLAP, share) for pair, share in pairs}

    @lru_cache(1 << 12)  # noqa: B019 (an index lives as long as the stage)
    def passage_at(self, number: int) -> Passage:
        """The passage of that number, for comparing one by one."""
        words = slice(self.offsets[number], self.offsets[number + 1])
        short = slice(self.short_offsets[number], self.short_offsets[number + 1])
        return Passage(
            self.ids[words], self.kinds[words], self.short[short], self.blind[short], self.places[short], self.rules
        )


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
        blinds = windows(_blind(ids[around], kinds[around]), rules.short).tolist()
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


def _sequences(ids: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """`sequence_ids`, for places few and far between."""
    inside, bounds = ranges(first, last)
    return sequence_ids(ids[inside], bounds[:-1], bounds[1:])


def _blind(ids: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Word ids uint64 [W] with all numbers equal."""
    blind = ids.copy()
    blind[kinds == NUMBER] = _ANY_NUMBER
    return blind


def _number_sequences(ids: np.ndarray, kinds: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The `sequence_id` uint64 of the numbers among the words `first:last`; 0 where there are none."""
    at = np.flatnonzero(kinds == NUMBER)
    return sequence_ids(ids[at], np.searchsorted(at, first), np.searchsorted(at, last))


def _pairs(documents: np.ndarray, passages: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(documents.tolist(), passages.tolist(), strict=True))


def _words(column: pa.Array, least: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows with at least so many words: their numbers, lengths, and all their words' ids and kinds."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint8))]
    for first, _, words in blocks(text_column(column)):
        lengths = np.diff(words.offsets)
        rows = np.flatnonzero(lengths >= least)
        inside, _ = ranges(words.offsets[rows], words.offsets[rows + 1])
        parts.append((first + rows, lengths[rows], words.ids[inside], words.kinds[inside]))
    rows, lengths, ids, kinds = (np.concatenate(part) for part in zip(*parts, strict=True))
    return rows, lengths, ids, kinds


def _with_lengths(questions: pa.Array, responses: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Questions and responses as one text each, and how many bytes of it are the question's."""
    texts = text_column(questions, responses)
    questions = pc.fill_null(questions, "")
    sizes = pc.binary_length(questions).to_numpy(zero_copy_only=False).astype(np.int64)
    for row in np.flatnonzero(~np.asarray(pc.string_is_ascii(questions))).tolist():
        sizes[row] = len(fold(questions[row].as_py()).encode())
    return texts, sizes + 1
