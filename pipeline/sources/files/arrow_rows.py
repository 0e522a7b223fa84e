"""Read rows of Arrow files, as `Dataset.save_to_disk` of the `datasets` library writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.blocks import Block
from dreamer_study.pipeline.sources.files.parquet_rows import MOST_ROWS
from dreamer_study.pipeline.sources.files.unpacking import (
    Unpacked,
    bounded_unpacking,
    most_at_once,
    parts,
    plain_schema,
    unreadable,
)

_FILE = b"ARROW1"
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream


class ArrowRows:
    """Read an Arrow stream or file in blocks; `longest` is the most bytes of one row."""

    def __init__(self, path: Path, longest: int) -> None:
        self.path = path
        self._longest = longest
        try:
            with path.open("rb") as raw:
                self._is_file = raw.read(len(_FILE)) == _FILE
                raw.seek(-len(_END), 2)
                if not self._is_file and raw.read() != _END:
                    raise OSError("it has no end")
            self.schema = plain_schema(path, self._open().schema)
        except (pa.ArrowInvalid, OSError) as error:
            raise unreadable(path, error) from error

    def count(self, limit: int | None = None) -> int:
        """Count all rows, whatever the limit."""
        return sum(len(batch) for batch in self._batches())

    def blocks(
        self, columns: pa.Schema, limit: int | None = None, expressions: str | None = None
    ) -> Iterator[Block]:
        """Yield all rows, or the first `limit` rows.

        Raises InputError for a row longer than `longest`, and for a file that unpacks without end.
        """
        total = self.count()
        stop = total if limit is None else min(limit, total)
        unpacked = Unpacked(self.path)
        row = 0
        for batch in self._batches():
            rows = batch.select(columns.names)
            for begin in range(0, len(batch), MOST_ROWS):
                part = rows.slice(begin, min(MOST_ROWS, stop - row))
                if not len(part):
                    return
                for table in parts(self.path, part, row, self._longest):
                    numbers = pa.array(range(row, row + len(table)), pa.int64())
                    row += len(table)
                    unpacked.add(table.nbytes, len(table))
                    yield Block(table, numbers, row / total)

    def _open(self) -> pa.RecordBatchStreamReader | pa.RecordBatchFileReader:
        source = pa.memory_map(str(self.path))
        # no other threads: Arrow waits for ever for one that gets no memory
        options = pa.ipc.IpcReadOptions(use_threads=False)
        pool = pa.system_memory_pool()  # the only one whose memory the limit sees
        if self._is_file:
            return pa.ipc.open_file(source, options=options, memory_pool=pool)
        return pa.ipc.open_stream(source, options=options, memory_pool=pool)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        reader = self._open()
        try:
            if self._is_file:
                batches = map(reader.get_batch, range(reader.num_record_batches))
            else:
                batches = iter(reader)
            while True:
                # A batch may be compressed. The file itself is mapped, and takes no memory.
                with bounded_unpacking(self._longest):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch
        except MemoryError:
            raise InputError(
                f"{self.path}: one batch of its rows takes more than"
                f" {most_at_once(self._longest) / 2**20:,.0f} MB; raise data.memory, or write the"
                " file with fewer rows in a batch"
            ) from None
        except (pa.ArrowInvalid, OSError) as error:
            raise unreadable(self.path, error) from error
