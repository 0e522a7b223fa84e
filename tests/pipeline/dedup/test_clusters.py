"""Candidates of buckets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dedup.clusters import bucket_pairs
from tests.pipeline.dedup.buckets import star_and_chain


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 6)), st.randoms())
def test_every_bucket_is_a_star_and_a_chain(hashes: list[int], random) -> None:
    nodes = random.sample(range(1000), len(hashes))
    found = bucket_pairs(np.array(hashes, np.uint64), np.array(nodes, np.int64))
    assert {tuple(pair) for pair in found.tolist()} == star_and_chain(hashes, nodes)
