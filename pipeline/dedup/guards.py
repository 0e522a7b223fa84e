"""What tells two problems apart that share most of their words.

Word problems are made from patterns: the same sentences with other numbers, another name, another sign are another
problem, and no share of common n-grams tells that from a copy with a corrected word. So near duplicates must also agree
in what a problem turns on:

* numbers: the sequence of all numbers is the same;
* signs: no number stands beside different signs (`x + 3` and `x - 3`; a sign against none is no contradiction);
* names: not both have a name, or a number in words, that the other has nowhere. A name is a capitalised word within a
  sentence. One that only one of the two has is an edit; one on each side is an exchange;
* answers: where both are given and are short, they are the same.

What this loses: copies in which a number was corrected, sentences with numbers changed places, or a person was renamed
are kept as different documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.text.lookup import Lookup
from pipeline.text.ngrams import LETTERS, NUMBER, SIGN, SIGNS, Words, blocks, cut, sequence_ids, text_column, word_id
from pipeline.text.ragged import distinct, ranges, shared

NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty", "forty"),
    *("fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand", "million", "billion", "half", "quarter"),
    *("dozen", "once", "twice", "thrice", "double", "triple", "first", "second", "third", "fourth", "fifth", "sixth"),
    *("seventh", "eighth", "ninth", "tenth"),
)
GUARDS = ("numbers", "signs", "names", "answers")
PROSE = 8  # an answer of more words is prose, which may be worded in many ways
_SIGN_IDS = np.sort(np.array([word_id(sign) for sign in SIGNS], np.uint64))
_NUMBER_WORDS = Lookup(np.sort(np.array([word_id(word) for word in NUMBER_WORDS], np.uint64)))


@dataclass(frozen=True)
class Facts:
    """What the guards compare, of D documents.

    `numbers` uint64 [D]: id of the sequence of numbers. `signs` uint8: for each number the signs before and after it;
    those of document d at `sign_offsets[d]:sign_offsets[d + 1]`. `marks`, `mark_offsets`: the set of names and numbers
    in words, as `ragged.distinct` gives it. `answers` uint64 [D]: id of the short answer, 0 for none.
    """

    numbers: np.ndarray
    signs: np.ndarray
    sign_offsets: np.ndarray
    marks: np.ndarray
    mark_offsets: np.ndarray
    answers: np.ndarray


def number_sequences(words: Words) -> np.ndarray:
    """The id uint64 [D] of each document's sequence of numbers; 0 where there are none."""
    at = np.flatnonzero(words.kinds == NUMBER)
    bounds = np.searchsorted(at, words.offsets)
    return sequence_ids(words.ids[at], bounds[:-1], bounds[1:])


def digit_sequences(texts: pa.Array) -> np.ndarray:
    """An id uint64 [D] of all digits of each row of a `text_column`: equal wherever the numbers are.

    So a document that has its digits for itself is no near duplicate of any other, which is known before its words are.
    """
    ids = [np.empty(0, np.uint64)]
    for _, _, data, offsets in cut(texts):
        at = np.flatnonzero((data - np.uint8(ord("0"))) < 10)
        bounds = np.searchsorted(at, offsets)
        ids.append(sequence_ids(data[at].astype(np.uint64), bounds[:-1], bounds[1:]))
    return np.concatenate(ids)


def facts(words: Words, answers: np.ndarray) -> Facts:
    """The facts of a block of documents and of the answers given with them (`answer_ids`)."""
    numbers = np.flatnonzero(words.kinds == NUMBER)
    sign_offsets = np.searchsorted(numbers, words.offsets)
    codes = np.zeros(len(words.ids) + 2, np.uint8)  # a blank before the first word and after the last
    signs = np.flatnonzero(words.kinds == SIGN)
    codes[signs + 1] = np.searchsorted(_SIGN_IDS, words.ids[signs]) + 1
    documents = np.zeros(len(words.ids) + 2, np.int64)
    documents[1:-1] = np.repeat(np.arange(len(words.offsets) - 1), np.diff(words.offsets))
    same = [documents[numbers + k] == documents[numbers + 1] for k in (0, 2)]
    beside = codes[numbers] * same[0] * np.uint8(16) + codes[numbers + 2] * same[1]
    marks, mark_offsets = distinct(*_marks(words))
    return Facts(number_sequences(words), beside.astype(np.uint8), sign_offsets, marks, mark_offsets, answers)


def _marks(words: Words) -> tuple[np.ndarray, np.ndarray]:
    """The ids uint64 [M] of names and numbers in words, repeated ones included, and offsets [D + 1]."""
    letters = words.kinds == LETTERS
    here, text = words.starts, words.text
    capital = (text[here] - np.uint8(ord("A"))) < 26
    named = np.flatnonzero(letters & capital)
    named = named[(text[here[named] + 1] - np.uint8(ord("a"))) < 26]
    gap = here[named] - words.ends[named - 1]
    before = text[words.ends[named - 1]]
    blank = text[here[named] - 1] == ord(" ")  # the first word of a text stands after a line break
    marked = np.zeros(len(letters), bool)
    marked[_NUMBER_WORDS.find(words.ids)[0]] = True
    marked[named[blank & ((gap == 1) | ((gap == 2) & (before == ord(","))))]] = True
    at = np.flatnonzero(marked)
    return words.ids[at], np.searchsorted(at, words.offsets)


def answer_ids(answers: pa.Array) -> np.ndarray:
    """The id uint64 [D] of each short answer, 0 for none and for prose."""
    ids = [np.empty(0, np.uint64)]
    for _, _, words in blocks(text_column(answers)):
        sizes = np.diff(words.offsets)
        ids.append(np.where(sizes <= PROSE, sequence_ids(words.ids, words.offsets[:-1], words.offsets[1:]), 0))
    return np.concatenate(ids).astype(np.uint64)


def joined(parts: list[Facts]) -> Facts:
    """The facts of several blocks as those of one."""

    def flat(name: str, kind: type) -> np.ndarray:
        return np.concatenate([np.empty(0, kind), *(getattr(part, name) for part in parts)])

    def offsets(name: str) -> np.ndarray:
        sizes = [np.zeros(1, np.int64), *(np.diff(getattr(part, name)) for part in parts)]
        return np.cumsum(np.concatenate(sizes))

    return Facts(
        flat("numbers", np.uint64),
        flat("signs", np.uint8),
        offsets("sign_offsets"),
        flat("marks", np.uint64),
        offsets("mark_offsets"),
        flat("answers", np.uint64),
    )


def contradictions(facts: Facts, left: np.ndarray, right: np.ndarray, guards: tuple[str, ...] = GUARDS) -> np.ndarray:
    """Which guard keeps the documents `left[p]` and `right[p]` apart, uint8 [P]: 1 + its place in GUARDS, 0 for none.

    The first guard in the order of GUARDS is named where several do.
    """
    found = np.zeros(len(left), np.uint8)
    same_numbers = facts.numbers[left] == facts.numbers[right]
    tests = {
        "numbers": lambda: ~same_numbers,
        "signs": lambda: _signs_differ(facts, left, right, same_numbers),
        "names": lambda: _marks_exchanged(facts, left, right),
        "answers": lambda: (
            (facts.answers[left] != facts.answers[right]) & (facts.answers[left] != 0) & (facts.answers[right] != 0)
        ),
    }
    for number, guard in reversed(list(enumerate(GUARDS, 1))):
        if guard in guards:
            found[tests[guard]()] = number
    return found


def _signs_differ(facts: Facts, left: np.ndarray, right: np.ndarray, comparable: np.ndarray) -> np.ndarray:
    """bool [P]: some number, counted in order, has a sign on one side here and another one there."""
    counts = np.diff(facts.sign_offsets)
    pairs = np.flatnonzero(comparable & (counts[left] == counts[right]))
    (first, bounds), (second, _) = (
        ranges(facts.sign_offsets[side[pairs]], facts.sign_offsets[side[pairs] + 1]) for side in (left, right)
    )
    ours, theirs = facts.signs[first], facts.signs[second]
    differ = np.zeros(len(ours), bool)
    for part in (0x0F, 0xF0):
        a, b = ours & part, theirs & part
        differ |= (a != b) & (a != 0) & (b != 0)
    result = np.zeros(len(left), bool)
    result[pairs] = np.diff(np.concatenate([[0], np.cumsum(differ)])[bounds]) > 0
    return result


def _marks_exchanged(facts: Facts, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """bool [P]: each of the two has a mark that the other has not."""
    sizes = np.diff(facts.mark_offsets)
    common = shared(facts.marks, facts.mark_offsets, left, right)
    return (sizes[left] > common) & (sizes[right] > common)
