"""Draw a 64-bit random number (SplitMix64) for each document, and how often it is packed.

The numbers are equal on every machine. Example: of a source with weight 2.25, three of four
documents are packed twice and one three times.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

LEFT_OUT = "left out by the weight of its source"  # the reason in the counts
_STEP = np.uint64(0x9E3779B97F4A7C15)


def random_numbers(seed: int, first: int, count: int) -> np.ndarray:
    """Compute the random numbers uint64 [count] of the documents `first:first + count`."""
    with np.errstate(over="ignore"):
        state = np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)
        return _mixed(state * _STEP + _mixed(np.array([seed % 2**64], np.uint64)))


def scattered(ids: np.ndarray) -> np.ndarray:
    """Compute a random number uint64 [D] from each id: equal ids have equal numbers."""
    with np.errstate(over="ignore"):
        return _mixed(ids + _STEP)


def _mixed(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def copies_of(
    sources: pa.Array, weights: Iterable[tuple[str, float]], seed: int, first: int
) -> np.ndarray:
    """Draw how often each document is packed, int64 [D], by the weight of its source.

    The weight is 1 where none is given.
    """
    wanted = np.ones(len(sources))
    for name, weight in weights:
        wanted[np.asarray(pc.equal(sources, name))] = weight
    # The numbers that shuffle the first copies, scattered once, shuffle the second ones: where
    # there may be second copies, their number is drawn from those of another seed. Else second
    # copies would all be at the end of training.
    once = scattered(random_numbers(seed, first, len(sources)))
    drawn = np.where(wanted > 1, random_numbers(~seed, first, len(sources)), once) / 2.0**64
    return (wanted + drawn).astype(np.int64)


def repeat(
    records: np.ndarray, starts: np.ndarray, copies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Repeat each document `copies` times, each time with another random number.

    The first keeps the document's number.
    """
    owner = np.repeat(np.arange(len(records)), copies)
    records = records[owner]
    starts = starts[owner]
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)  # of the copy, from 0
    for copy in range(1, int(copies.max(initial=0))):
        later = number >= copy  # copy n is scattered n times
        records["key"][later] = scattered(records["key"][later])
    return records, starts
