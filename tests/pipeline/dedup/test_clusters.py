"""Joins of band hashes: the same candidates as by looking at every pair of a bucket, in any number of parts."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dedup.clusters import Clusters, bucket_pairs


def star_and_chain(hashes: list[int], nodes: list[int]) -> set[tuple[int, int]]:
    pairs = set()
    for value in set(hashes):
        bucket = sorted(node for other, node in zip(hashes, nodes, strict=True) if other == value)
        pairs.update((bucket[0], node) for node in bucket[1:])
        pairs.update(pairwise(bucket))
    return pairs


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 6)), st.randoms())
def test_every_bucket_is_a_star_and_a_chain(hashes: list[int], random) -> None:
    nodes = random.sample(range(1000), len(hashes))
    found = bucket_pairs(np.array(hashes, np.uint64), np.array(nodes, np.int64))
    assert {tuple(pair) for pair in found.tolist()} == star_and_chain(hashes, nodes)


@pytest.mark.parametrize("memory", [1_000, 1_000_000_000])
def test_a_join_in_parts_finds_the_same(tmp_path: Path, memory: int) -> None:
    draw = np.random.default_rng(0)
    hashes = draw.integers(0, 400, (3, 600)).astype(np.uint64) << np.uint64(40)
    nodes = draw.permutation(600)
    for number, some in enumerate((slice(0, 250), slice(250, 600))):
        columns = {str(band): hashes[band, some] for band in range(3)}
        pq.write_table(pa.table({"node": nodes[some], **columns}), tmp_path / f"bands-{number}.parquet")
    with closing(Clusters(tmp_path, 2_000_000_000)) as table:
        table.memory = memory
        table.connection.execute("create table pairs (earlier bigint, later bigint)")
        table.join(sorted(tmp_path.glob("bands-*")), 3)
        found = {tuple(pair) for pair in table.candidates().tolist()}
    assert found == set().union(*(star_and_chain(band.tolist(), nodes.tolist()) for band in hashes))
