"""Read the passages of benchmark items.

An item's question is one, and so are its answer and its solution where these are texts. Figures and
closing sentences on the format of the answer are left out. A question with options whose stem alone
could be anybody's ("Which of the following is true?") is found only together with its options, in
any order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.decontaminate.omissions import column_without_figures, without_closing
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from dreamer_study.pipeline.text.arrays import bounds, ranges
from dreamer_study.pipeline.text.instructions import sentences
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
    """Hold P passages in flat arrays.

    `items` and `kinds` int64 [P] are of the passages; `ids` and `word_kinds` are those of the words
    of passage p at `offsets[p]:offsets[p + 1]`. `last` int64 [P] are the numbers of words of the
    questions' last sentences. `options` are the word ids of the options, for passages that are
    found only with these. `parts` are the numbers of words of the sentences and lines of questions
    without numbers. `questions` are the texts of all questions, by item.
    """

    items: np.ndarray
    kinds: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    word_kinds: np.ndarray
    last: np.ndarray
    options: dict[int, Options]
    parts: dict[int, tuple[int, ...]]
    questions: list[str]


def read_passages(items: pa.Table, settings: DecontaminationSettings) -> Passages:
    """Read questions of any length, and answers and solutions of some length.

    That is of `settings.shortest_answer` words and more.
    """
    questions = without_closing(_texts(items, "question"))
    # Row `kind * len(items) + item` is the text of that kind of an item.
    texts = [*questions, *_texts(items, "answer"), *_texts(items, "solution")]
    sizes, ids, kinds = _words(texts)
    last_sizes, *_ = _words([(sentences(text) or [""])[-1] for text in questions])
    rows = np.arange(len(texts))
    shortest = np.where(rows < len(questions), 1, settings.shortest_answer)
    chosen = rows[sizes >= shortest]
    kind, item = np.divmod(chosen, len(items))
    offsets = bounds(sizes)
    inside, _ = ranges(offsets[chosen], offsets[chosen + 1])
    passages = Passages(
        items=item,
        kinds=kind,
        offsets=bounds(sizes[chosen]),
        ids=ids[inside],
        word_kinds=kinds[inside],
        last=np.where(kind == QUESTION, last_sizes[item], 0),
        options={},
        parts={},
        questions=questions,
    )
    options = _needed_options(passages, questions, _texts(items, "options"), settings)
    return replace(passages, options=options, parts=_parts(passages))


def _parts(passages: Passages) -> dict[int, tuple[int, ...]]:
    """Count the words of each sentence and line of the questions without numbers."""
    numbers_before = bounds(passages.word_kinds == NUMBER)[passages.offsets]
    without = np.flatnonzero((np.diff(numbers_before) == 0) & (passages.kinds == QUESTION))
    texts = [passages.questions[item] for item in passages.items[without].tolist()]
    split = [[line for part in sentences(text) for line in part.split("\n")] for text in texts]
    sizes, *_ = _words([line for lines in split for line in lines])
    ends = bounds(np.array([len(lines) for lines in split], np.int64)).tolist()
    lines_of = [tuple(sizes[start:stop].tolist()) for start, stop in pairwise(ends)]
    return dict(zip(without.tolist(), lines_of, strict=True))


def _texts(items: pa.Table, name: str) -> list[str]:
    if name not in items.column_names:
        return [""] * len(items)
    return column_without_figures(pc.fill_null(items[name], "").combine_chunks()).to_pylist()


def _words(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split texts into words: the number of words of each text, ids and kinds of all words."""
    column = text_column(pa.array([*texts, ""], pa.string()))  # one more: at least one block
    blocks = [read_numbers(words) for _, words in word_blocks(column)]
    sizes = np.concatenate([np.diff(words.offsets) for words in blocks])
    ids = np.concatenate([words.ids for words in blocks])
    kinds = np.concatenate([words.kinds for words in blocks])
    return sizes[:-1], ids, kinds


def _needed_options(
    passages: Passages, questions: list[str], options: list[str], settings: DecontaminationSettings
) -> dict[int, Options]:
    """Find the stems that say nothing without their options.

    Those are short stems, and stems that many items share.
    """
    sequences = sequence_ids(passages.ids, passages.offsets[:-1], passages.offsets[1:]).tolist()
    numbers_before = bounds(passages.word_kinds == NUMBER)[passages.offsets]
    of_passage: dict[int, str] = {}
    for passage in np.flatnonzero(passages.kinds == QUESTION).tolist():
        text = options[passages.items[passage]]
        if text.strip():
            of_passage[passage] = text
    sets: dict[int, set[frozenset[str]]] = {}
    for passage, text in of_passage.items():
        sets.setdefault(sequences[passage], set()).add(frozenset(text.split("\n")))
    needed = {}
    for passage, text in of_passage.items():
        size = passages.offsets[passage + 1] - passages.offsets[passage]
        numbers = int(numbers_before[passage + 1] - numbers_before[passage])
        question = questions[passages.items[passage]]
        enough = 2 if _MEANS_OPTIONS.search(question) else 1
        says_little = size < settings.few_words and numbers < enough
        if says_little or len(sets[sequences[passage]]) >= _SHARED:
            needed[passage] = _option_words(text)
    return needed


def _option_words(options: str) -> Options:
    sizes, ids, _ = _words(options.split("\n"))
    ends = bounds(sizes).tolist()
    words = [tuple(ids[start:stop].tolist()) for start, stop in pairwise(ends)]
    return tuple(option for option in words if option)
