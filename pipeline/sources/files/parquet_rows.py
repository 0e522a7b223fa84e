"""Read rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.sources.columns.paths import extract, leads_somewhere, root
from pipeline.sources.files.blocks import BLOCK_BYTES, Block


class ParquetRows:
    """Read a Parquet file in blocks of about `BLOCK_BYTES` of text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.file = pq.ParquetFile(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise _unreadable(path, error) from error
        self.schema = self.file.schema_arrow
        self.columns = list(self.schema.names)
        self.rows: int | None = self.file.metadata.num_rows

    def has(self, path: str) -> bool:
        """Tell whether the path leads to a column."""
        return leads_somewhere(self.schema, path)

    def blocks(self, paths: Sequence[str], limit: int | None = None) -> Iterator[Block]:
        """Yield all rows, or `limit` rows taken evenly from the heads of the row groups."""
        metadata = self.file.metadata
        total = metadata.num_rows
        roots = list(dict.fromkeys(root(path, self.columns) for path in paths))
        first_row = taken = 0
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            quota = rows
            if limit is not None and limit < total:
                quota = (first_row + rows) * limit // total - first_row * limit // total
            size = max(metadata.row_group(group).total_byte_size // max(rows, 1), 1)
            batch_rows = min(max(BLOCK_BYTES // size, 1), 16_384, max(quota, 1))
            start = first_row
            try:
                for batch in self.file.iter_batches(batch_rows, row_groups=[group], columns=roots) if quota else ():
                    batch = batch.slice(0, min(len(batch), first_row + quota - start))
                    numbers = pa.array(range(start, start + len(batch)), pa.int64())
                    start += len(batch)
                    taken += len(batch)
                    columns = [extract(batch, path, self.path) for path in paths]
                    done = taken / min(limit or total, total)
                    yield Block(pa.table(columns, names=list(paths)), numbers, start, done)
                    if start - first_row >= quota:
                        break
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(self.path, error, start) from error
            first_row += rows


def _unreadable(path: Path, error: Exception, row: int | None = None) -> InputError:
    where = "" if row is None else f" after row {row}"
    reason = str(error).splitlines()[0]
    return InputError(f"{path}: cut off or damaged{where} ({reason}); fetch it again")
