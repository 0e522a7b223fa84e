"""Read the passages of benchmark items: an item's question, and its answer and solution where these
are texts.

Figures and closing sentences on the format of the answer are left out. A question with options
whose stem alone could be anybody's ("Which of the following is true?") is found only together with
its options, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.decontaminate.omissions import (
    column_without_figures,
    sentences,
    without_closing,
)
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from dreamer_study.pipeline.text.arrays import bounds, ranges
from dreamer_study.pipeline.text.ngrams import sequence_ids
from dreamer_study.pipeline.text.number_words import read_numbers
from dreamer_study.pipeline.text.words import NUMBER, text_column, word_blocks

QUESTION, ANSWER, SOLUTION = range(3)
ITEM_COLUMNS = ("id", "benchmark", "question", "answer")
FURTHER_COLUMNS = ("options", "solution")  # an item set may lack them
_MEANS_OPTIONS = re.compile(r"\b(following|these|below|above)\b", re.IGNORECASE)
_SHARED = 3  # items with one stem and other options
Options = tuple[tuple[int, ...], ...]  # of word ids


@dataclass(frozen=True)
class Passages:
    """Hold P passages in flat arrays: `items` and `kinds` int64 [P], the words' `ids` and
    `word_kinds` at `offsets`.

    `last` int64 [P] are the numbers of words of the questions' last sentences. `options` are the
    word ids of the options, for passages that are found only with these.
    """

    items: np.ndarray
    kinds: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    word_kinds: np.ndarray
    last: np.ndarray
    options: dict[int, Options]


def read_passages(items: pa.Table, settings: DecontaminationSettings) -> Passages:
    """Read questions of any length, and answers and solutions of `settings.shortest_answer` words
    and more."""
    columns = [_texts(items, name) for name in ("question", "answer", "solution")]
    questions = columns[QUESTION] = without_closing(columns[QUESTION])
    texts = [text for column in columns for text in column]
    sizes, ids, kinds = _words(texts)
    last, *_ = _words([(sentences(text) or [""])[-1] for text in questions])
    rows = np.arange(len(texts))
    found = rows[sizes >= np.where(rows < len(questions), 1, settings.shortest_answer)]
    kind, item = np.divmod(found, len(items))
    last = np.where(kind == QUESTION, last[item], 0)
    offsets = bounds(sizes)
    inside, _ = ranges(offsets[found], offsets[found + 1])
    passages = Passages(item, kind, bounds(sizes[found]), ids[inside], kinds[inside], last, {})
    return replace(
        passages, options=_needed_options(passages, questions, _texts(items, "options"), settings)
    )


def _texts(items: pa.Table, name: str) -> list[str]:
    if name not in items.column_names:
        return [""] * len(items)
    return column_without_figures(pc.fill_null(items[name], "").combine_chunks()).to_pylist()


def _words(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split texts into words: the number of words of each text, ids and kinds of all words."""
    blocks = [
        read_numbers(words)
        for _, words in word_blocks(text_column(pa.array([*texts, ""], pa.string())))
    ]
    parts = ((np.diff(words.offsets), words.ids, words.kinds) for words in blocks)
    sizes, ids, kinds = (np.concatenate(column) for column in zip(*parts, strict=True))
    return sizes[:-1], ids, kinds


def _needed_options(
    passages: Passages, questions: list[str], options: list[str], settings: DecontaminationSettings
) -> dict[int, Options]:
    """Find the stems that say nothing without their options: short ones, and those that many items
    share."""
    sequences = sequence_ids(passages.ids, passages.offsets[:-1], passages.offsets[1:]).tolist()
    numbers = bounds(passages.word_kinds == NUMBER)[passages.offsets]
    asked = [
        p
        for p in np.flatnonzero(passages.kinds == QUESTION).tolist()
        if options[passages.items[p]].strip()
    ]
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
    sizes, ids, _ = _words(options.split("\n"))
    ends = bounds(sizes).tolist()
    words = [tuple(ids[start:stop].tolist()) for start, stop in pairwise(ends)]
    return tuple(option for option in words if option)
