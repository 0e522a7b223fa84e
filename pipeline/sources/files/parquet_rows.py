"""Read rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dreamer_study.pipeline.sources.files.blocks import BLOCK_BYTES, Block
from dreamer_study.pipeline.sources.files.unpacking import (
    Unpacked,
    bounded_unpacking,
    parts,
    plain_schema,
    takes_too_much,
    unreadable,
)

MOST_ROWS = 16_384  # of a block
_FEWER = 16  # times fewer rows at once, where a batch takes too much memory


class ParquetRows:
    """Read a Parquet file in blocks of about `BLOCK_BYTES` of text.

    `longest` is the most bytes of one row.
    """

    def __init__(self, path: Path, longest: int) -> None:
        self.path = path
        self._longest = longest
        try:
            with bounded_unpacking(longest, path.stat().st_size):
                # no other threads: Arrow waits for ever for one that gets no memory
                self.file = pq.ParquetFile(path, pre_buffer=False)
                self.schema = plain_schema(path, self.file.schema_arrow)
        except (pa.ArrowInvalid, OSError, MemoryError) as error:
            raise unreadable(path, error) from error

    def count(self, limit: int | None = None) -> int:
        """Count all rows, whatever the limit: the file says how many they are."""
        return self.file.metadata.num_rows

    def blocks(
        self, columns: pa.Schema, limit: int | None = None, expressions: str | None = None
    ) -> Iterator[Block]:
        """Yield all rows, or `limit` rows taken evenly from the heads of the row groups.

        Raises InputError for a row longer than `longest`, and for a file that unpacks without end.
        """
        total = self.file.metadata.num_rows
        unpacked = Unpacked(self.path)
        first_row = 0
        for group in range(self.file.metadata.num_row_groups):
            next_group = first_row + self.file.metadata.row_group(group).num_rows
            quota = next_group - first_row
            if limit is not None and limit < total:
                quota = next_group * limit // total - first_row * limit // total
            row = first_row
            for table in self._tables(group, columns.names, first_row, quota):
                numbers = pa.array(range(row, row + len(table)), pa.int64())
                row += len(table)
                unpacked.add(table.nbytes, len(table))
                yield Block(table, numbers, row / total)
            first_row = next_group

    def _tables(
        self, group: int, columns: Sequence[str], first_row: int, quota: int
    ) -> Iterator[pa.Table]:
        """Yield the first `quota` rows of a row group, which begins at `first_row` of the file."""
        metadata = self.file.metadata.row_group(group)
        row_bytes = max(metadata.total_byte_size // max(metadata.num_rows, 1), 1)
        at_once = min(max(BLOCK_BYTES // row_bytes, 1), MOST_ROWS, quota)
        done = 0
        while done < quota:
            try:
                for batch in self._batches(group, columns, at_once, done, quota):
                    yield from parts(self.path, batch, first_row + done, self._longest)
                    done += len(batch)
                return
            except MemoryError:
                if at_once == 1:
                    row = f"row {first_row + done}"
                    raise takes_too_much(self.path, row, self._longest) from None
                pa.system_memory_pool().release_unused()
                at_once = max(at_once // _FEWER, 1)
            except (pa.ArrowInvalid, OSError) as error:
                raise unreadable(self.path, error, first_row + done) from error

    def _batches(
        self, group: int, columns: Sequence[str], at_once: int, done: int, quota: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows `done` to `quota` of a row group, at most `at_once` at a time.

        Raises MemoryError where these take more than `most_at_once`.
        """
        # the compressed bytes of a column are read in one piece
        size = self.path.stat().st_size
        batches = self.file.iter_batches(
            at_once, row_groups=[group], columns=columns, use_threads=False
        )
        begin = 0
        while begin < quota:
            with bounded_unpacking(self._longest, size):
                batch = next(batches, None)
            if batch is None:
                return
            first = max(done, begin)
            end = min(begin + len(batch), quota)
            if first < end:
                yield batch.slice(first - begin, end - first)
            begin += len(batch)
