"""Unpack files of strangers within bounds: memory at once, bytes of one row, bytes of a whole file.

A file of a few hundred bytes may stand for terabytes: one long text that a dictionary repeats, a
list of a billion equal elements, zeros that were compressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.blocks import BLOCK_BYTES
from dreamer_study.pipeline.sources.files.plain_values import UnionOfTypes, plain, plain_type, valid
from dreamer_study.pipeline.storage.memory import bounded_memory, bytes_to_take

MOST_AT_ONCE = 3 * 2**29  # bytes that unpacking may take at a time, beyond those of the file
_PARTS_OF_MEMORY = 4  # a batch, its values written out, what SQL makes of them, and documents
_COPIES = 6  # of the longest row: as a page, decoded, in buffers that grow
MOST_OF_PART = 4 * BLOCK_BYTES
_COPIES_OF_PART = 4
# Text shrinks to a tenth of its bytes, and that of a log to a hundredth.
MOST_TIMES = 200
ALWAYS_UNPACKED = 2**30  # bytes, whatever the file's size
_ROW = 190  # bytes that a row counts beside its text, for the time that an empty one takes


class Unpacked:
    """The bytes that have been unpacked of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packed = path.stat().st_size
        self._most = max(ALWAYS_UNPACKED, MOST_TIMES * self._packed)
        self._bytes = 0

    def add(self, count: int, rows: int) -> None:
        """Count bytes and rows. Raises InputError for more than any text would give."""
        self._bytes += count + rows * _ROW
        if self._bytes > self._most:
            raise InputError(
                f"{self.path}: its {self._packed:,} bytes unpack to more than {self._most:,}, as no"
                " texts do; if the file is right, write it again as JSON lines, not compressed"
            )


def most_at_once(longest: int) -> int:
    """Return the bytes that unpacking may take here, of which a row of `longest` bytes has room."""
    return max(min(bytes_to_take() // _PARTS_OF_MEMORY, MOST_AT_ONCE), _COPIES * longest)


@contextmanager
def bounded_unpacking(longest: int, size: int = 0) -> Iterator[None]:
    """Raise MemoryError in the block where Arrow takes more than it may, beyond `size` bytes."""
    with _memory_of_arrow(most_at_once(longest) + size):
        yield


@contextmanager
def _memory_of_arrow(most: int) -> Iterator[None]:
    with bounded_memory(most):
        pool = pa.default_memory_pool()
        # Arrow's own pool reserves a gigabyte in advance, which no limit sees
        pa.set_memory_pool(pa.system_memory_pool())
        try:
            yield
        finally:
            pa.set_memory_pool(pool)


def takes_too_much(path: Path, what: str, longest: int) -> InputError:
    """Return the error for a row, or rows, that cannot be read within the memory."""
    most = most_at_once(longest) / 2**20
    return InputError(
        f"{path}: {what} is longer than {longest:,} bytes, or takes more than {most:,.0f} MB to"
        " read; raise data.memory, and the source's `longest`, if it is right"
    )


def too_long(path: Path, what: str, longest: int) -> InputError:
    """Return the error for a row above the limit."""
    limit = f"{longest:,} bytes"
    if longest >= 2**20:
        limit = f"{longest / 2**20:,.0f} MB"
    return InputError(
        f"{path}: {what} is longer than {limit}; raise the source's `longest`, if it is right"
    )


def unreadable(path: Path, error: Exception, row: int | None = None) -> InputError:
    """Return the error for a file that cannot be read, or not after a row."""
    where = "" if row is None else f" after row {row}"
    reason = str(error).splitlines()[0]
    return InputError(f"{path}: cut off or damaged{where} ({reason}); fetch it again")


def parts(path: Path, batch: pa.RecordBatch, row: int, longest: int) -> Iterator[pa.Table]:
    """Yield a batch, which begins at `row`, in tables of bounded bytes whose values share nothing.

    Raises InputError for a row of more than `longest` bytes.
    """
    table = _plain_table(path, batch, longest)
    if table is not None and table.nbytes <= MOST_OF_PART:
        _check_rows(path, table, row, longest)
        yield table
    elif len(batch) > 1:
        half = len(batch) // 2
        yield from parts(path, batch.slice(0, half), row, longest)
        yield from parts(path, batch.slice(half), row + half, longest)
    elif table is None:
        raise takes_too_much(path, f"row {row}", longest)
    elif table.nbytes > longest:
        raise too_long(path, f"row {row}", longest)
    else:
        yield table


def _check_rows(path: Path, table: pa.Table, row: int, longest: int) -> None:
    """Raise InputError for the first row of a table, which begins at `row`, that is too long."""
    if table.nbytes <= longest:
        return
    if len(table) == 1:
        raise too_long(path, f"row {row}", longest)
    half = len(table) // 2
    _check_rows(path, table.slice(0, half), row, longest)
    _check_rows(path, table.slice(half), row + half, longest)


def _plain_table(path: Path, batch: pa.RecordBatch, longest: int) -> pa.Table | None:
    """Write out the values of a batch; None where they take too much memory.

    Several rows may take what a part has, in a few copies: more would be cut in parts anyway.
    """
    most = most_at_once(longest)
    if len(batch) > 1:
        most = min(most, _COPIES_OF_PART * MOST_OF_PART)
    try:
        with _memory_of_arrow(most):
            columns = {name: valid(plain(batch[name])) for name in batch.schema.names}
    except (MemoryError, pa.ArrowCapacityError):
        pa.system_memory_pool().release_unused()
        return None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, IndexError) as error:
        # more than 2 GB of text in one column
        if len(batch) > 1 and "overflow" in str(error):
            return None
        raise unreadable(path, error) from error
    return pa.table(columns)


def plain_schema(path: Path, schema: pa.Schema) -> pa.Schema:
    """Return the schema of the tables that `parts` yields.

    Raises InputError for a column that is a union of types.
    """
    return pa.schema([(field.name, _read_type(path, field)) for field in schema])


def _read_type(path: Path, field: pa.Field) -> pa.DataType:
    try:
        kind = plain_type(field.type)
    except UnionOfTypes:
        raise InputError(
            f"{path}: the column {field.name!r} is a union of types, which is not read; write it"
            " with one type"
        ) from None
    return pa.string() if kind in (pa.binary(), pa.large_binary()) else kind
