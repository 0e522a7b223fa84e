"""Read rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.blocks import BLOCK_BYTES, Block


class ParquetRows:
    """Read a Parquet file in blocks of about `BLOCK_BYTES` of text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.file = pq.ParquetFile(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise _unreadable(path, error) from error
        names, kinds = self.file.schema_arrow.names, self.file.schema_arrow.types
        as_text = [
            pa.string() if kind in (pa.binary(), pa.large_binary()) else kind for kind in kinds
        ]
        self.schema = pa.schema(zip(names, as_text, strict=True))

    def count(self, limit: int | None = None) -> int:
        """Count all rows, whatever the limit: the file says how many they are."""
        return self.file.metadata.num_rows

    def blocks(self, columns: Sequence[str], limit: int | None = None) -> Iterator[Block]:
        """Yield all rows, or `limit` rows taken evenly from the heads of the row groups."""
        metadata = self.file.metadata
        total = metadata.num_rows
        first_row = 0
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            quota = rows
            if limit is not None and limit < total:
                quota = (first_row + rows) * limit // total - first_row * limit // total
            size = max(metadata.row_group(group).total_byte_size // max(rows, 1), 1)
            batch_rows = min(max(BLOCK_BYTES // size, 1), 16_384, max(quota, 1))
            start = first_row
            try:
                for batch in (
                    self.file.iter_batches(batch_rows, row_groups=[group], columns=columns)
                    if quota
                    else ()
                ):
                    batch = batch.slice(0, min(len(batch), first_row + quota - start))
                    numbers = pa.array(range(start, start + len(batch)), pa.int64())
                    start += len(batch)
                    table = pa.table({name: _valid(batch[name]) for name in columns})
                    yield Block(table, numbers, start / total)
                    if start - first_row >= quota:
                        break
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(self.path, error, start) from error
            first_row += rows


def _valid(array: pa.Array) -> pa.Array:
    """Make texts valid UTF-8, which Parquet does not guarantee; plain bytes are taken for text."""
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        array, kind = array.cast(pa.binary()).view(pa.string()), pa.string()
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(
            [_decoded(value) for value in array.cast(_byte_type(kind)).to_pylist()], kind
        )
    return array


def _byte_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with bytes in the place of texts."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _byte_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_byte_type(kind.value_type))
    return pa.binary() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else kind


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: _decoded(inner) for name, inner in value.items()}
    return [_decoded(inner) for inner in value] if isinstance(value, list) else value


def _unreadable(path: Path, error: Exception, row: int | None = None) -> InputError:
    where = "" if row is None else f" after row {row}"
    reason = str(error).splitlines()[0]
    return InputError(f"{path}: cut off or damaged{where} ({reason}); fetch it again")
