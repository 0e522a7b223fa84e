"""The shards of several stage outputs as one sequence of numbered documents, read in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.storage.documents import open_shard, read_shard, shards


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
            with open_shard(path) as file:
                found.append(Shard(path, number, first, first + file.metadata.num_rows))
    return found


def batches(
    shard: Shard, columns: Sequence[str] | None = None, *, rows: tuple[int, int] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The shard's documents in batches, each with its first document's place in reading order.

    `rows` picks one row group: its number and its first document. Raises InputError for a broken file.
    """
    group, first = (None, shard.first) if rows is None else rows
    for batch in read_shard(shard.path, columns=columns, row_group=group):
        yield first, batch
        first += len(batch)


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
        with open_shard(shard.path) as file:
            first = shard.first
            for i in range(file.num_row_groups):
                size = file.metadata.row_group(i).num_rows
                groups.append((shard, (i, first), size))
                first += size
    total = sum(size for _, _, size in groups)
    yield from groups[:: max(1, total // max(documents, 1))]
