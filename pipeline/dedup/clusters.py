"""Turn verified pairs of near duplicates into clusters with one survivor each.

Documents are nodes, numbered in the order in which they survive: the smallest node of a cluster is its survivor.

>>> pairs = np.array([[1, 2], [2, 3], [3, 4], [7, 9]])  # 3 and 4 contradict 1
>>> nodes, survivors = clusters(pairs, lambda survivors, members: (survivors == 1) & (members >= 3))
>>> sorted(zip(nodes.tolist(), survivors.tolist()))
[(2, 1), (4, 3), (9, 7)]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def clusters(
    pairs: np.ndarray, contradict: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Find connected components of verified pairs int64 [P, 2]: dropped nodes and the survivor of each.

    Components chain: a and c may be joined through b only. Members that `contradict(survivors, members)` bool rules out
    do not go with their component; they form components of their own by the pairs among them.
    """
    dropped, survivors = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    while len(pairs):
        nodes, places = np.unique(pairs, return_inverse=True)
        places = places.reshape(-1, 2)
        ones = np.ones(len(pairs), bool)
        graph = coo_array((ones, (places[:, 0], places[:, 1])), shape=(len(nodes), len(nodes)))
        _, labels = connected_components(graph, directed=False)
        first = nodes[np.unique(labels, return_index=True)[1]][labels]  # nodes ascend, so the first is the smallest
        member = first != nodes
        out = np.zeros(len(nodes), bool)
        out[member] = contradict(first[member], nodes[member])
        gone = member & ~out
        dropped.append(nodes[gone])
        survivors.append(first[gone])
        pairs = pairs[out[places].all(axis=1)]
    return np.concatenate(dropped), np.concatenate(survivors)
