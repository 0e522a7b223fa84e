"""Distinguish different problems that are worded alike.

Word problems are made from templates: the same sentences with other numbers, another name or
another sign are another problem, whatever their Jaccard similarity. So near duplicates must also
agree in five guards:

* numbers: the sequence of all numbers is equal;
* signs: no number is beside two different signs (`x + 3` and `x - 3`; a sign beside none is no
  contradiction);
* names: at most one of the two has a name, a number word or a word that decides (area, perimeter;
  `deciding_words`) that the other lacks. A name is a capitalised word within a sentence. One on one
  side only is an edit; one on each side is an exchange, and makes another problem;
* answers: where both are given and short, they are equal;
* functions: the questions name the same functions in order (sin and cos; f(f(x)) and f(f(f(x)))),
  and have the same signs and marks that decide, in any order (`<` and `>`, `n!` and `n`).

Copies with a corrected number, a renamed person or reordered sentences are therefore kept as
different documents. Below, the second text is a near duplicate of the first, the third is not:

>>> from dreamer_study.pipeline.text.words import text_column, word_blocks
>>> sentence = "When he {} 3 pens, {} buys 4."
>>> texts = [sentence.format(*words) for words in (("has", "Tom"), ("owns", "Tom"), ("has", "Ann"))]
>>> _, words = next(word_blocks(text_column(pa.array(texts))))
>>> nothing = np.zeros(3, np.uint64)
>>> codes = contradictions(facts(words, nothing, nothing), np.array([0, 0]), np.array([1, 2]))
>>> [None if code == 0 else GUARDS[code - 1] for code in codes]
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
from dreamer_study.pipeline.text.deciding_marks import deciding_signs
from dreamer_study.pipeline.text.deciding_words import DECIDING
from dreamer_study.pipeline.text.ngrams import sequence_ids, word_id
from dreamer_study.pipeline.text.normal_form import SIGNS
from dreamer_study.pipeline.text.number_words import CARDINALS, NUMBER_WORDS, digits_of_words
from dreamer_study.pipeline.text.words import LETTERS, NUMBER, SIGN, Words, byte_blocks, word_blocks

# Names of functions, and single letters before a parenthesis; for Python, and for Arrow, which
# finds texts with any. Letters are those of ASCII: beyond them, the two disagree on upper and lower
# case (the i without a dot, K of kelvin).
_NAMES = r"(?:arc|a)?(?:sin|cos|tan|cot|sec|csc)h?|log|ln|exp|sqrt|gcd|lcm|max|min"
_FUNCTION = re.compile(rf"(?<![A-Za-z])({_NAMES}|[a-z](?=\())(?![a-z])", re.IGNORECASE | re.ASCII)
_ANY_FUNCTION = (
    rf"(?:^|[^A-Za-z])(?:(?i:{_NAMES})(?:[^A-Za-z]|$)|[A-Za-z]\()"
    r"|[A-Za-z]'|[-+/=<>^_%!|\[\\{&\x80-\xff]|(?i:squared|cubed|percent|per cent|degree"
    r"|square root|union|floor|ceil|intersection|conjugate|sine|tangent|logarithm|secant)"
)
_SIGN_IDS = np.sort(np.array([word_id(sign) for sign in SIGNS], np.uint64))
# By the id of a word that decides, the id of all words that say the same; sorted for `IdTable`.
_NUMBERS = {word_id(word): word_id(word) for word in NUMBER_WORDS}
_MARKS = dict(sorted({**DECIDING, **_NUMBERS}.items()))
_MARK_TABLE = IdTable(np.array(list(_MARKS), np.uint64))
_MARK_IDS = np.array(list(_MARKS.values()), np.uint64)
_NUMBER_WORD = rf"(?i)\b(?:{'|'.join(CARDINALS)})\b"
_BEFORE = 0xF0  # in a byte of `Facts.signs`: the sign before a number
_AFTER = 0x0F


@dataclass(frozen=True)
class Facts:
    """Hold what the guards compare, of D documents.

    * `numbers` and `numbers_and_ones` uint64 [D]: id of the sequence of numbers, the second with
      each "one", which may be a number or not;
    * `signs` uint8 [N]: the signs before and after each number (upper and lower four bits), and
      `sign_counts` int64 [D] of them in each document;
    * `marks` uint64 [M]: the names and deciding words of each document as from `distinct`, and
      `mark_counts` int64 [D] of them;
    * `answers` uint64 [D]: id of the short answer, 0 for none;
    * `functions` uint64 [D]: id of the functions that the question names.
    """

    numbers: np.ndarray
    numbers_and_ones: np.ndarray
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
    numbers=np.empty(0, np.uint64),
    numbers_and_ones=np.empty(0, np.uint64),
    signs=np.empty(0, np.uint8),
    sign_counts=np.empty(0, np.int64),
    marks=np.empty(0, np.uint64),
    mark_counts=np.empty(0, np.int64),
    answers=np.empty(0, np.uint64),
    functions=np.empty(0, np.uint64),
)


def digit_sequences(texts: pa.Array) -> np.ndarray:
    """Compute an id uint64 [D] of all digits of each row of a `text_column`.

    It is equal wherever the numbers are equal, in digits or in words; a 1 alone is left out, as its
    word is mostly no number. So a document with digits of its own is no near duplicate, which is
    known before the text is split into words, unless it has numbers in words.
    """
    ids = np.empty(len(texts), np.uint64)
    worded = np.asarray(pc.match_substring_regex(texts, _NUMBER_WORD), bool)
    plain = np.flatnonzero(~worded)
    for rows, data, offsets in byte_blocks(texts.filter(pa.array(~worded))):
        at = _digit_places(data)
        ends = np.searchsorted(at, offsets)
        ids[plain[rows]] = sequence_ids(data[at].astype(np.uint64), ends[:-1], ends[1:])
    written = np.flatnonzero(worded)
    for rows, words in word_blocks(texts.filter(pa.array(worded))):
        spelled, places = digits_of_words(words)
        at = _digit_places(words.text)
        digits = np.concatenate([words.text[at], spelled])
        places = np.concatenate([at, places])
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], words.text_offsets)
        sequence = digits[order].astype(np.uint64)
        ids[written[rows]] = sequence_ids(sequence, ends[:-1], ends[1:])
    return ids


def _digit_places(data: np.ndarray) -> np.ndarray:
    """Find the digits among bytes, but for a 1 that has no digit beside it."""
    at = np.flatnonzero((data - np.uint8(ord("0"))) < 10)
    alone = data[at] == ord("1")
    alone[1:] &= at[1:] != at[:-1] + 1
    alone[:-1] &= at[:-1] != at[1:] - 1
    return at[~alone]


def answer_ids(answers: pa.Array) -> np.ndarray:
    """Compute an id uint64 [D] of each answer, equal where the values are.

    0 for none and for prose.
    """
    keys = map(answer_key, pc.fill_null(answers, "").to_pylist())
    return np.array([word_id(key) if key else 0 for key in keys], np.uint64)


def function_ids(questions: pa.Array) -> np.ndarray:
    """Compute an id uint64 [D] of the functions that each question names, in order."""
    data = pc.cast(questions, pa.large_binary())
    naming = pc.fill_null(pc.match_substring_regex(data, _ANY_FUNCTION), False)
    ids_of_naming = []
    for question in questions.filter(naming).to_pylist():
        names = [name.lower() for name in _FUNCTION.findall(question)]
        signs = sorted(deciding_signs(question).items())
        ids_of_naming.append(word_id(f"{names} {signs}" if names or signs else ""))
    ids = np.full(len(questions), word_id(""), np.uint64)
    ids[np.asarray(naming, bool)] = np.array(ids_of_naming, np.uint64)
    return ids


def facts(words: Words, answers: np.ndarray, functions: np.ndarray) -> Facts:
    """Collect the facts of a block of documents.

    `answers` and `functions` are from `answer_ids` and `function_ids`.
    """
    numbers = np.flatnonzero(words.kinds == NUMBER)
    marks, mark_offsets = distinct(*_marks(words))
    return Facts(
        numbers=words.number_sequences(),
        numbers_and_ones=words.number_sequences(ones=True),
        signs=_signs_beside(words, numbers),
        sign_counts=np.diff(np.searchsorted(numbers, words.offsets)),
        marks=marks,
        mark_counts=np.diff(mark_offsets),
        answers=answers,
        functions=functions,
    )


def _signs_beside(words: Words, numbers: np.ndarray) -> np.ndarray:
    """Find the signs before and after each number, in its document, uint8 [N]."""
    # Word w is at w + 1, so that a blank is before the first word and after the last one.
    codes = np.zeros(len(words.ids) + 2, np.uint8)
    signs = np.flatnonzero(words.kinds == SIGN)
    codes[signs + 1] = np.searchsorted(_SIGN_IDS, words.ids[signs]) + 1
    documents = np.zeros(len(words.ids) + 2, np.int64)
    documents[1:-1] = np.repeat(np.arange(len(words.offsets) - 1), np.diff(words.offsets))
    own = documents[numbers + 1]
    before = codes[numbers] * (documents[numbers] == own)
    after = codes[numbers + 2] * (documents[numbers + 2] == own)
    return before * np.uint8(16) + after


def _marks(words: Words) -> tuple[np.ndarray, np.ndarray]:
    """Find names, number words and words that decide: ids uint64 [M] and offsets [D + 1].

    Repeated ones are included.
    """
    ids = words.ids.copy()
    marked = np.zeros(len(ids), bool)
    at, places = _MARK_TABLE.find(words.ids)
    ids[at] = _MARK_IDS[places]
    marked[at] = True
    marked[_names(words)] = True
    at = np.flatnonzero(marked)
    return ids[at], np.searchsorted(at, words.offsets)


def _names(words: Words) -> np.ndarray:
    """Find the words that are capitalised within a sentence: behind a blank, or a comma and one."""
    starts = words.starts
    text = words.text
    is_capital = (text[starts] - np.uint8(ord("A"))) < 26
    names = np.flatnonzero((words.kinds == LETTERS) & is_capital)
    names = names[(text[starts[names] + 1] - np.uint8(ord("a"))) < 26]
    gap = starts[names] - words.ends[names - 1]
    after_comma = (gap == 2) & (text[words.ends[names - 1]] == ord(","))
    after_blank = text[starts[names] - 1] == ord(" ")  # the first word is after a line break
    return names[after_blank & ((gap == 1) | after_comma)]


def contradictions(
    facts: Facts, left: np.ndarray, right: np.ndarray, guards: Sequence[str] = GUARDS
) -> np.ndarray:
    """Find the guard that keeps `left[p]` and `right[p]` apart, uint8 [P].

    It is the place in GUARDS + 1, or 0 for none; of several guards the first one.
    """
    codes = np.zeros(len(left), np.uint8)
    same_numbers = facts.numbers[left] == facts.numbers[right]
    same_numbers |= facts.numbers_and_ones[left] == facts.numbers_and_ones[right]
    answered = (facts.answers[left] != 0) & (facts.answers[right] != 0)
    tests = {
        "numbers": lambda: ~same_numbers,
        "signs": lambda: _signs_differ(facts, left, right, same_numbers),
        "names": lambda: _marks_exchanged(facts, left, right),
        "functions": lambda: facts.functions[left] != facts.functions[right],
        "answers": lambda: (facts.answers[left] != facts.answers[right]) & answered,
    }
    for number, guard in reversed(list(enumerate(GUARDS, 1))):  # the first guard has the last word
        if guard in guards:
            codes[tests[guard]()] = number
    return codes


def _signs_differ(
    facts: Facts, left: np.ndarray, right: np.ndarray, comparable: np.ndarray
) -> np.ndarray:
    """Test, bool [P], whether a number is beside different signs in the two documents.

    Numbers are compared in their order.
    """
    counts = facts.sign_counts
    offsets = bounds(counts)
    pairs = np.flatnonzero(comparable & (counts[left] == counts[right]))
    ours, ends = ranges(offsets[left[pairs]], offsets[left[pairs] + 1])
    theirs, _ = ranges(offsets[right[pairs]], offsets[right[pairs] + 1])
    differ = np.zeros(len(ours), bool)
    for side in (_AFTER, _BEFORE):
        our_sign = facts.signs[ours] & side
        their_sign = facts.signs[theirs] & side
        differ |= (our_sign != their_sign) & (our_sign != 0) & (their_sign != 0)
    result = np.zeros(len(left), bool)
    result[pairs] = np.diff(bounds(differ)[ends]) > 0
    return result


def _marks_exchanged(facts: Facts, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Test, bool [P], whether each of the two documents has a mark that the other lacks."""
    common = intersections(facts.marks, bounds(facts.mark_counts), left, right)
    return (facts.mark_counts[left] > common) & (facts.mark_counts[right] > common)
