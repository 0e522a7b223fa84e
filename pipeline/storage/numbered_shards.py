"""Number the documents of several stage outputs consecutively, and read them in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.storage.documents import open_shard, read_shard, shards


@dataclass(frozen=True)
class Shard:
    """One file of documents: path, number of the stage output, and its documents `start:stop` in reading order."""

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
    found: list[Shard] = []
    for number, source in enumerate(sources):
        for path in shards(source):
            start = found[-1].stop if found else 0
            with open_shard(path) as file:
                found.append(Shard(path, number, start, start + file.metadata.num_rows))
    return found


def numbered_batches(shard: Shard, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the shard's documents in batches, each with the number of its first document.

    Raises InputError for a broken file.
    """
    start = shard.start
    for batch in read_shard(shard.path, columns=columns):
        yield start, batch
        start += len(batch)


def batches_of(shard: Shard, documents: np.ndarray, columns: Sequence[str]) -> Iterator[tuple[slice, pa.RecordBatch]]:
    """Yield batches of a shard's documents with these numbers (ascending), each with its slice of `documents`."""
    for first, batch in numbered_batches(shard, columns):
        start, stop = np.searchsorted(documents, (first, first + len(batch)))
        if stop - start == len(batch):
            yield slice(start, stop), batch
        elif start < stop:
            yield slice(start, stop), batch.take(pa.array(documents[start:stop] - first))
