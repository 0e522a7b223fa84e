"""Read, number, write and count documents, which travel between stages as Parquet shards.

`documents/` has what a stage kept, such as

    id            source  row  question            response            answer
    gsm8k@7403/0  gsm8k   0    Natalia sold clip…  Natalia sold 48/2…  72

and `dropped/` what a stage removed, with `reason` and `because`: the rule, and the document or
benchmark item that caused the removal, if one did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.integrity import REPAIR

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
ROW_GROUP_BYTES = 8 * 2**20  # a reader decodes one row group at once
KEPT = "kept"


def shards(folder: Path | str, kind: str = "documents") -> list[Path]:
    """List the Parquet shards of a stage output in reading order.

    `kind` is `documents` or `dropped`.
    """
    return sorted((Path(folder) / kind).glob("*.parquet"))


def read_documents(
    folder: Path | str,
    *,
    kind: str = "documents",
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield all documents of a stage output, in order, in batches as `read_shard` makes them."""
    batches = (
        read_shard(path, columns=columns, batch_rows=batch_rows) for path in shards(folder, kind)
    )
    return chain.from_iterable(batches)


def read_shard(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the documents of one shard, or of some of its row groups, in batches.

    A batch has at most `batch_rows` rows (default `BATCH_ROWS`) and about `BATCH_BYTES`; a longer
    document is a batch of its own. Raises InputError for a shard that is cut off or damaged.
    """
    with open_shard(path) as file:
        document_bytes = 1.0  # of the row group with the longest documents
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            document_bytes = max(document_bytes, group.total_byte_size / max(group.num_rows, 1))
        rows = int(min(max(BATCH_BYTES / document_bytes, 1), batch_rows or BATCH_ROWS))
        try:
            yield from file.iter_batches(batch_size=rows, columns=columns, row_groups=row_groups)
        except (pa.ArrowInvalid, OSError) as error:
            raise _damaged(path, error) from error


def open_shard(path: Path) -> pq.ParquetFile:
    """Open the file of a shard. Raises InputError for a file that is cut off or damaged."""
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InputError:
    reason = str(error).strip().splitlines()[0]
    return InputError(f"{path}: cut off or damaged ({reason}); {REPAIR}")


@dataclass(frozen=True)
class Shard:
    """One file of documents.

    `source` is the number of the stage output, `start:stop` are the file's documents in reading
    order.
    """

    path: Path
    source: int
    start: int
    stop: int

    def __fspath__(self) -> str:
        return str(self.path)


def find_shards(sources: Sequence[Path]) -> list[Shard]:
    """List the shards of the `documents/` of these stage outputs, in order.

    Raises InputError for a file that is not readable as Parquet.
    """
    files: list[Shard] = []
    start = 0
    for number, source in enumerate(sources):
        for path in shards(source):
            with open_shard(path) as file:
                stop = start + file.metadata.num_rows
            files.append(Shard(path, number, start, stop))
            start = stop
    return files


def numbered_batches(
    shard: Shard, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the shard's documents in batches, each with the number of its first document.

    Raises InputError for a broken file.
    """
    start = shard.start
    for batch in read_shard(shard.path, columns=columns):
        yield start, batch
        start += len(batch)


def batches_of(
    shard: Shard, documents: np.ndarray, columns: Sequence[str]
) -> Iterator[tuple[slice, pa.RecordBatch]]:
    """Yield batches of a shard's documents with these numbers (ascending).

    Each batch comes with its slice of `documents`.
    """
    for first, batch in numbered_batches(shard, columns):
        start, stop = np.searchsorted(documents, (first, first + len(batch)))
        if stop - start == len(batch):
            yield slice(start, stop), batch
        elif start < stop:
            yield slice(start, stop), batch.take(pa.array(documents[start:stop] - first))


class DocumentWriter:
    """Write a stage's kept and dropped documents, and count both by source and reason.

    Use it as a context manager.
    """

    def __init__(
        self, folder: Path | str, *, shard_bytes: int = SHARD_BYTES, prefix: str = ""
    ) -> None:
        """Create the folders; the names of the shards begin with `prefix`."""
        self.folder = Path(folder)
        self._writers = {
            "documents": _ShardWriter(self.folder / "documents", SCHEMA, shard_bytes, prefix),
            "dropped": _ShardWriter(self.folder / "dropped", DROPPED, shard_bytes, prefix),
        }
        self._counts: list[dict[str, Any]] = []

    def keep(self, documents: pa.Table | pa.RecordBatch) -> None:
        """Write documents for the next stage."""
        table = pa.table(documents)
        self._writers["documents"].write(table.select(SCHEMA.names).cast(SCHEMA))
        self._counts = sum_counts([self._counts, count_documents(table, KEPT)])

    def drop(
        self,
        documents: pa.Table | pa.RecordBatch,
        reason: str | pa.Array,
        because: str | pa.Array | None = None,
    ) -> None:
        """Write removed documents: `reason` names the rule, `because` what caused the removal."""
        table = pa.table(documents).select(SCHEMA.names).cast(SCHEMA)
        reasons = _filled(reason, len(table))
        causes = _filled(because, len(table))
        explained = table.append_column("reason", reasons).append_column("because", causes)
        self._writers["dropped"].write(explained.cast(DROPPED))
        self._counts = sum_counts([self._counts, count_documents(table, reasons)])

    def counts(self) -> list[dict[str, Any]]:
        """Return the counts so far: rows of source, reason, documents and characters.

        The rows are sorted by source and reason.
        """
        return self._counts

    def __enter__(self) -> DocumentWriter:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:  # closing after an error would only hide the error
            for writer in self._writers.values():
                writer.close()


def count_documents(
    documents: pa.Table | pa.RecordBatch, reason: str | pa.Array, tokens: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """Count documents, their characters and, if given, their `tokens` by source and reason.

    Returns rows of the table `curation`.
    """
    asked = pc.fill_null(pc.utf8_length(documents["question"]), 0)
    answered = pc.fill_null(pc.utf8_length(documents["response"]), 0)
    numbers = {
        "documents": np.ones(len(documents), np.int64),
        "characters": pc.add(asked, answered),
    }
    if tokens is not None:
        numbers["tokens"] = tokens
    keys = {"source": documents["source"], "reason": _filled(reason, len(documents))}
    groups = pa.table({**keys, **numbers}).group_by(list(keys))
    sums = groups.aggregate([(name, "sum") for name in numbers])
    names = [name.removesuffix("_sum") for name in sums.column_names]
    return sums.rename_columns(names).to_pylist()


def sum_counts(counts: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Add several results of `count_documents` up, by source and reason, sorted."""
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in chain.from_iterable(counts):
        numbers = {name: number for name, number in row.items() if name not in ("source", "reason")}
        sums[row["source"], row["reason"]].update(numbers)
    return [
        {"source": source, "reason": reason, **sums[source, reason]}
        for source, reason in sorted(sums)
    ]


def _filled(value: str | pa.Array | None, rows: int) -> pa.Array:
    """Return a column: the value itself, or one text for all rows."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value
    return pa.array([value] * rows, pa.string())


class _ShardWriter:
    """Append tables to numbered Parquet files of about `shard_bytes` of uncompressed text each.

    Small tables are joined and large ones split to row groups of at most `ROW_GROUP_BYTES`, or of
    one document.
    """

    def __init__(self, folder: Path, schema: pa.Schema, shard_bytes: int, prefix: str) -> None:
        self.folder = folder
        self.schema = schema
        self.shard_bytes = shard_bytes
        self.prefix = prefix
        self.folder.mkdir(parents=True, exist_ok=True)
        self._writer: pq.ParquetWriter | None = None
        self._number = 0  # of the shard
        self._bytes = 0  # of text in the shard
        self._waiting: list[pa.Table] = []  # for their row group
        self._waiting_bytes = 0

    def write(self, table: pa.Table) -> None:
        if table.nbytes > ROW_GROUP_BYTES and len(table) > 1:
            middle = len(table) // 2
            self.write(table.slice(0, middle))
            self.write(table.slice(middle))
            return
        if self._waiting_bytes + table.nbytes > ROW_GROUP_BYTES:
            self._flush()
        self._waiting.append(table)
        self._waiting_bytes += table.nbytes
        self._bytes += table.nbytes
        if self._bytes >= self.shard_bytes:
            self.close()

    def _flush(self) -> None:
        group = pa.concat_tables([self.schema.empty_table(), *self._waiting])
        self._waiting = []
        self._waiting_bytes = 0
        if not len(group):
            return
        if self._writer is None:
            path = self.folder / f"{self.prefix}{self._number:05d}.parquet"
            self._writer = pq.ParquetWriter(path, self.schema, compression="zstd")
        self._writer.write_table(group, row_group_size=len(group))

    def close(self) -> None:
        self._flush()
        if self._writer is not None:
            writer = self._writer
            self._writer = None  # also where closing fails
            self._bytes = 0
            writer.close()
            self._number += 1
