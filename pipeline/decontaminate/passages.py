"""Read the passages of benchmark items: an item's question, and its answer and solution where these are texts.

Figures and closing sentences on the format of the answer are left out. A question with options whose stem alone could
be anybody's ("Which of the following is true?") is found only together with its options, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.decontaminate.omissions import column_without_figures, sentences, without_closing
from pipeline.decontaminate.settings import DecontaminationSettings
from pipeline.text.arrays import bounds, ranges
from pipeline.text.ngrams import sequence_ids
from pipeline.text.number_words import read_numbers
from pipeline.text.words import NUMBER, Words, text_column, word_blocks

QUESTION, ANSWER, SOLUTION = range(3)
ITEM_COLUMNS = ("id", "benchmark", "question", "answer")
FURTHER_COLUMNS = ("options", "solution")  # an item set may lack them
_MEANS_OPTIONS = re.compile(r"\b(following|these|below|above)\b", re.IGNORECASE)
_SHARED = 3  # items with one stem and other options
Options = tuple[tuple[int, ...], ...]  # of word ids


@dataclass(frozen=True)
class Passages:
    """Hold P passages in flat arrays: `items` and `kinds` int64 [P], the words' `ids` and `word_kinds` at `offsets`.

    `last` int64 [P] are the numbers of words of the questions' last sentences. `options` are the word ids of the
    options, for passages that are found only with these.
    """

    items: np.ndarray
    kinds: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    word_kinds: np.ndarray
    last: np.ndarray
    options: dict[int, Options]


def read_passages(items: pa.Table, settings: DecontaminationSettings) -> Passages:
    """Read questions of any length, and answers and solutions of `settings.shortest_answer` words and more."""
    questions, answers, solutions, options = (
        _texts(items, name) for name in ("question", "answer", "solution", "options")
    )
    questions = without_closing(questions)
    sides = [
        _words(questions, QUESTION, 1),
        _words(answers, ANSWER, settings.shortest_answer),
        _words(solutions, SOLUTION, settings.shortest_answer),
    ]
    item, kind, lengths, ids, word_kinds, last = (np.concatenate(column) for column in zip(*sides, strict=True))
    passages = Passages(item, kind, bounds(lengths), ids, word_kinds, last, {})
    passages.options.update(_needed_options(passages, questions, options, settings))
    return passages


def _blocks(texts: pa.Array) -> Iterator[tuple[slice, Words]]:
    return ((rows, read_numbers(words)) for rows, words in word_blocks(text_column(texts)))


def _texts(items: pa.Table, name: str) -> list[str]:
    if name not in items.column_names:
        return [""] * len(items)
    return column_without_figures(pc.fill_null(items[name], "").combine_chunks()).to_pylist()


def _words(texts: list[str], kind: int, least: int) -> tuple[np.ndarray, ...]:
    """Select texts of at least `least` words: rows, kinds, lengths, word ids and kinds, words of what is asked last."""
    column = pa.array(texts, pa.string())
    asked = [(sentences(text) or [""])[-1] if kind == QUESTION else "" for text in texts]
    lasts = pa.array(asked, pa.string())
    last = np.concatenate([[0], *(np.diff(words.offsets) for _, words in _blocks(lasts))])[1:]
    parts = [(*(np.empty(0, np.int64),) * 3, np.empty(0, np.uint64), np.empty(0, np.uint8), np.empty(0, np.int64))]
    for block, words in _blocks(column):
        lengths = np.diff(words.offsets)
        rows = np.flatnonzero(lengths >= least)
        inside, _ = ranges(words.offsets[rows], words.offsets[rows + 1])
        kinds = np.full(len(rows), kind)
        size = lengths[rows]
        parts.append(
            (block.start + rows, kinds, size, words.ids[inside], words.kinds[inside], last[block.start + rows])
        )
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _needed_options(
    passages: Passages, questions: list[str], options: list[str], settings: DecontaminationSettings
) -> dict[int, Options]:
    """Find the stems that say nothing without their options: short ones, and those that many items share."""
    sequences = sequence_ids(passages.ids, passages.offsets[:-1], passages.offsets[1:]).tolist()
    numbers = bounds(passages.word_kinds == NUMBER)[passages.offsets]
    asked = [p for p in np.flatnonzero(passages.kinds == QUESTION).tolist() if options[passages.items[p]].strip()]
    sets: dict[int, set[frozenset[str]]] = {}
    for p in asked:
        sets.setdefault(sequences[p], set()).add(frozenset(options[passages.items[p]].split("\n")))
    found = {}
    for p in asked:
        few = passages.offsets[p + 1] - passages.offsets[p] < settings.few_words
        held = int(numbers[p + 1] - numbers[p])
        alone = held >= (2 if _MEANS_OPTIONS.search(questions[passages.items[p]]) else 1)
        if (few and not alone) or len(sets[sequences[p]]) >= _SHARED:
            found[p] = _option_words(options[passages.items[p]])
    return found


def _option_words(options: str) -> Options:
    words = [
        tuple(words.ids[start:stop].tolist())
        for _, words in _blocks(pa.array(options.split("\n"), pa.string()))
        for start, stop in zip(words.offsets[:-1], words.offsets[1:], strict=True)
    ]
    return tuple(option for option in words if option)
