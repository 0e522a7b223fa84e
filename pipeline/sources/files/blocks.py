"""Blocks of rows, as the readers of all kinds of files yield them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

BLOCK_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Block:
    """A block of rows: a table with one column per path, the rows' numbers in the file, malformed rows as (row, text).

    `end` is the number of the row after the block, `done` the fraction of the file that has been read.
    """

    table: pa.Table
    rows: pa.Array
    end: int
    done: float
    malformed: list[tuple[int, str]] = field(default_factory=list)
