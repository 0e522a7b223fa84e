"""Read rows of Arrow files, as `Dataset.save_to_disk` of the `datasets` library writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from dreamer_study.pipeline.sources.files.blocks import Block
from dreamer_study.pipeline.sources.files.parquet_rows import MOST_ROWS, unreadable, valid

_FILE = b"ARROW1"
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream


class ArrowRows:
    """Read an Arrow stream or file in blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as raw:
                self._is_file = raw.read(len(_FILE)) == _FILE
                raw.seek(-len(_END), 2)
                if not self._is_file and raw.read() != _END:
                    raise OSError("it has no end")
            self.schema = self._open().schema
        except (pa.ArrowInvalid, OSError) as error:
            raise unreadable(path, error) from error

    def count(self, limit: int | None = None) -> int:
        """Count all rows, whatever the limit."""
        return sum(len(batch) for batch in self._batches())

    def blocks(
        self, columns: pa.Schema, limit: int | None = None, expressions: str | None = None
    ) -> Iterator[Block]:
        """Yield all rows, or the first `limit` rows."""
        total = self.count()
        stop = total if limit is None else min(limit, total)
        row = 0
        for batch in self._batches():
            for begin in range(0, len(batch), MOST_ROWS):
                part = batch.slice(begin, min(MOST_ROWS, stop - row))
                if not len(part):
                    return
                numbers = pa.array(range(row, row + len(part)), pa.int64())
                row += len(part)
                table = pa.table({name: valid(part[name]) for name in columns.names})
                yield Block(table, numbers, row / total)

    def _open(self) -> pa.RecordBatchStreamReader | pa.RecordBatchFileReader:
        source = pa.memory_map(str(self.path))
        return pa.ipc.open_file(source) if self._is_file else pa.ipc.open_stream(source)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        reader = self._open()
        try:
            if self._is_file:
                yield from map(reader.get_batch, range(reader.num_record_batches))
            else:
                yield from reader
        except (pa.ArrowInvalid, OSError) as error:
            raise unreadable(self.path, error) from error
