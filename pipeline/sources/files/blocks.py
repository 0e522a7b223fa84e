"""Blocks of rows, as the readers of all kinds of files yield them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

Record = TypeVar("Record", bytes, list[str])

BLOCK_BYTES = 8 * 2**20
BLOCK_RECORDS = 2048
LONGEST_SHOWN = 10_000


@dataclass(frozen=True)
class Block:
    """A block of rows: a table of columns, and the rows' numbers in the file.

    `malformed` are rows as (number, text), and `not_text` rows with a value that has no text where
    one is wanted. `done` is the fraction of the file that has been read.
    """

    table: pa.Table
    rows: pa.Array
    done: float
    malformed: list[tuple[int, str]] = field(default_factory=list)
    not_text: list[tuple[int, str]] = field(default_factory=list)


def batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Group records into lists of at most `BLOCK_RECORDS` records and half of `BLOCK_BYTES`."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record) if isinstance(record, bytes) else sum(map(len, record))
        # half, because texts are held twice: as they were read, and parsed
        if len(batch) == BLOCK_RECORDS or size >= BLOCK_BYTES // 2:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch
