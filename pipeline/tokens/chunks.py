"""Divide a corpus into chunks that are encoded and shuffled by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from pipeline.storage.documents import open_shard, read_shard
from pipeline.storage.numbered_shards import Shard


@dataclass(frozen=True)
class Chunk:
    """Neighbouring row groups of one Parquet file; `first` is the number of its first document in the corpus."""

    number: int
    path: str
    row_groups: tuple[int, ...]
    first: int


def bytes_of_text(path: Path) -> int:
    """Sum the bytes of the questions and responses of a shard."""
    batches = read_shard(path, columns=["question", "response"])
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for batch in batches for column in batch.columns)


def divide(files: Sequence[Shard], chunk_bytes: int) -> list[Chunk]:
    """Divide the corpus into chunks of whole row groups, each of about `chunk_bytes` before compression."""
    chunks: list[Chunk] = []
    for shard in files:
        with open_shard(shard.path) as file:
            metadata = file.metadata
        first, groups, rows, size = shard.start, [], 0, 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            groups.append(number)
            rows, size = rows + group.num_rows, size + group.total_byte_size
            if size >= chunk_bytes or number == metadata.num_row_groups - 1:
                if rows:
                    chunks.append(Chunk(len(chunks), str(shard.path), tuple(groups), first))
                first, groups, rows, size = first + rows, [], 0, 0
    return chunks
