"""Compute with sets of different sizes in flat arrays.

Set s is `values[offsets[s]:offsets[s + 1]]`. Here are {7, 8, 9} and {5, 8, 9}:

>>> numbers = np.array([7, 8, 8, 9, 8, 9, 5], np.uint64) << np.uint64(20)
>>> values, offsets = distinct(numbers, np.array([0, 4, 7]))
>>> offsets.tolist()
[0, 3, 6]
>>> jaccard(values, offsets, np.array([0]), np.array([1])).tolist()
[0.5]
"""

from __future__ import annotations

import numpy as np

_GROUP_BITS = 12  # sets are sorted together with their number in the upper bits, so many at a time
_GROUPS = 1 << _GROUP_BITS
_SHIFT = np.uint64(64 - _GROUP_BITS)
_FLAGS = 16  # for each id of a table


def bounds(sizes: np.ndarray) -> np.ndarray:
    """Turn sizes [S] into offsets int64 [S + 1]."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def unique(values: np.ndarray) -> np.ndarray:
    """Sort values and remove repeated ones: numpy.unique hashes them, which takes longer."""
    values = np.sort(values)
    return values[np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]]


def ranges(starts: np.ndarray, stops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate the positions `starts[s]:stops[s]` of all s.

    Returns int64 [M], and offsets int64 [S + 1] into them.
    """
    sizes = stops - starts
    offsets = bounds(sizes)
    positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
    return positions, offsets


def distinct(values: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduce each set to its different values in ascending order, uint64, with new offsets.

    Values are cut to their upper 52 bits: two of the hundreds of n-grams of a pair of documents
    collide once in about
    10^11 pairs.
    """
    parts = [np.empty(0, np.uint64)]
    counts = [np.empty(0, np.int64)]
    for start in range(0, len(offsets) - 1, _GROUPS):
        group = offsets[start : start + _GROUPS + 1]
        upper = values[group[0] : group[-1]] >> np.uint64(_GROUP_BITS)
        keys = unique(_numbered(upper, np.diff(group)))
        counts.append(np.bincount((keys >> _SHIFT).astype(np.int64), minlength=len(group) - 1))
        parts.append(keys << np.uint64(_GROUP_BITS) >> np.uint64(_GROUP_BITS))
    return np.concatenate(parts), bounds(np.concatenate(counts))


def _numbered(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Put the number of each value's set into the upper bits of the value."""
    return np.repeat(np.arange(len(sizes), dtype=np.uint64) << _SHIFT, sizes) | values


def intersections(
    values: np.ndarray, offsets: np.ndarray, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Count the common values of the sets `left[p]` and `right[p]`, int64 [P].

    Sets are as from `distinct`.
    """
    counts = np.zeros(len(left), np.int64)
    for start in range(0, len(left), _GROUPS):
        group = slice(start, start + _GROUPS)
        sides = []
        for sets in (left[group], right[group]):
            positions, ends = ranges(offsets[sets], offsets[sets + 1])
            sides.append(_numbered(values[positions], np.diff(ends)))
        keys = np.concatenate(sides)
        keys.sort(kind="stable")  # two ascending runs, which a stable sort merges
        # A value of both sets of a pair is there twice, under the number of the pair.
        common = keys[1:][keys[1:] == keys[:-1]]
        pairs = (common >> _SHIFT).astype(np.int64)
        counts[group] = np.bincount(pairs, minlength=len(left[group]))
    return counts


def jaccard(
    values: np.ndarray, offsets: np.ndarray, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Compute the Jaccard similarities float64 [P] of pairs of sets as from `distinct`.

    Two empty sets have 0.
    """
    sizes = np.diff(offsets)
    common = intersections(values, offsets, left, right)
    return common / np.maximum(sizes[left] + sizes[right] - common, 1)


class IdTable:
    """Find 64-bit ids in a sorted table.

    Nearly all misses end at two arrays of flags, by the upper and by the lower bits of an id. The
    first array has eight flags to a byte and so fits the processor's cache; what remains is found
    by binary search.

    >>> table = IdTable(np.array([30, 50], np.uint64))
    >>> at, places = table.find(np.array([50, 7, 30], np.uint64))
    >>> at.tolist(), places.tolist()
    ([0, 2], [1, 0])
    """

    def __init__(self, table: np.ndarray) -> None:
        self.table = table
        bits = max(int(len(table) * _FLAGS - 1).bit_length(), 10)
        self.shift = np.uint64(64 - bits)
        self.mask = np.uint64((1 << bits) - 1)
        upper = np.zeros(1 << bits, bool)
        upper[table >> self.shift] = True
        self.lower = np.zeros(1 << bits, bool)
        self.lower[table & self.mask] = True
        self.upper = np.packbits(upper, bitorder="little")

    def find(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of `ids` are in the table, and where in the table: int64 [H] each."""
        slots = ids >> self.shift
        flags = np.take(self.upper, (slots >> np.uint64(3)).view(np.int64), mode="clip")
        flags >>= slots.astype(np.uint8) & np.uint8(7)
        flags &= np.uint8(1)
        at = np.flatnonzero(flags)
        at = at[self.lower[ids[at] & self.mask]]
        if not len(at):
            return at, at
        places = np.searchsorted(self.table, ids[at])
        in_table = self.table[np.minimum(places, len(self.table) - 1)] == ids[at]
        return at[in_table], places[in_table]
