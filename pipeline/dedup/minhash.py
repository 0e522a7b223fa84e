"""Compute MinHash signatures and their band hashes for whole blocks of documents.

datasketch defines the values: its permutations are read at run time, and its `MinHash(num_perm,
seed, scheme="affine32", hashfunc=int).update_batch(short_ids(ids))` gives the same numbers as
`signatures`.

Two documents share a value of their signatures with the probability of their Jaccard similarity J,
and one of b bands of r values with 1 - (1 - J^r)^b. Documents that share a band are candidates:

>>> sets = [11, 22, 33, 44], [11, 22, 33, 44], [55, 66]
>>> ids = np.array(sum(sets, []), np.uint64) << np.uint64(40)
>>> first, again, other = signatures(ids, np.array([0, 4, 8, 10]), 4)
>>> (first == again).all(), (first == other).any()
(np.True_, np.False_)
>>> hashes = band_hashes(np.stack([first, again, other]), bands=2, rows=2)
>>> (hashes[:, 0] == hashes[:, 1]).tolist(), (hashes[:, 0] == hashes[:, 2]).tolist()
([True, True], [False, False])
>>> round(detection(0.7, *choose_bands(0.7, 128)), 2), choose_bands(0.7, 128)
(0.99, (25, 5))
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

# datasketch is imported where it is used: it takes half a second, and settings, which every command
# reads, need none.
EMPTY = np.uint32(0xFFFFFFFF)  # the signature of a document without n-grams
_BLOCK = 1 << 16  # n-grams permuted at once: the working set stays in the second-level cache
_LEAST_DETECTION = 0.95


def short_ids(ids: np.ndarray) -> np.ndarray:
    """Take the 32 bits uint32 [M] of 64-bit n-gram ids that MinHash permutes."""
    return (ids >> np.uint64(32)).astype(np.uint32)


@lru_cache
def permutations(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Read datasketch's factors and offsets, uint32 [count] each."""
    from datasketch import MinHash

    return MinHash(num_perm=count, seed=seed, scheme="affine32").permutations


def signatures(ids: np.ndarray, offsets: np.ndarray, count: int = 128, seed: int = 1) -> np.ndarray:
    """Compute the MinHash signatures uint32 [D, count] of D documents.

    `ids` uint64 [M] are n-gram ids, those of document d at `offsets[d]:offsets[d + 1]`; repeated
    ids do not matter.
    """
    factors, shifts = permutations(count, seed)
    values = short_ids(ids)
    # the finaliser of MurmurHash3, as in datasketch
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        values ^= values >> np.uint32(shift)
        values *= np.uint32(factor)
    values ^= values >> np.uint32(16)

    filled = np.flatnonzero(np.diff(offsets))  # reduceat has no notion of an empty stretch
    starts = offsets[filled]
    minima = np.empty((count, len(filled)), np.uint32)
    first = 0
    while first < len(filled):
        stop = max(first + 1, int(np.searchsorted(starts, starts[first] + _BLOCK)))
        block = values[starts[first] : starts[stop] if stop < len(starts) else len(values)]
        at = starts[first:stop] - starts[first]
        permuted = np.empty_like(block)
        for k in range(count):
            np.multiply(block, factors[k], out=permuted)
            np.add(permuted, shifts[k], out=permuted)
            np.minimum.reduceat(permuted, at, out=minima[k, first:stop])
        first = stop
    if len(filled) == len(offsets) - 1:
        return minima.T
    result = np.full((len(offsets) - 1, count), EMPTY)
    result[filled] = minima.T
    return result


def detection(similarity: float, bands: int, rows: int) -> float:
    """Compute the probability that two documents of this similarity share at least one band."""
    return 1 - (1 - similarity**rows) ** bands


def choose_bands(threshold: float, count: int) -> tuple[int, int]:
    """Choose bands and rows per band.

    They are the longest bands that detect 95 % of the pairs right at the threshold. datasketch's
    own choice balances missed against false candidates and finds 43 % of the pairs at 0.7 with 128
    permutations (14 bands of 9). Here every candidate is verified, so false ones cost time only.
    """
    for rows in range(count, 0, -1):
        bands = count // rows
        if detection(threshold, bands, rows) >= _LEAST_DETECTION:
            return bands, rows
    return count, 1


def band_hashes(signatures: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """Hash the bands of signatures, uint64 [bands, D].

    A band has `rows` values, as those of `MinHashLSH(params=(bands, rows))`. Documents without
    n-grams share all bands and are no candidates.
    """
    stretches = signatures.T[: bands * rows].reshape(bands, rows, -1)
    hashes = np.zeros((bands, len(signatures)), np.uint64)
    for row in range(rows):
        hashes ^= stretches[:, row]
        hashes *= np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return hashes
