"""Documents on disk: what is kept can be read again, what is dropped says why, and the counts add up."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.storage.documents import DROPPED, ROW_GROUP_BYTES, SCHEMA, DocumentWriter, read_documents, shards
from tests.pipeline.documents import table as table_of


def table(count: int, source: str = "s", start: int = 0) -> pa.Table:
    return table_of(((f"q{i}", "résponse", None) for i in range(start, start + count)), source, start)


def test_round_trip_and_counts(tmp_path: Path) -> None:
    with DocumentWriter(tmp_path) as writer:
        writer.keep(table(3))
        writer.keep(table(2, "t").to_batches()[0])
        writer.drop(table(1, start=3), "empty")
        writer.drop(table(2, "t", 5), pa.array(["near", "exact"]), pa.array(["s/0", None]))
    kept = pa.Table.from_batches(read_documents(tmp_path))
    assert kept.schema == SCHEMA
    assert kept["id"].to_pylist() == ["s/0", "s/1", "s/2", "t/0", "t/1"]
    dropped = pa.Table.from_batches(read_documents(tmp_path, kind="dropped"))
    assert dropped.schema == DROPPED
    assert dropped["reason"].to_pylist() == ["empty", "near", "exact"]
    assert dropped["because"].to_pylist() == [None, "s/0", None]
    assert writer.counts() == [
        {"source": "s", "reason": "empty", "documents": 1, "characters": 10},
        {"source": "s", "reason": "kept", "documents": 3, "characters": 30},
        {"source": "t", "reason": "exact", "documents": 1, "characters": 10},
        {"source": "t", "reason": "kept", "documents": 2, "characters": 20},
        {"source": "t", "reason": "near", "documents": 1, "characters": 10},
    ]


def test_shards_are_cut_by_size_and_read_in_order(tmp_path: Path) -> None:
    with DocumentWriter(tmp_path, shard_bytes=200) as writer:
        for start in range(0, 50, 5):
            writer.keep(table(5, start=start))
    assert len(shards(tmp_path)) > 1
    rows = [row for batch in read_documents(tmp_path, columns=["row"]) for row in batch["row"].to_pylist()]
    assert rows == list(range(50))


def test_batches_are_bounded_by_bytes_however_long_documents_are(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("pipeline.storage.documents.BATCH_BYTES", 20_000_000)
    lengths = [100] * 50 + [10_000_000] * 6 + [100] * 50 + [1_000_000] * 30
    with DocumentWriter(tmp_path) as writer:
        writer.keep(table_of(("q", "é" * (length // 2)) for length in lengths))
    (shard,) = shards(tmp_path)
    metadata = pq.ParquetFile(shard).metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert max(sizes) <= 60
    batches = list(read_documents(tmp_path))
    assert max(batch.nbytes for batch in batches) <= 20_000_000 + 2 * ROW_GROUP_BYTES
    assert [len(text) * 2 for batch in batches for text in batch["response"].to_pylist()] == lengths
    assert all(len(batch) <= 7 for batch in read_documents(tmp_path, batch_rows=7))


def test_small_tables_share_a_row_group(tmp_path: Path) -> None:
    with DocumentWriter(tmp_path) as writer:
        for start in range(0, 100, 5):
            writer.keep(table(5, start=start))
    (shard,) = shards(tmp_path)
    assert pq.ParquetFile(shard).metadata.num_row_groups == 1


def test_a_shard_that_is_cut_off_is_named(tmp_path: Path) -> None:
    with DocumentWriter(tmp_path) as writer:
        writer.keep(table(100))
    (shard,) = shards(tmp_path)
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(InputError, match=rf"{shard}: cut off or damaged .*--repair"):
        list(read_documents(tmp_path))
