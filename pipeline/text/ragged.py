"""Sets of different sizes in flat arrays: those of set s are `values[offsets[s]:offsets[s + 1]]`.

Jaccard similarities of many pairs of documents are computed on these, by sorting flat arrays only.
"""

from __future__ import annotations

import numpy as np

_GROUP_BITS = 12  # groups are sorted together with their number in the upper bits, so many at a time
_GROUPS = 1 << _GROUP_BITS
_SHIFT = np.uint64(64 - _GROUP_BITS)


def ranges(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions `first[s]:last[s]` of all s one after the other, int64 [M], and offsets int64 [S + 1] into them."""
    offsets = np.concatenate([[0], np.cumsum(last - first)])
    return np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], last - first), offsets


def distinct(values: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each set's different values in ascending order, uint64, with new offsets.

    Values are cut to their upper 52 bits: two of the hundreds of n-grams of a pair of documents fall together once in
    some 10^11 pairs.
    """
    parts, counts = [], []
    for start in range(0, len(offsets) - 1, _GROUPS):
        some = offsets[start : start + _GROUPS + 1]
        keys = _keyed(values[some[0] : some[-1]], np.diff(some))
        keys.sort()
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
        counts.append(np.bincount((keys >> _SHIFT).astype(np.int64), minlength=len(some) - 1))
        parts.append(keys << np.uint64(_GROUP_BITS) >> np.uint64(_GROUP_BITS))
    if not parts:
        return np.empty(0, np.uint64), np.zeros(1, np.int64)
    return np.concatenate(parts), np.concatenate([[0], np.cumsum(np.concatenate(counts))])


def _keyed(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(sizes), dtype=np.uint64) << _SHIFT, sizes) | values >> np.uint64(_GROUP_BITS)


def shared(values: np.ndarray, offsets: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How many values the sets `left[p]` and `right[p]` have in common, int64 [P]; sets as `distinct` gives them."""
    counts = np.zeros(len(left), np.int64)
    for start in range(0, len(left), _GROUPS):
        both = np.stack([left[start : start + _GROUPS], right[start : start + _GROUPS]], axis=1).ravel()
        positions, bounds = ranges(offsets[both], offsets[both + 1])
        sizes = np.diff(bounds[::2])
        keys = np.repeat(np.arange(len(sizes), dtype=np.uint64) << _SHIFT, sizes) | values[positions]
        keys.sort()
        pairs = (keys[1:][keys[1:] == keys[:-1]] >> _SHIFT).astype(np.int64)
        counts[start : start + _GROUPS] = np.bincount(pairs, minlength=len(sizes))
    return counts


def jaccard(values: np.ndarray, offsets: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Jaccard similarities float64 [P] of pairs of sets, as `distinct` gives them; two empty sets have 0."""
    sizes = np.diff(offsets)
    common = shared(values, offsets, left, right)
    return common / np.maximum(sizes[left] + sizes[right] - common, 1)
