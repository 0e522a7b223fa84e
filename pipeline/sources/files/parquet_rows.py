"""Read rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.blocks import BLOCK_BYTES, Block

MOST_ROWS = 16_384  # of a block


class ParquetRows:
    """Read a Parquet file in blocks of about `BLOCK_BYTES` of text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.file = pq.ParquetFile(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise unreadable(path, error) from error
        columns = []
        for field in self.file.schema_arrow:
            is_bytes = field.type in (pa.binary(), pa.large_binary())
            columns.append((field.name, pa.string() if is_bytes else field.type))
        self.schema = pa.schema(columns)

    def count(self, limit: int | None = None) -> int:
        """Count all rows, whatever the limit: the file says how many they are."""
        return self.file.metadata.num_rows

    def blocks(
        self, columns: pa.Schema, limit: int | None = None, expressions: str | None = None
    ) -> Iterator[Block]:
        """Yield all rows, or `limit` rows taken evenly from the heads of the row groups."""
        total = self.file.metadata.num_rows
        first_row = 0
        for group in range(self.file.metadata.num_row_groups):
            next_group = first_row + self.file.metadata.row_group(group).num_rows
            quota = next_group - first_row
            if limit is not None and limit < total:
                quota = next_group * limit // total - first_row * limit // total
            if quota:
                yield from self._group_blocks(group, columns.names, first_row, quota)
            first_row = next_group

    def _group_blocks(
        self, group: int, columns: Sequence[str], first_row: int, quota: int
    ) -> Iterator[Block]:
        """Yield the first `quota` rows of a row group, which begins at `first_row` of the file."""
        metadata = self.file.metadata.row_group(group)
        row_bytes = max(metadata.total_byte_size // max(metadata.num_rows, 1), 1)
        batch_rows = min(max(BLOCK_BYTES // row_bytes, 1), MOST_ROWS, quota)
        row = first_row
        stop = first_row + quota
        try:
            for batch in self.file.iter_batches(batch_rows, row_groups=[group], columns=columns):
                batch = batch.slice(0, min(len(batch), stop - row))
                numbers = pa.array(range(row, row + len(batch)), pa.int64())
                row += len(batch)
                table = pa.table({name: valid(batch[name]) for name in columns})
                yield Block(table, numbers, row / self.file.metadata.num_rows)
                if row >= stop:
                    break
        except (pa.ArrowInvalid, OSError) as error:
            raise unreadable(self.path, error, row) from error


def valid(array: pa.Array) -> pa.Array:
    """Make texts valid UTF-8, which Parquet does not guarantee; plain bytes are taken for text."""
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        array = array.cast(pa.binary()).view(pa.string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        values = array.cast(_byte_type(array.type)).to_pylist()
        return pa.array([_decoded(value) for value in values], array.type)
    return array


def _byte_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with bytes in the place of texts."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _byte_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_byte_type(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.binary()
    return kind


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: _decoded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_decoded(inner) for inner in value]
    return value


def unreadable(path: Path, error: Exception, row: int | None = None) -> InputError:
    where = "" if row is None else f" after row {row}"
    reason = str(error).splitlines()[0]
    return InputError(f"{path}: cut off or damaged{where} ({reason}); fetch it again")
