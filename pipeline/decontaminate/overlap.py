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
its words with thousands. Documents that hold the whole passage, and those that are most of it with other words here and
there, are not among the many: they are leaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decontaminate.passages import EXACT, OVERLAP, Passage, Rules, without_numbers
from pipeline.text.lookup import Lookup
from pipeline.text.ngrams import LETTERS, NUMBER, Words, blocks, fold, ngrams, sequence_ids, text_column, windows
from pipeline.text.ragged import ranges

_PLAIN_WORDS = 2  # words of letters that an n-gram must hold to be counted
_BLOCK = 1 << 18  # bytes of text split and looked up at once, which the processor's cache holds
_TOGETHER = 1 << 18  # words compared at once: fewer calls for the few documents of each block that share something
_FEW_PASSAGES = 16  # that hold an n-gram at most, for it to tell of one of them
_ALIKE = 0.5  # of a passage's n-grams of few passages, as they are: documents that hold so much are most of it again
_EVENLY = 0.25  # of the documents that are most of a passage, that hold each of its n-grams if they are copies of it

Found = dict[tuple[int, int], tuple[str, float]]  # (document, passage) -> (grade, coverage)


@dataclass(frozen=True)
class Candidates:
    """Documents of a batch that share an n-gram with the index, or have a short question; D in all.

    `rows` int64 [D] are their rows in the batch; `ids`, `kinds` and `offsets` are as in `Words`; `question_ends`
    int64 [D]: the word behind each question. Of each n-gram that is in the index, int64 [H]: `owners`, the number of
    its document among these; `grams`, its place in the index; `at`, its first word.
    """

    rows: np.ndarray
    ids: np.ndarray
    kinds: np.ndarray
    offsets: np.ndarray
    question_ends: np.ndarray
    owners: np.ndarray
    grams: np.ndarray
    at: np.ndarray


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
        self.blind, _ = ngrams(without_numbers(self.ids, self.kinds), self.offsets, rules.short)
        self.passage = np.repeat(np.arange(len(self.items)), np.diff(self.short_offsets))  # of each short n-gram
        first = np.arange(len(self.short)) - self.short_offsets[self.passage] + self.offsets[self.passage]
        letters = np.concatenate([[0], np.cumsum(self.kinds == LETTERS)])
        self.plain = letters[first + rules.short] - letters[first] >= _PLAIN_WORDS
        some = self.searched[self.passage]
        self.blind_postings = Postings(self.blind[some], self.passage[some])
        self.places = np.full(len(self.blind), -1)
        self.places[some] = self.blind_postings.places
        self.frequencies = np.zeros(len(self.blind_postings.grams), np.int64)
        self.alike = np.zeros(len(self.items), np.int64)
        self.alike_same, self.alike_counted = (np.zeros(len(self.short), np.int64) for _ in range(2))
        _, same, counts = np.unique(self.short, return_inverse=True, return_counts=True)
        self.repeats = counts[same]
        self._anchor(self.repeats)

        self.numbers = _number_sequences(self.ids, self.kinds, self.offsets[:-1], self.offsets[1:])
        some &= self.question[self.passage] & (self.numbers[self.passage] != 0)
        self.number_lookup = Lookup(np.unique(self.numbers[np.unique(self.passage[some], return_index=True)[0]]))
        self.numbered_postings = Postings(self.short[some] ^ self.numbers[self.passage[some]], self.passage[some])

    def count(self, texts: pa.Array) -> None:
        """Add documents of a sample to the numbers of documents that hold each n-gram.

        A document that holds a whole passage does not count for the n-grams of that passage: however often an item
        leaked, its n-grams are as particular as if it had not, and tell its edited copies. Documents that are most of
        a passage are counted by themselves, for `leave_out_copies`.
        """
        size = max(len(self.frequencies), 1)
        for _, _, words in blocks(texts, 4 * _BLOCK):
            documents, grams, at = self._hits(words)
            keys, _ = _distinct(documents * size + grams)
            copiers, copied = self._copies(words, documents, grams, at)
            inside, owners = self._grams_of(copied, copiers)
            counted = np.ones(len(keys), bool)
            counted[np.searchsorted(keys, owners * size + self.places[inside])] = False  # all are there: they were met
            self.frequencies += np.bincount(keys[counted] % size, minlength=len(self.frequencies))
            self._count_alike(words, documents, at, keys[counted], copiers * len(self.items) + copied)

    def _count_alike(
        self, words: Words, documents: np.ndarray, at: np.ndarray, counted: np.ndarray, copies: np.ndarray
    ) -> None:
        """Count documents that hold most of a passage's n-grams as they are, and which of them each holds.

        `counted` are the n-grams counted for a document, as document times size plus place; `copies` the whole copies,
        as document times number of passages plus passage.
        """
        postings, size = self.literal, max(len(self.literal.grams), 1)
        known, places = postings.lookup.find(_sequences(words.ids, at, at + self.rules.short))
        held, _ = _distinct(documents[known] * size + places)
        documents, passages, shared = postings.shared(documents[known], places)
        alike = shared >= _ALIKE * np.bincount(postings.passages, minlength=len(self.items))[passages]
        alike &= ~np.isin(documents * len(self.items) + passages, copies)
        documents, passages = documents[alike], passages[alike]
        self.alike += np.bincount(passages, minlength=len(self.items))
        inside, owners = self._grams_of(passages, documents)
        same = np.isin(owners * max(len(self.frequencies), 1) + self.places[inside], counted)
        self.alike_counted += np.bincount(inside[same], minlength=len(self.short))
        few = self.repeats[inside] <= _FEW_PASSAGES
        inside, owners = inside[few], owners[few]
        same = np.isin(owners * size + np.searchsorted(postings.grams, self.short[inside]), held)
        self.alike_same += np.bincount(inside[same], minlength=len(self.short))

    def leave_out_copies(self) -> None:
        """Take documents that are copies of a passage, each edited in another place, out of what was counted.

        What sets them apart from texts made from one template is that no part of the passage is missing in nearly all
        of them: texts from a template differ from it all in the same places.
        """
        evenly = self.alike_same >= _EVENLY * self.alike[self.passage]
        evenly |= self.repeats > _FEW_PASSAGES
        copied = self.alike > 0
        copied[self.passage[~evenly]] = False
        some = copied[self.passage] & self.searched[self.passage]
        copies = np.zeros(len(self.frequencies), np.int64)
        np.maximum.at(copies, self.places[some], self.alike_counted[some])  # of passages alike, documents are the same
        self.frequencies -= copies
        self.__dict__.pop("literal", None)  # it is as large as the rest of the index, and was for counting only

    def _grams_of(self, passages: np.ndarray, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The short n-grams of these passages, one after the other, and the document that goes with each."""
        inside, bounds = ranges(self.short_offsets[passages], self.short_offsets[passages + 1])
        return inside, np.repeat(documents, np.diff(bounds))

    @cached_property
    def literal(self) -> Postings:
        """Which searched passages hold which short n-grams as they are, but for those of many: to count with only."""
        some = self.searched[self.passage] & (self.repeats <= _FEW_PASSAGES)
        return Postings(self.short[some], self.passage[some])

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
        waiting: list[Candidates] = []
        for first, last, words in blocks(texts, _BLOCK):
            waiting.append(self._candidates(first, words, question_bytes[first:last]))
            if sum(len(some.ids) for some in waiting) > _TOGETHER:
                yield from self._matches(_join(waiting))
                waiting = []
        if waiting:
            yield from self._matches(_join(waiting))

    def _candidates(self, first: int, words: Words, question_bytes: np.ndarray) -> Candidates:
        """The documents of a block, of which the first is in that row, that are worth comparing."""
        documents, grams, at = self._hits(words)
        ends = np.searchsorted(words.starts, question_bytes + words.text_offsets[:-1])
        ends = np.where(ends > words.offsets[:-1], ends, words.offsets[1:])  # without a question, the whole text
        worth = np.zeros(len(ends), bool)
        worth[documents] = True
        if len(self.whole_passages):
            worth |= ends - words.offsets[:-1] < self.rules.shortest
        rows = np.flatnonzero(worth)
        inside, offsets = ranges(words.offsets[rows], words.offsets[rows + 1])
        moved = offsets[:-1] - words.offsets[rows]
        owners = np.searchsorted(rows, documents)
        ids, kinds = words.ids[inside], words.kinds[inside]
        return Candidates(first + rows, ids, kinds, offsets, ends[rows] + moved, owners, grams, at + moved[owners])

    def _matches(self, some: Candidates) -> Iterator[Match]:
        hits = some.owners, some.grams, some.at
        exact = {**dict.fromkeys(_pairs(*self._copies(some, *hits)), (EXACT, 1.0)), **self._equal(some)}
        found = {**self._overlapping(some, exact), **self._same_numbers(some), **exact}
        for (document, passage), (grade, coverage) in sorted(found.items()):
            yield Match(int(some.rows[document]), int(self.items[passage]), grade, coverage)

    def _hits(self, words: Words) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where a block meets the index with all numbers equal: document, n-gram (place) and first word there."""
        n = self.rules.short
        at, places = self.blind_postings.lookup.find(windows(without_numbers(words.ids, words.kinds), n))
        documents = np.searchsorted(words.offsets, at, "right") - 1
        inside = at + n <= words.offsets[documents + 1]
        return documents[inside], places[inside], at[inside]

    def _equal(self, some: Candidates) -> Found:
        """Short questions that are the same; longer ones are found as contained."""
        first, ends = some.offsets[:-1], some.question_ends
        short = np.flatnonzero((ends > first) & (ends < first + self.rules.shortest))
        documents, places = self.wholes.find(_sequences(some.ids, first[short], ends[short]))
        return dict.fromkeys(_pairs(short[documents], self.whole_passages[places]), (EXACT, 1.0))

    def _copies(
        self, words: Words | Candidates, documents: np.ndarray, grams: np.ndarray, at: np.ndarray
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

    def _overlapping(self, some: Candidates, exact: Found) -> Found:
        counted = self.particular[some.grams]
        documents, grams, at = some.owners[counted], some.grams[counted], some.at[counted]
        met, passages, counts = self.blind_postings.shared(documents, grams)
        enough = counts >= self.needed[passages]
        found: Found = {}
        for document, passage in _pairs(met[enough], passages[enough]):
            if (document, passage) in exact:
                continue
            here = slice(*np.searchsorted(documents, (document, document + 1)))
            text = slice(some.offsets[document], some.offsets[document + 1])
            grade, coverage = self.passage_at(passage).compare(
                some.ids[text], some.kinds[text], grams[here], at[here] - text.start
            )
            if grade:
                found[document, passage] = (grade, coverage)
        return found

    def _same_numbers(self, some: Candidates) -> Found:
        """Questions with all the numbers of a passage, no others, and enough of its n-grams, common or not."""
        documents = some.owners[np.diff(some.owners, prepend=-1) > 0]
        inside, bounds = ranges(some.offsets[documents], some.question_ends[documents])
        sequences = _number_sequences(some.ids[inside], some.kinds[inside], bounds[:-1], bounds[1:])
        known, _ = self.number_lookup.find(sequences)
        documents, sequences = documents[known], sequences[known]
        inside, bounds = ranges(some.offsets[documents], some.question_ends[documents])
        grams, offsets = ngrams(some.ids[inside], bounds, self.rules.short)
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


def _join(some: list[Candidates]) -> Candidates:
    """Candidates of several blocks as those of one."""
    columns, documents, words = [], 0, 0
    for each in some:
        places = each.offsets[:-1] + words, each.question_ends + words, each.owners + documents
        columns.append((each.rows, each.ids, each.kinds, *places, each.grams, each.at + words))
        documents += len(each.rows)
        words += len(each.ids)
    rows, ids, kinds, offsets, ends, owners, grams, at = (
        np.concatenate(column) for column in zip(*columns, strict=True)
    )
    return Candidates(rows, ids, kinds, np.append(offsets, len(ids)), ends, owners, grams, at)


def _sequences(ids: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """`sequence_ids`, for places few and far between."""
    inside, bounds = ranges(first, last)
    return sequence_ids(ids[inside], bounds[:-1], bounds[1:])


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
