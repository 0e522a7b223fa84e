"""Name the words that stand for numbers, and read them as numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dreamer_study.pipeline.text.arrays import IdTable, bounds
from dreamer_study.pipeline.text.ngrams import word_id
from dreamer_study.pipeline.text.words import LETTERS, NUMBER, Words

_TO_NINETEEN = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
CARDINALS: dict[str, int] = {
    **{word: value for value, word in enumerate(_TO_NINETEEN.split())},
    **{word: 10 * value for value, word in enumerate(_TENS.split(), 2)},
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
}
_OTHERS = """
billion half quarter dozen once twice thrice double triple
first second third fourth fifth sixth seventh eighth ninth tenth
"""
NUMBER_WORDS = (*CARDINALS, *_OTHERS.split())
ONE = word_id("1")
_AND = word_id("and")
_READ = {word_id(word): value for word, value in CARDINALS.items()}
_TABLE = IdTable(np.array(sorted(_READ), np.uint64))
_VALUES = np.array([_READ[word] for word in sorted(_READ)])
_DIGITS = np.array([word_id(str(value)) for value in _VALUES], np.uint64)
_BETWEEN = np.isin(np.arange(256), list(b" -"))


def read_numbers(words: Words) -> Words:
    """Read number words as numbers, several that make one number as one word.

    `3.00` is read as `3`. A `one` alone, which is mostly no number, becomes the word `1` of the
    kind LETTERS.

    >>> from dreamer_study.pipeline.text.words import text_column, word_blocks
    >>> import pyarrow as pa
    >>> texts = text_column(pa.array(["fifty-five or two hundred and six pens, one day, 3.00"]))
    >>> words = read_numbers(next(word_blocks(texts))[1])
    >>> [text in words.ids for text in map(word_id, ("55", "206", "3", "fifty", "and", "one"))]
    [True, True, True, False, False, False]
    """
    at, places = _TABLE.find(words.ids)
    ids = words.ids.copy()
    kinds = words.kinds.copy()
    ends = words.ends.copy()
    keep = np.ones(len(words.ids), bool)
    _drop_last_zeros(words, ids)
    ids[at] = _DIGITS[places]
    kinds[at] = np.where(ids[at] == ONE, LETTERS, NUMBER)
    for start, last, value in _joined_numbers(words, at, places):
        keep[start + 1 : last + 1] = False
        ids[start] = word_id(str(value))
        kinds[start] = NUMBER
        ends[start] = ends[last]
    return replace(
        words,
        ids=ids[keep],
        kinds=kinds[keep],
        starts=words.starts[keep],
        ends=ends[keep],
        offsets=bounds(keep)[words.offsets],
    )


def _joined_numbers(
    words: Words, at: np.ndarray, places: np.ndarray
) -> Iterator[tuple[int, int, int]]:
    """Yield the numbers of several words: first word, last word so far, value so far."""
    values = _VALUES[places].tolist()
    first = at.tolist()  # the first word of each number
    for k in _neighbours(words, at, places).tolist():
        value = joined(values[k], values[k + 1])
        if not value:
            continue
        values[k + 1] = value  # what follows may be joined to the number so far
        first[k + 1] = first[k]
        yield first[k], int(at[k + 1]), value


def digits_of_words(words: Words) -> tuple[np.ndarray, np.ndarray]:
    """Return the digits uint8 of the numbers written in words, and their places in the text, int64.

    The places ascend; a `one` alone is left out.

    >>> from dreamer_study.pipeline.text.words import text_column, word_blocks
    >>> import pyarrow as pa
    >>> texts = text_column(pa.array(["Two hundred and six of one, three"]))
    >>> digits, places = digits_of_words(next(word_blocks(texts))[1])
    >>> bytes(digits), np.unique(places).tolist()
    (b'2063', [8, 36])
    """
    at, places = _TABLE.find(words.ids)
    values = dict(zip(at.tolist(), _VALUES[places].tolist(), strict=True))
    for start, last, value in _joined_numbers(words, at, places):
        for word in range(start + 1, last + 1):
            values.pop(word, None)
        values[start] = value
    written = [(word, str(value).encode()) for word, value in values.items() if value != 1]
    digits = np.frombuffer(b"".join(number for _, number in written), np.uint8)
    starts = words.starts[np.array([word for word, _ in written], np.int64)]
    return digits, np.repeat(starts, [len(number) for _, number in written])


def _neighbours(words: Words, at: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Find the number words, of those at `at`, that another one follows: places in `at`.

    Between both is one blank or hyphen, or " and " behind hundreds.
    """
    before = at[:-1]
    after = at[1:]
    steps = after - before
    has_and = (steps == 2) & (words.ids[before + 1] == _AND) & (_VALUES[places[:-1]] % 100 == 0)
    adjacent = (steps == 1) | has_and
    # one byte between two words, and five with "and" and its blanks
    adjacent &= words.starts[after] - words.ends[before] == 4 * steps - 3
    adjacent &= _BETWEEN[words.text[words.ends[before]]]
    adjacent &= _BETWEEN[words.text[words.starts[after] - 1]]
    return np.flatnonzero(adjacent)


def _drop_last_zeros(words: Words, ids: np.ndarray) -> None:
    """Set the ids of numbers that end with zeros behind a point to those of the numbers without."""
    points = np.flatnonzero(words.text == ord("."))
    at = np.flatnonzero((words.kinds == NUMBER) & (words.text[words.ends - 1] == ord("0")))
    has_point = np.searchsorted(points, words.starts[at]) < np.searchsorted(points, words.ends[at])
    at = at[has_point]
    _, first, places = np.unique(ids[at], return_index=True, return_inverse=True)
    shortened = []
    for word in at[first].tolist():
        number = words.text[words.starts[word] : words.ends[word]].tobytes().decode()
        shortened.append(word_id(number.rstrip("0").rstrip(".")))
    ids[at] = np.array(shortened, np.uint64)[places]


def joined(before: int, word: int) -> int:
    """Join a number with the number word behind; 0 where both are numbers of their own.

    >>> joined(50, 5), joined(5, 100), joined(1200, 34), joined(3, 4)
    (55, 500, 1234, 0)
    """
    part = before % 1000
    if word > 100:  # "two hundred thousand"
        return before * word if 0 < before < 1000 else 0
    if word == 100:  # "five hundred", "one thousand two hundred"
        return before - part + part * word if 0 < part < 100 else 0
    if before < 20:
        return 0
    follows_hundreds = before % 100 == 0
    follows_tens = before % 10 == 0 and 0 < word < 10
    return before + word if follows_hundreds or follows_tens else 0
