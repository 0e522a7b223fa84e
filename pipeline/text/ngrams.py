"""Compute 64-bit ids of words, word sequences and n-grams.

They are polynomial hashes (Rabin-Karp) modulo 2^64: the id of the sequence w_0 ... w_k is the sum
of w_i times base^i, so the ids of all n-grams follow from the word ids in n passes over one array.
Of the documents "ann has 3" and "coins":

>>> words = np.array([word_id(word) for word in ("ann", "has", "3", "coins")], np.uint64)
>>> bigrams, offsets = ngrams(words, np.array([0, 3, 4]), 2)
>>> offsets.tolist()
[0, 2, 2]
>>> (bigrams == sequence_ids(words, np.array([0, 1]), np.array([2, 3]))).all()
np.True_
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dreamer_study.pipeline.text.arrays import ranges

MASK = (1 << 64) - 1
# Bases of eight bytes of a word, and of words; odd, so that powers have inverses modulo 2^64.
BYTES_BASE = 0x9E3779B97F4A7C15
WORD_BASE = 0xD1342543DE82EF95
MIX = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)  # from the finaliser of MurmurHash3


def word_id(word: str) -> int:
    """Hash one word: a polynomial over its UTF-8 bytes, mixed.

    Eight bytes at a time are one little-endian number.
    """
    data = word.encode()
    value = 0
    for power, start in enumerate(range(0, len(data), 8)):
        eight = int.from_bytes(data[start : start + 8], "little")
        value += eight * pow(BYTES_BASE, power, 1 << 64)
    value = (value & MASK) * MIX[0] & MASK
    return (value ^ (value >> 32)) * MIX[1] & MASK


def ngrams(ids: np.ndarray, offsets: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the n-gram ids uint64 [M] of D documents, and their offsets int64 [D + 1].

    `ids` uint64 [W] are word ids, the ids of document d at `offsets[d]:offsets[d + 1]`.
    """
    grams = windows(ids, n)
    inside = np.ones(len(grams), bool)
    crossing = offsets[1:-1, None] - np.arange(1, n)
    inside[crossing[(crossing >= 0) & (crossing < len(inside))]] = False
    counts = np.maximum(np.diff(offsets) - (n - 1), 0)
    return grams[inside], np.concatenate([[0], np.cumsum(counts)])


def windows(ids: np.ndarray, n: int) -> np.ndarray:
    """Compute the ids uint64 [max(W - n + 1, 0)] of all windows of n words.

    Windows cross the bounds of documents.
    """
    count = max(len(ids) - n + 1, 0)
    grams = ids[n - 1 :].copy()
    for k in range(n - 2, -1, -1):  # Horner's rule
        grams *= np.uint64(WORD_BASE)
        grams += ids[k : k + count]
    return grams


def sequence_ids(ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Compute the ids uint64 [P] of the word sequences `ids[starts[p]:stops[p]]`.

    Empty sequences have 0. The id of words s to t is (S_t - S_s) / base^s, where S_i is the sum of
    the words before i, each times base to the power of its place.
    """
    size = 1 << len(ids).bit_length()  # few different sizes, so that powers are kept
    sums = np.zeros(len(ids) + 1, np.uint64)
    np.cumsum(ids * _powers(WORD_BASE, size)[: len(ids)], out=sums[1:])
    inverse = pow(WORD_BASE, -1, 1 << 64)
    return (sums[stops] - sums[starts]) * _powers(inverse, size)[starts]


@cache
def _powers(base: int, size: int) -> np.ndarray:
    powers = np.full(size, base, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


def gathered_ids(ids: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Compute `sequence_ids` of few stretches of a long array, without a pass over all of it."""
    inside, offsets = ranges(starts, stops)
    return sequence_ids(ids[inside], offsets[:-1], offsets[1:])
