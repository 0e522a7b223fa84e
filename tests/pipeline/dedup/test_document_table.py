"""Documents in DuckDB: ranks, and the pairs of equal band hashes."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.dedup.document_table import DocumentTable
from pipeline.storage.documents import Shard


def star_and_chain(hashes: list[int], nodes: list[int]) -> set[tuple[int, int]]:
    pairs = set()
    for value in set(hashes):
        bucket = sorted(node for other, node in zip(hashes, nodes, strict=True) if other == value)
        pairs.update((bucket[0], node) for node in bucket[1:])
        pairs.update(pairwise(bucket))
    return pairs


def test_every_bucket_is_a_star_and_a_chain(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    hashes = draw.integers(0, 400, (3, 600)).astype(np.uint64) << np.uint64(55)
    hashes[2, 100:400] = 2**64 - 1  # one large bucket
    nodes = draw.permutation(600)  # quality is turned round, so that it decides the node
    zero = np.zeros(600, np.uint64)
    shards = [Shard(tmp_path, 0, 0, 250), Shard(tmp_path, 0, 250, 600)]
    for number, shard in enumerate(shards):
        some = slice(shard.start, shard.stop)
        keys = {"key0": np.arange(600, dtype=np.uint64)[some], "key1": zero[some], "digits": zero[some]}
        questions = {"asked": zero[some] > 0, "question0": zero[some], "question1": zero[some]}
        rows = {"id": [str(doc) for doc in range(shard.start, shard.stop)], "quality": -nodes[some]}
        pq.write_table(pa.table(rows | keys | questions), tmp_path / f"keys-{number}.parquet")
        columns = {str(band): hashes[band, some] for band in range(3)}
        places = np.arange(shard.stop - shard.start)
        pq.write_table(pa.table({"place": places, **columns}), tmp_path / f"bands-{number}.parquet")
    with closing(DocumentTable(shards, tmp_path, 2_000_000_000)) as table:
        table.rank(sorted(tmp_path.glob("keys-*")))
        table.add_signed(shards[:1], [tmp_path / "bands-0.parquet"])
        assert table.unsigned().tolist() == list(range(250, 600))
        table.add_signed(shards[1:], [tmp_path / "bands-1.parquet"])
        assert not len(table.unsigned())
        found = [tuple(pair) for pair in table.candidates(3).tolist()]
    assert found == sorted(set().union(*(star_and_chain(band.tolist(), nodes.tolist()) for band in hashes)))
