"""Name the words that stand for numbers, and read them as numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dreamer_study.pipeline.text.arrays import IdTable, bounds
from dreamer_study.pipeline.text.ngrams import word_id
from dreamer_study.pipeline.text.words import LETTERS, NUMBER, Words

_TO_TWELVE = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
CARDINALS: dict[str, int] = {
    **{word: value for value, word in enumerate(_TO_TWELVE)},
    **{
        "thirteen": 13,
        "fourteen": 14,
        "fifteen": 15,
        "sixteen": 16,
        "seventeen": 17,
        "eighteen": 18,
        "nineteen": 19,
    },
    **{
        "twenty": 20,
        "thirty": 30,
        "forty": 40,
        "fifty": 50,
        "sixty": 60,
        "seventy": 70,
        "eighty": 80,
        "ninety": 90,
    },
    **{"hundred": 100, "thousand": 1000, "million": 10**6},
}
NUMBER_WORDS = (
    *CARDINALS,
    *("billion", "half", "quarter", "dozen", "once", "twice", "thrice", "double", "triple"),
    *(
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
    ),
)
ONE, _AND = word_id("1"), word_id("and")
_READ = {word_id(word): value for word, value in CARDINALS.items()}
_TABLE = IdTable(np.array(sorted(_READ), np.uint64))
_VALUES = np.array([_READ[word] for word in sorted(_READ)])
_DIGITS = np.array([word_id(str(value)) for value in _VALUES], np.uint64)
_BETWEEN = np.isin(np.arange(256), list(b" -"))


def read_numbers(words: Words) -> Words:
    """Read number words as numbers, several that make one as one word: `fifty-five`, `two hundred
    and six`.

    `3.00` is read as `3`. A `one` alone, which is mostly no number, becomes the word `1` of the
    kind LETTERS.
    """
    at, places = _TABLE.find(words.ids)
    ids, kinds, ends, keep = (
        words.ids.copy(),
        words.kinds.copy(),
        words.ends.copy(),
        np.ones(len(words.ids), bool),
    )
    _drop_last_zeros(words, ids)
    ids[at] = _DIGITS[places]
    kinds[at] = np.where(ids[at] == ONE, LETTERS, NUMBER)
    steps = np.diff(at)
    near = (steps == 1) | (
        (steps == 2) & (words.ids[at[:-1] + 1] == _AND) & (_VALUES[places[:-1]] % 100 == 0)
    )
    near &= words.starts[at[1:]] - ends[at[:-1]] == 4 * steps - 3
    near &= _BETWEEN[words.text[ends[at[:-1]]]] & _BETWEEN[words.text[words.starts[at[1:]] - 1]]
    values, first = _VALUES[places].tolist(), at.tolist()
    for k in np.flatnonzero(near).tolist():
        if value := _joined(values[k], values[k + 1]):
            values[k + 1], first[k + 1], last = value, first[k], at[k + 1]
            keep[first[k] + 1 : last + 1] = False
            ids[first[k]], kinds[first[k]], ends[first[k]] = word_id(str(value)), NUMBER, ends[last]
    kept = (ids[keep], kinds[keep], words.starts[keep], ends[keep], bounds(keep)[words.offsets])
    return replace(
        words, **dict(zip(("ids", "kinds", "starts", "ends", "offsets"), kept, strict=True))
    )


def _drop_last_zeros(words: Words, ids: np.ndarray) -> None:
    """Set the ids of numbers that end with zeros behind a point to those of the numbers without."""
    points = np.flatnonzero(words.text == ord("."))
    at = np.flatnonzero((words.kinds == NUMBER) & (words.text[words.ends - 1] == ord("0")))
    at = at[np.searchsorted(points, words.starts[at]) < np.searchsorted(points, words.ends[at])]
    _, first, places = np.unique(ids[at], return_index=True, return_inverse=True)
    written = [
        words.text[words.starts[n] : words.ends[n]].tobytes().decode() for n in at[first].tolist()
    ]
    ids[at] = np.array([word_id(number.rstrip("0").rstrip(".")) for number in written], np.uint64)[
        places
    ]


def _joined(before: int, word: int) -> int:
    """Join a number with the number word behind, as 50 and 5 to 55; 0 where both are numbers of
    their own."""
    part = before % 1000
    if word >= 100:
        fits = 0 < before < 1000 if word > 100 else 0 < part < 100
        return (before - part + part * word if word == 100 else before * word) if fits else 0
    return (
        before + word
        if before >= 20 and (before % 100 == 0 or (before % 10 == 0 and 0 < word < 10))
        else 0
    )
