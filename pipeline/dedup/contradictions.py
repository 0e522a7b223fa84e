"""Tell different problems apart that are worded alike.

Word problems are made from templates: the same sentences with other numbers, another name or
another sign are another problem, whatever their Jaccard similarity. So near duplicates must also
agree in five guards:

* numbers: the sequence of all numbers is equal;
* signs: no number stands beside two different signs (`x + 3` and `x - 3`; a sign beside none is no
  contradiction);
* names: at most one of the two has a name, a number word or a word that decides (area, perimeter;
  `deciding`) that the
  other lacks. A name is a capitalised word within a sentence. One on one side only is an edit; one
  on each side is an exchange, and makes another problem;
* answers: where both are given and short, they are equal;
* functions: the questions name the same functions in order (sin and cos; f(f(x)) and f(f(f(x)))).

Copies with a corrected number, a renamed person or reordered sentences are therefore kept as
different documents.

>>> from dreamer_study.pipeline.text.words import text_column, word_blocks
>>> texts = ["When he has 3 pens, Tom buys 4.", "When he owns 3 pens, Tom buys 4.", "When he has 3 pens, Ann buys 4."]
>>> _, words = next(word_blocks(text_column(pa.array(texts))))
>>> found = contradictions(facts(words, *np.zeros((2, 3), np.uint64)), np.array([0, 0]), np.array([1, 2]))
>>> [None if code == 0 else GUARDS[code - 1] for code in found]
[None, 'names']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.dedup.settings import GUARDS
from dreamer_study.pipeline.text.answers import answer_key
from dreamer_study.pipeline.text.arrays import IdTable, bounds, distinct, intersections, ranges
from dreamer_study.pipeline.text.deciding_words import DECIDING
from dreamer_study.pipeline.text.ngrams import sequence_ids, word_id
from dreamer_study.pipeline.text.normal_form import SIGNS
from dreamer_study.pipeline.text.number_words import NUMBER_WORDS
from dreamer_study.pipeline.text.words import LETTERS, NUMBER, SIGN, Words, byte_blocks

# Names of functions, and single letters before a parenthesis; for Python, and for Arrow, which
# finds texts with any. Letters are those of ASCII: beyond them, the two disagree on upper and lower
# case (the i without a dot, K of kelvin).
_NAMES = r"(?:arc|a)?(?:sin|cos|tan|cot|sec|csc)h?|log|ln|exp|sqrt|gcd|lcm|max|min"
_FUNCTION = re.compile(rf"(?<![A-Za-z])({_NAMES}|[a-z](?=\())(?![a-z])", re.IGNORECASE | re.ASCII)
_ANY_FUNCTION = rf"(?:^|[^A-Za-z])(?:(?i:{_NAMES})(?:[^A-Za-z]|$)|[A-Za-z]\()"
_SIGN_IDS = np.sort(np.array([word_id(sign) for sign in SIGNS], np.uint64))
_MARKS = dict(sorted({**DECIDING, **{word: word for word in map(word_id, NUMBER_WORDS)}}.items()))
_MARK_TABLE, _MARK_IDS = (
    IdTable(np.array(list(_MARKS), np.uint64)),
    np.array(list(_MARKS.values()), np.uint64),
)


@dataclass(frozen=True)
class Facts:
    """Hold what the guards compare, of D documents.

    `numbers` uint64 [D]: id of the sequence of numbers. `signs` uint8 [N]: the signs before and
    after each number,
    `sign_counts` int64 [D] of them in each document. `marks` uint64 [M]: the names and deciding
    words of each document as from `distinct`, `mark_counts` int64 [D] of them. `answers` uint64
    [D]: id of the short answer, 0 for none.
    `functions` uint64 [D]: id of the functions that the question names.
    """

    numbers: np.ndarray
    signs: np.ndarray
    sign_counts: np.ndarray
    marks: np.ndarray
    mark_counts: np.ndarray
    answers: np.ndarray
    functions: np.ndarray

    @staticmethod
    def concatenate(parts: Sequence[Facts]) -> Facts:
        """Join the facts of several blocks of documents."""
        columns = zip(*(vars(part).values() for part in (_NOTHING, *parts)), strict=True)
        return Facts(*map(np.concatenate, columns))


_NOTHING = Facts(
    *(
        np.empty(0, kind)
        for kind in (np.uint64, np.uint8, np.int64, np.uint64, np.int64, np.uint64, np.uint64)
    )
)


def digit_sequences(texts: pa.Array) -> np.ndarray:
    """Compute an id uint64 [D] of all digits of each row of a `text_column`: equal wherever the
    numbers are equal.

    A document with digits of its own is no near duplicate, which is known before the text is split
    into words.
    """
    ids = [np.empty(0, np.uint64)]
    for _, data, offsets in byte_blocks(texts):
        at = np.flatnonzero((data - np.uint8(ord("0"))) < 10)
        ends = np.searchsorted(at, offsets)
        ids.append(sequence_ids(data[at].astype(np.uint64), ends[:-1], ends[1:]))
    return np.concatenate(ids)


def answer_ids(answers: pa.Array) -> np.ndarray:
    """Compute an id uint64 [D] of each answer, equal where the values are; 0 for none and for
    prose."""
    keys = map(answer_key, pc.fill_null(answers, "").to_pylist())
    return np.array([word_id(key) if key else 0 for key in keys], np.uint64)


def function_ids(questions: pa.Array) -> np.ndarray:
    """Compute an id uint64 [D] of the functions that each question names, in order."""
    naming = pc.fill_null(pc.match_substring_regex(questions, _ANY_FUNCTION), False)
    named = (
        " ".join(_FUNCTION.findall(question)).lower()
        for question in questions.filter(naming).to_pylist()
    )
    ids = np.full(len(questions), word_id(""), np.uint64)
    ids[np.asarray(naming, bool)] = np.array([word_id(names) for names in named], np.uint64)
    return ids


def facts(words: Words, answers: np.ndarray, functions: np.ndarray) -> Facts:
    """Collect the facts of a block of documents, of their answers (`answer_ids`) and questions
    (`function_ids`)."""
    numbers = np.flatnonzero(words.kinds == NUMBER)
    # a blank before the first word and after the last one
    codes = np.zeros(len(words.ids) + 2, np.uint8)
    signs = np.flatnonzero(words.kinds == SIGN)
    codes[signs + 1] = np.searchsorted(_SIGN_IDS, words.ids[signs]) + 1
    documents = np.zeros(len(words.ids) + 2, np.int64)
    documents[1:-1] = np.repeat(np.arange(len(words.offsets) - 1), np.diff(words.offsets))
    inside = [documents[numbers + k] == documents[numbers + 1] for k in (0, 2)]
    beside = codes[numbers] * inside[0] * np.uint8(16) + codes[numbers + 2] * inside[1]
    sign_counts = np.diff(np.searchsorted(numbers, words.offsets))
    marks, mark_offsets = distinct(*_marks(words))
    return Facts(
        words.number_sequences(),
        beside,
        sign_counts,
        marks,
        np.diff(mark_offsets),
        answers,
        functions,
    )


def _marks(words: Words) -> tuple[np.ndarray, np.ndarray]:
    """Find names, number words and words that decide: ids uint64 [M], repeated ones included, and
    offsets [D + 1]."""
    letters = words.kinds == LETTERS
    here, text = words.starts, words.text
    capital = (text[here] - np.uint8(ord("A"))) < 26
    named = np.flatnonzero(letters & capital)
    named = named[(text[here[named] + 1] - np.uint8(ord("a"))) < 26]
    gap = here[named] - words.ends[named - 1]
    before = text[words.ends[named - 1]]
    blank = text[here[named] - 1] == ord(" ")  # the first word of a text stands after a line break
    marked = np.zeros(len(letters), bool)
    ids, (at, places) = words.ids.copy(), _MARK_TABLE.find(words.ids)
    ids[at], marked[at] = _MARK_IDS[places], True
    marked[named[blank & ((gap == 1) | ((gap == 2) & (before == ord(","))))]] = True
    at = np.flatnonzero(marked)
    return ids[at], np.searchsorted(at, words.offsets)


def contradictions(
    facts: Facts, left: np.ndarray, right: np.ndarray, guards: Sequence[str] = GUARDS
) -> np.ndarray:
    """Find the guard that keeps `left[p]` and `right[p]` apart: uint8 [P], its place in GUARDS + 1,
    0 for none.

    Where several do, the first one in the order of GUARDS is returned.
    """
    found = np.zeros(len(left), np.uint8)
    same_numbers = facts.numbers[left] == facts.numbers[right]
    answered = (facts.answers[left] != 0) & (facts.answers[right] != 0)
    tests = {
        "numbers": lambda: ~same_numbers,
        "signs": lambda: _signs_differ(facts, left, right, same_numbers),
        "names": lambda: _marks_exchanged(facts, left, right),
        "functions": lambda: facts.functions[left] != facts.functions[right],
        "answers": lambda: (facts.answers[left] != facts.answers[right]) & answered,
    }
    for number, guard in reversed(list(enumerate(GUARDS, 1))):
        if guard in guards:
            found[tests[guard]()] = number
    return found


def _signs_differ(
    facts: Facts, left: np.ndarray, right: np.ndarray, comparable: np.ndarray
) -> np.ndarray:
    """Test, bool [P], whether a number, counted in order, stands beside different signs in the two
    documents."""
    counts, offsets = facts.sign_counts, bounds(facts.sign_counts)
    pairs = np.flatnonzero(comparable & (counts[left] == counts[right]))
    (ours, ends), (theirs, _) = (
        ranges(offsets[side[pairs]], offsets[side[pairs] + 1]) for side in (left, right)
    )
    differ = np.zeros(len(ours), bool)
    for one_side in (0x0F, 0xF0):
        a, b = facts.signs[ours] & one_side, facts.signs[theirs] & one_side
        differ |= (a != b) & (a != 0) & (b != 0)
    result = np.zeros(len(left), bool)
    result[pairs] = np.diff(bounds(differ)[ends]) > 0
    return result


def _marks_exchanged(facts: Facts, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Test, bool [P], whether each of the two documents has a mark that the other lacks."""
    common = intersections(facts.marks, bounds(facts.mark_counts), left, right)
    return (facts.mark_counts[left] > common) & (facts.mark_counts[right] > common)
