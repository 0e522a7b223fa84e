"""Where 64-bit ids stand in a sorted table: the question that every n-gram of every document is asked."""

from __future__ import annotations

import numpy as np

_SLOTS = 16  # for each id of the table
_THREE, _SEVEN = np.uint64(3), np.uint8(7)


class Lookup:
    """Places of 64-bit ids in a sorted table; nearly all misses are told by a look into two tables of flags.

    The first one, by the upper bits of an id, has eight flags to a byte and so fits the processor's cache.
    """

    def __init__(self, table: np.ndarray) -> None:
        self.table = table
        bits = max(int(len(table) * _SLOTS - 1).bit_length(), 10)
        self.shift, self.mask = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
        upper, self.lower = np.zeros(1 << bits, bool), np.zeros(1 << bits, bool)
        upper[table >> self.shift] = True
        self.lower[table & self.mask] = True
        self.upper = np.packbits(upper, bitorder="little")

    def find(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of `ids` are in the table, and where there: int64 [H] each."""
        slots = ids >> self.shift
        flags = np.take(self.upper, (slots >> _THREE).view(np.int64), mode="clip")
        flags >>= slots.astype(np.uint8) & _SEVEN
        flags &= np.uint8(1)
        at = np.flatnonzero(flags)
        at = at[self.lower[ids[at] & self.mask]]
        if not len(at):
            return at, at
        place = np.searchsorted(self.table, ids[at])
        known = self.table[np.minimum(place, len(self.table) - 1)] == ids[at]
        return at[known], place[known]
