"""Files and folders are whole or absent, documents in shards; a process that dies is one line."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.documents import (
    DROPPED,
    ROW_GROUP_BYTES,
    SCHEMA,
    DocumentWriter,
    read_documents,
    shards,
)
from dreamer_study.pipeline.storage.files import (
    atomic_file,
    atomic_folder,
    replace_folder,
    write_text_atomically,
)
from dreamer_study.pipeline.storage.locks import try_lock
from dreamer_study.pipeline.storage.parallel import memory_bytes, workers
from tests.pipeline.documents import table as table_of


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_whole(tmp_path: Path, shared: bool, durable: bool) -> None:
    path = tmp_path / "a.json"
    write_text_atomically(path, "old", shared=shared, durable=durable)
    with suppress(KeyError), atomic_file(path, shared=shared, durable=durable) as partial:
        partial.write_text("ha")
        assert path.read_text() == "old"
        assert partial.suffix == ".partial"
        raise KeyError
    assert path.read_text() == "old"
    write_text_atomically(path, "ü", shared=shared, durable=durable)
    assert path.read_bytes() == "ü".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_file(path, shared=True) as one, atomic_file(path, shared=True) as two:
        one.write_text("one")
        two.write_text("two")
    assert path.read_text() == "one"  # the outer one is renamed after the inner one
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_when_it_is_full(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    (tmp_path / "a" / "b.partial" / "left over").mkdir(parents=True)
    with suppress(KeyError), atomic_folder(folder) as partial:
        assert not list(partial.iterdir())
        raise KeyError
    assert not list((tmp_path / "a").iterdir())
    with atomic_folder(folder) as partial:
        (partial / "deep").mkdir()
        (partial / "deep" / "file").write_text("x")
        assert not folder.exists()
    assert (folder / "deep" / "file").read_text() == "x"
    assert list((tmp_path / "a").iterdir()) == [folder]


def test_a_folder_with_content_is_not_overwritten(tmp_path: Path) -> None:
    for name in ("partial", "final"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    with pytest.raises(OSError, match="not empty"):
        replace_folder(tmp_path / "partial", tmp_path / "final")


def test_a_lock_excludes_others_until_the_file_is_closed_and_shared_ones_each_other_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lock"
    with path.open("w") as first, path.open() as second:
        assert try_lock(first)
        assert not try_lock(second)
        assert not try_lock(second, shared=True)
    with path.open() as third, path.open() as fourth:
        assert try_lock(third)
        assert try_lock(third, shared=True)
        assert try_lock(fourth, shared=True)
        assert not try_lock(third)


def test_amounts_in_powers_of_1000_and_1024() -> None:
    assert memory_bytes("1.5GB") == 1_500_000_000
    assert memory_bytes("2 MiB") == 2 * 2**20
    with pytest.raises(InputError, match="4GB"):
        memory_bytes("much")


@pytest.mark.slow
def test_a_process_that_is_killed_is_one_clear_line():
    """As the system does where memory runs out."""
    with (
        pytest.raises(InputError, match="one of 2 processes of a data stage was killed"),
        workers(2) as run,
    ):
        list(run(os._exit, [(9,), (9,)]))


def table(count: int, source: str = "s", start: int = 0) -> pa.Table:
    return table_of(
        ((f"q{i}", "résponse", None) for i in range(start, start + count)), source, start
    )


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
    rows = [
        row
        for batch in read_documents(tmp_path, columns=["row"])
        for row in batch["row"].to_pylist()
    ]
    assert rows == list(range(50))


@pytest.mark.slow
def test_batches_are_bounded_by_bytes_however_long_documents_are(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("dreamer_study.pipeline.storage.documents.BATCH_BYTES", 20_000_000)
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
