"""The shards of several stage outputs as one sequence of numbered documents, read in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.documents import shards
from pipeline.errors import InputError

BATCH_BYTES = 32 * 2**20
BATCH_ROWS = 16_384


@dataclass(frozen=True)
class Shard:
    """One file of documents: its place, the number of its source, and its documents `first:last` in reading order."""

    path: Path
    source: int
    first: int
    last: int


def find_shards(sources: Sequence[Path]) -> list[Shard]:
    """All shards of the `documents/` of these stage outputs, in order.

    Raises InputError for a file that is no readable Parquet file, as one that was cut off.
    """
    found: list[Shard] = []
    for number, source in enumerate(sources):
        for path in shards(source):
            first = found[-1].last if found else 0
            with _open(path) as file:
                found.append(Shard(path, number, first, first + file.metadata.num_rows))
    return found


def batches(
    shard: Shard, columns: Sequence[str] | None = None, *, rows: tuple[int, int] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The shard's documents in batches, each with its first document's place in reading order.

    A batch holds as many rows as make about `BATCH_BYTES` where rows are largest. `rows` picks one row group: its
    number and its first document. Raises InputError for a broken file.
    """
    with _open(shard.path) as file:
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        largest = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1)
        size = int(min(max(BATCH_BYTES / max(largest, 1), 16), BATCH_ROWS))
        first = shard.first if rows is None else rows[1]
        try:
            chosen = None if rows is None else [rows[0]]
            for batch in file.iter_batches(batch_size=size, columns=columns, row_groups=chosen):
                yield first, batch
                first += len(batch)
        except (pa.ArrowInvalid, OSError) as error:
            raise _broken(shard.path, error) from error


def chosen(shard: Shard, documents: np.ndarray, columns: Sequence[str]) -> Iterator[tuple[slice, pa.RecordBatch]]:
    """The documents of a shard with these places in reading order (ascending): which of them a batch holds, and it."""
    for first, batch in batches(shard, columns):
        start, end = np.searchsorted(documents, (first, first + len(batch)))
        if end - start == len(batch):
            yield slice(start, end), batch
        elif start < end:
            yield slice(start, end), batch.take(pa.array(documents[start:end] - first))


def spread(files: Sequence[Shard], documents: int) -> Iterator[tuple[Shard, tuple[int, int], int]]:
    """Row groups with about so many documents in all, evenly from all shards: shard, `rows` for `batches`, size."""
    groups = []
    for shard in files:
        with _open(shard.path) as file:
            first = shard.first
            for i in range(file.num_row_groups):
                size = file.metadata.row_group(i).num_rows
                groups.append((shard, (i, first), size))
                first += size
    total = sum(size for _, _, size in groups)
    yield from groups[:: max(1, total // max(documents, 1))]


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> InputError:
    reason = str(error).strip().splitlines()[0]
    return InputError(f"{path}: no readable Parquet file ({reason}): remove that stage's output and run it again")
