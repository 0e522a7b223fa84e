"""Candidates of buckets, and clusters of verified pairs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dedup.clusters import bucket_pairs, clusters
from tests.pipeline.dedup.buckets import star_and_chain


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 6)), st.randoms())
def test_every_bucket_is_a_star_and_a_chain(hashes: list[int], random) -> None:
    nodes = random.sample(range(1000), len(hashes))
    found = bucket_pairs(np.array(hashes, np.uint64), np.array(nodes, np.int64))
    assert {tuple(pair) for pair in found.tolist()} == star_and_chain(hashes, nodes)


def test_components_split_where_members_contradict() -> None:
    pairs = np.array([[1, 2], [2, 3], [3, 4], [7, 9]])
    dropped, survivors = clusters(pairs, lambda first, second: (first == 1) & (second >= 3))
    assert sorted(zip(dropped.tolist(), survivors.tolist(), strict=True)) == [(2, 1), (4, 3), (9, 7)]
    dropped, _ = clusters(np.empty((0, 2), np.int64), lambda first, second: first > second)
    assert len(dropped) == 0
