"""Documents on disk: Parquet shards in `documents/`, and beside them, in `dropped/`, every document a stage removed.

All stages read and write through this file, so that the columns, the shard size and the counting are said once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import InputError

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("row", pa.int64()),
        ("question", pa.string()),
        ("response", pa.string()),
        ("answer", pa.string()),
    ]
)
DROPPED = SCHEMA.append(pa.field("reason", pa.string())).append(pa.field("because", pa.string()))
SHARD_BYTES = 128 * 2**20
BATCH_BYTES = 32 * 2**20
BATCH_ROWS = 16_384
ROW_GROUP_BYTES = 8 * 2**20  # one is decoded at once, so this is what long documents cost a reader
KEPT = "kept"


def shards(folder: Path | str, kind: str = "documents") -> list[Path]:
    """The Parquet shards of a stage output in reading order; `kind` is `documents` or `dropped`."""
    return sorted((Path(folder) / kind).glob("*.parquet"))


def read_documents(
    folder: Path | str,
    *,
    kind: str = "documents",
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """All documents of a stage output, in order, in batches of at most `batch_rows` rows and about `batch_bytes`.

    Raises InputError for a shard that is cut off or damaged.
    """
    for path in shards(folder, kind):
        yield from read_shard(path, columns=columns, batch_rows=batch_rows, batch_bytes=batch_bytes)


def read_shard(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
    batch_bytes: int = BATCH_BYTES,
    row_group: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The documents of one shard, or of one row group of it, as `read_documents`.

    A batch has as many rows as make `batch_bytes` where rows are largest; one longer than that is a batch of its own.
    """
    with open_shard(path) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        largest = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1)
        rows = int(min(max(batch_bytes / max(largest, 1), 1), batch_rows or BATCH_ROWS))
        chosen = None if row_group is None else [row_group]
        try:
            yield from file.iter_batches(batch_size=rows, columns=columns, row_groups=chosen)
        except (pa.ArrowInvalid, OSError) as error:
            raise _damaged(path, error) from error


def open_shard(path: Path) -> pq.ParquetFile:
    """The file of a shard. Raises InputError for one that is cut off or damaged."""
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InputError:
    reason = str(error).strip().splitlines()[0]
    return InputError(f"{path}: cut off or damaged ({reason}); remove that stage's output and run again")


class DocumentWriter:
    """Writes one stage's kept and dropped documents and counts both by source and reason.

    Use as a context manager; `counts()` gives rows of the table `curation` without the study and the stage.
    """

    def __init__(self, folder: Path | str, *, shard_bytes: int = SHARD_BYTES, prefix: str = "") -> None:
        """`prefix` begins the names of the shards, for stages whose parts are written by themselves."""
        self.folder = Path(folder)
        self._writers = {
            "documents": _ShardWriter(self.folder / "documents", SCHEMA, shard_bytes, prefix),
            "dropped": _ShardWriter(self.folder / "dropped", DROPPED, shard_bytes, prefix),
        }
        self._counts: list[dict[str, Any]] = []

    def keep(self, documents: pa.Table | pa.RecordBatch) -> None:
        """Pass documents on to the next stage."""
        table = _table(documents)
        self._writers["documents"].write(table.select(SCHEMA.names).cast(SCHEMA))
        self._counts = total([self._counts, counted(table, KEPT)])

    def drop(
        self,
        documents: pa.Table | pa.RecordBatch,
        reason: str | pa.Array,
        because: str | pa.Array | None = None,
    ) -> None:
        """Remove documents: `reason` names the rule; `because` the document or benchmark item that caused it."""
        table = _table(documents).select(SCHEMA.names).cast(SCHEMA)
        reasons, causes = (_filled(value, len(table)) for value in (reason, because))
        self._writers["dropped"].write(
            table.append_column("reason", reasons).append_column("because", causes).cast(DROPPED)
        )
        self._counts = total([self._counts, counted(table, reasons)])

    def counts(self) -> list[dict[str, Any]]:
        """One row for each source and reason, sorted: source, reason, documents, characters."""
        return self._counts

    def __enter__(self) -> DocumentWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # after an error what is written is of no use, and closing would only hide it
            for writer in self._writers.values():
                writer.close()


def counted(documents: pa.Table | pa.RecordBatch, reason: str | pa.Array) -> list[dict[str, Any]]:
    """Documents and their characters by source and reason, as rows of the table `curation`."""
    sides = [pc.fill_null(pc.utf8_length(documents[side]), 0) for side in ("question", "response")]
    reasons = _filled(reason, len(documents))
    columns = pa.table({"source": documents["source"], "reason": reasons, "characters": pc.add(*sides)})
    groups = columns.group_by(["source", "reason"]).aggregate([("characters", "sum"), ([], "count_all")])
    names = {"source": "source", "reason": "reason", "documents": "count_all", "characters": "characters_sum"}
    return [{name: row[column] for name, column in names.items()} for row in groups.to_pylist()]


def total(counts: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Several such counts as one, sorted."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in (row for some in counts for row in some):
        entry = sums[row["source"], row["reason"]]
        entry[0] += row["documents"]
        entry[1] += row["characters"]
    return [
        {"source": source, "reason": reason, "documents": documents, "characters": characters}
        for (source, reason), (documents, characters) in sorted(sums.items())
    ]


def _filled(value: str | pa.Array | None, rows: int) -> pa.Array:
    return value if isinstance(value, pa.Array | pa.ChunkedArray) else pa.array([value] * rows, pa.string())


class _ShardWriter:
    """Appends tables to numbered Parquet files of about `shard_bytes` of uncompressed text each.

    Small tables are written together and large ones in pieces, as row groups of at most `ROW_GROUP_BYTES`; only a
    document that is longer makes a larger one.
    """

    def __init__(self, folder: Path, schema: pa.Schema, shard_bytes: int, prefix: str) -> None:
        self.folder, self.schema, self.shard_bytes, self.prefix = folder, schema, shard_bytes, prefix
        self.folder.mkdir(parents=True, exist_ok=True)
        self._writer: pq.ParquetWriter | None = None
        self._number = self._bytes = 0
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0

    def write(self, table: pa.Table) -> None:
        for piece in _pieces(table):
            if self._waiting_bytes + piece.nbytes > ROW_GROUP_BYTES:
                self._flush()
            self._waiting.append(piece)
            self._waiting_bytes += piece.nbytes
            self._bytes += piece.nbytes
            if self._bytes >= self.shard_bytes:
                self.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            path = self.folder / f"{self.prefix}{self._number:05d}.parquet"
            self._writer = pq.ParquetWriter(path, self.schema, compression="zstd")
        group = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        self._writer.write_table(group, row_group_size=max(len(group), 1))

    def close(self) -> None:
        self._flush()
        if self._writer is not None:
            writer, self._writer, self._bytes = self._writer, None, 0
            writer.close()
            self._number += 1


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    """The table in pieces of at most `ROW_GROUP_BYTES`, or of one document."""
    if table.nbytes <= ROW_GROUP_BYTES or len(table) == 1:
        if len(table):
            yield table
        return
    middle = len(table) // 2
    yield from _pieces(table.slice(0, middle))
    yield from _pieces(table.slice(middle))


def _table(documents: pa.Table | pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([documents]) if isinstance(documents, pa.RecordBatch) else documents
