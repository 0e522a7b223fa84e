"""Look up which passages hold an n-gram, and count what documents and passages have in common."""

from __future__ import annotations

import numpy as np

from pipeline.text.arrays import IdTable, ranges, unique


class InvertedIndex:
    """Map n-gram ids to the passages that hold them.

    >>> index = InvertedIndex(np.array([70, 90, 70], np.uint64), np.array([0, 0, 1]))  # passages 0 and 1 hold 70
    >>> at, places = index.table.find(np.array([90, 80, 70], np.uint64))  # a document's n-grams
    >>> [column.tolist() for column in index.common(np.zeros(2, np.int64), places)]  # documents, passages, counts
    [[0, 0], [0, 1], [2, 1]]
    """

    def __init__(self, grams: np.ndarray, passages: np.ndarray) -> None:
        """Take pairs of n-gram id and passage; `places` int64 are the places of the n-grams in the sorted table."""
        ids, self.places = np.unique(grams, return_inverse=True)
        self.table, self.size = IdTable(ids), max(len(ids), 1)
        self._count = int(passages.max(initial=0)) + 1
        places, self.passages = np.divmod(unique(self.places * self._count + passages), self._count)
        self._offsets = np.searchsorted(places, np.arange(len(ids) + 1))

    def common(self, documents: np.ndarray, grams: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Count the different n-grams that documents and passages have in common: documents, passages, counts.

        `grams` int64 [H] are the places of n-grams that stand in `documents` int64 [H].
        """
        documents, grams = np.divmod(unique(documents * self.size + grams), self.size)
        entries, offsets = ranges(self._offsets[grams], self._offsets[grams + 1])
        pairs = np.repeat(documents, np.diff(offsets)) * self._count + self.passages[entries]
        pairs, counts = np.unique(pairs, return_counts=True)
        return *np.divmod(pairs, self._count), counts
