"""Scan documents for the passages of an item index.

A passage is found in a document in three grades (thresholds: `DecontaminationSettings`):

* exact: the document's question is the item's, or the passage stands in the document word for word in normal form. A
  passage of few words counts only as the whole question.
* overlap: the document covers enough of the passage's particular n-grams with enough of its numbers (`coverage`). Or
  the document's question has exactly the numbers of the item's, and enough of its n-grams, particular or not.
* template: the document covers enough n-grams only with numbers masked, or with other numbers.

Particular n-grams keep texts from one template apart, in which each question has most words in common with thousands.

>>> from pipeline.decontaminate.settings import DecontaminationSettings
>>> item = "Ann has 3 red pens and 4 blue cups in her bag"
>>> index = ItemIndex(pa.array([item]), pa.array([""]), DecontaminationSettings())
>>> index.settle(np.zeros(index.masked.size, np.int64), common=20)
>>> edited = item.replace("bag", "box")
>>> documents = [f"Now: {item}?", edited, edited.replace("3", "5").replace("4", "6"), "Ann has 3 red hats"]
>>> for match in search(index, pa.array(documents), pa.array([""] * 4)):
...     print(match.document, match.grade, match.coverage)
0 exact 1.0
1 overlap 0.875
2 template 0.875
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decontaminate.item_index import ItemIndex, gathered_ids
from pipeline.decontaminate.settings import EXACT, OVERLAP
from pipeline.text.arrays import ranges, unique
from pipeline.text.ngrams import ngrams
from pipeline.text.normal_form import fold
from pipeline.text.words import Words, number_sequences, text_column, word_blocks

BLOCK_BYTES = 1 << 19  # of text; few documents of a block have anything in common with an item
Pair = tuple[int, int]  # document in a block, passage
Found = dict[Pair, tuple[str, float]]  # grade, coverage


@dataclass(frozen=True)
class Match:
    """Describe one item found in one document; `coverage` by masked short n-grams, 1 if exact."""

    document: int
    item: int
    grade: str
    coverage: float


def search(index: ItemIndex, questions: pa.Array, responses: pa.Array) -> Iterator[Match]:
    """Find all passages of a settled index in a batch of documents; `Match.document` is the row."""
    texts, question_bytes = _texts(questions, responses)
    for rows, words in word_blocks(texts, BLOCK_BYTES):
        first, ends = words.offsets[:-1], np.searchsorted(words.starts, question_bytes[rows] + words.text_offsets[:-1])
        ends = np.where(ends > first, ends, words.offsets[1:])  # without a question, the whole text
        documents, grams, at = index.hits(words)
        copies = _pairs(*index.copies(words, documents, grams, at))
        exact = dict.fromkeys([*copies, *_whole_questions(index, words, ends)], (EXACT, 1.0))
        covered = _covered(index, words, documents, grams, at, exact)
        found = {**covered, **_same_numbers(index, words, ends, unique(documents)), **exact}
        for (document, passage), (grade, coverage) in sorted(found.items()):
            yield Match(rows.start + document, int(index.items[passage]), grade, coverage)


def _texts(questions: pa.Array, responses: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Join questions and responses to one text each, and count the bytes of each question in it."""
    questions = pc.fill_null(questions, "")
    sizes = pc.binary_length(questions).to_numpy(zero_copy_only=False).astype(np.int64)
    for row in np.flatnonzero(~np.asarray(pc.string_is_ascii(questions))).tolist():
        sizes[row] = len(fold(questions[row].as_py()).encode())
    return text_column(questions, responses), sizes + 1


def _whole_questions(index: ItemIndex, words: Words, ends: np.ndarray) -> Iterable[Pair]:
    """Find short questions that equal a short question of an item; longer ones are found as copies."""
    first = words.offsets[:-1]
    short = np.flatnonzero((ends > first) & (ends < first + index.settings.shortest))
    documents, places = index.whole_table.find(gathered_ids(words.ids, first[short], ends[short]))
    return _pairs(short[documents], index.whole_passages[places])


def _covered(
    index: ItemIndex, words: Words, documents: np.ndarray, grams: np.ndarray, at: np.ndarray, exact: Found
) -> Found:
    """Grade the documents that hold enough particular n-grams of a passage; `exact` pairs are left out."""
    particular = index.particular[grams]
    documents, grams, at = documents[particular], grams[particular], at[particular]
    met, passages, counts = index.masked.common(documents, grams)
    enough = counts >= index.needed[passages]
    found: Found = {}
    for document, passage in _pairs(met[enough], passages[enough]):
        if (document, passage) in exact:
            continue
        here = slice(*np.searchsorted(documents, (document, document + 1)))
        text = slice(words.offsets[document], words.offsets[document + 1])
        grade, coverage = index.passage_at(passage).grade(
            words.ids[text], words.kinds[text], grams[here], at[here] - text.start
        )
        if grade:
            found[document, passage] = (grade, coverage)
    return found


def _same_numbers(index: ItemIndex, words: Words, ends: np.ndarray, documents: np.ndarray) -> Found:
    """Find questions with all the numbers of a passage, no others, and enough of its n-grams, particular or not."""
    inside, offsets = ranges(words.offsets[documents], ends[documents])
    sequences = number_sequences(words.ids[inside], words.kinds[inside], offsets[:-1], offsets[1:])
    known, _ = index.number_table.find(sequences)
    documents, sequences = documents[known], sequences[known]
    inside, offsets = ranges(words.offsets[documents], ends[documents])
    grams, offsets = ngrams(words.ids[inside], offsets, index.settings.short_words)
    owners = np.repeat(np.arange(len(documents)), np.diff(offsets))
    at, places = index.numbered.table.find(grams ^ sequences[owners])
    documents, passages, counts = index.numbered.common(documents[owners[at]], places)
    coverage = counts / np.diff(index.short_offsets)[passages]
    enough = coverage >= index.settings.short_coverage
    pairs = zip(_pairs(documents[enough], passages[enough]), coverage[enough].tolist(), strict=True)
    return {pair: (OVERLAP, covered) for pair, covered in pairs}


def _pairs(documents: np.ndarray, passages: np.ndarray) -> list[Pair]:
    return list(zip(documents.tolist(), passages.tolist(), strict=True))
