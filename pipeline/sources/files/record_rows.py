"""Read rows of JSON lines, JSON and CSV files, record by record.

Arrow's reader of JSON is only 1.5 times as fast, gives up a whole block for one broken line, and reads texts that look
like dates as dates.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.sources.columns.expressions import as_text
from pipeline.sources.columns.paths import Steps, not_text, root, steps, walk
from pipeline.sources.files.blocks import BLOCK_BYTES, Block

PEEK = 100
RECORDS = 2048
LONGEST_SHOWN = 10_000
_DECODER = json.JSONDecoder(strict=False)  # a raw tab inside a text is bad JSON and good data
_CUT: tuple[type[Exception], ...] = (EOFError, zlib.error, gzip.BadGzipFile)

Record = dict[str, Any] | str  # a malformed one is its text
Sized = tuple[Record, int]  # with its size in characters or bytes


class RecordRows:
    """Read a JSON or CSV file record by record; the columns are those of the first `PEEK` records."""

    rows: int | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = max(path.stat().st_size, 1)
        # An attribute keeps the text stream of `_array` and `_csv` alive: when collected, it closes the file.
        self.text: io.TextIOWrapper | None = None
        self.damaged = (*_CUT, OSError) if path.suffix == ".zst" else _CUT  # Arrow's error is no more exact
        head = self._head()
        self.stream = self._open()
        self.kind = _kind(path, head)
        records = self._records()
        self.peeked = next(_batches(records, PEEK), [])
        self.records = chain(((record, 0) for record in self.peeked), records)
        found = [record for record in self.peeked if isinstance(record, dict)]
        if self.peeked and not found:
            raise InputError(
                f"{path}: none of the first {len(self.peeked)} rows is a record; is it what its name says?"
            )
        self.columns = list(dict.fromkeys(key for record in found for key in record))
        self._found = found

    def has(self, path: str) -> bool:
        """Tell whether the path leads to a value in one of the first records (an empty list is enough)."""
        first = root(path, self.columns)
        if first is None:
            return False
        where = [first] if first == path else steps(path)
        return len(where) == 1 or any(walk(record, where) not in (None, []) for record in self._found)

    def blocks(self, paths: Sequence[str], limit: int | None = None) -> Iterator[Block]:
        """Yield all rows, or the first `limit` rows."""
        where = {path: [path] if path in self.columns else steps(path) for path in paths}
        row = 0
        for batch in _batches(islice(self.records, limit), RECORDS):
            yield _block(batch, where, row, min(self.raw.tell() / self.size, 1.0), self.path)
            row += len(batch)
        self.raw.close()

    def count_lines(self) -> int | None:
        """Count the rows of JSON lines without parsing them; None for another kind of file."""
        if self.kind != "lines":
            return None
        try:
            with self._open() as stream:
                return sum(1 for line in stream if line.strip())
        except self.damaged as error:
            raise self._cut_off() from error

    def _records(self) -> Iterator[Sized]:
        """Yield records as dictionaries, or a malformed record's text, each with its size."""
        try:
            if self.kind == "csv":
                yield from self._csv()
            elif self.kind == "lines":
                yield from ((self._line(line), len(line)) for line in self.stream if line.strip())
            else:
                yield from self._values()
        except self.damaged as error:
            raise self._cut_off() from error

    def _open(self) -> BinaryIO:
        """Open a stream of the file's bytes, decompressed, from the start."""
        self.raw: BinaryIO = self.path.open("rb")
        if self.path.suffix == ".gz":
            return gzip.GzipFile(fileobj=self.raw)  # type: ignore[return-value]
        if self.path.suffix == ".zst":
            return io.BufferedReader(pa.CompressedInputStream(self.raw, "zstd"))  # type: ignore[arg-type]
        return self.raw

    def _line(self, line: bytes) -> Record:
        text = line.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r\n")
        try:
            record = _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            if not line.endswith(b"\n"):
                raise InputError(f"{self.path}: cut off in the middle of its last row; fetch it again") from error
            return text
        return record if isinstance(record, dict) else text

    def _values(self) -> Iterator[Sized]:
        """Yield the elements of a JSON array, or objects one after the other, decoded one at a time from a buffer."""
        array = self.kind == "array"
        row, position, chunk_size = 0, int(array), 2**16
        self.text = io.TextIOWrapper(self.stream, "utf-8-sig", "replace")
        text = self.text.read(chunk_size).lstrip()
        while True:
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1
            if array and text.startswith("]", position):
                return
            if not array and position == len(text):
                text, position = self.text.read(chunk_size), 0
                if not text:
                    return
                continue
            try:
                value, end = _DECODER.raw_decode(text, position)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(text) - 16
                more = self.text.read(chunk_size) if cut else ""
                if not more:
                    what = "cut off in" if cut else "broken JSON in"
                    whole = "its array" if array else "its objects"
                    raise InputError(f"{self.path}: {what} row {row} of {whole}; fetch it again") from error
                chunk_size = min(chunk_size * 2, 2**24)  # a long element is not decoded again for every small chunk
                text, position = text[position:] + more, 0
                continue
            except (ValueError, RecursionError) as error:  # a number of thousands of digits; nested without end
                raise InputError(f"{self.path}: row {row} of its array cannot be read ({error})") from error
            yield value if isinstance(value, dict) else json.dumps(value), end - position
            row, position, chunk_size = row + 1, end, 2**16

    def _csv(self) -> Iterator[Sized]:
        csv.field_size_limit(sys.maxsize)
        self.text = io.TextIOWrapper(self.stream, "utf-8-sig", "replace", newline="")
        reader = csv.reader(self.text, strict=True)
        try:
            names = next(reader, [])
            for record in reader:
                if record:
                    whole = len(record) == len(names)
                    found = dict(zip(names, record, strict=True)) if whole else ",".join(record)
                    yield found, sum(map(len, record))
        except csv.Error as error:
            what = "cut off" if "end of data" in str(error) else f"not CSV ({error})"
            raise InputError(f"{self.path}: {what} at line {reader.line_num}; fetch it again") from error

    def _head(self) -> bytes:
        """Read the first bytes. Raises InputError for gzip without the name's ending, and for UTF-16 or UTF-32."""
        try:
            with self._open() as stream:
                head = stream.read(4096)
        except self.damaged as error:
            raise self._cut_off() from error
        if head.startswith(b"\x1f\x8b"):
            raise InputError(f"{self.path}: compressed with gzip; its name must end with .gz")
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in head[:4]:
            raise InputError(f"{self.path}: not UTF-8 text; convert it first (iconv -f UTF-16 -t UTF-8)")
        return head.removeprefix(codecs.BOM_UTF8).lstrip()

    def _cut_off(self) -> InputError:
        return InputError(f"{self.path}: the compressed file is cut off or damaged; fetch it again")


def _kind(path: Path, head: bytes) -> str:
    """Tell how the records of a file are written: "csv", "lines", "array", or "objects" over several lines each."""
    if ".csv" in path.suffixes[-2:]:
        return "csv"
    if head.startswith(b"["):
        return "array"
    first, line_end, _ = head.partition(b"\n")
    # A line of JSON lines never ends after a brace or in the middle of an object's fields.
    over_lines = line_end and ".json" in path.suffixes[-2:] and first.rstrip().endswith((b"{", b","))
    return "objects" if over_lines and first.startswith(b"{") else "lines"


def _batches(records: Iterator[Sized], most: int) -> Iterator[list[Record]]:
    """Group records into lists of at most `most` records and about `BLOCK_BYTES`."""
    batch: list[Record] = []
    size = 0
    for record, length in records:
        batch.append(record)
        size += length
        if len(batch) == most or size >= BLOCK_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _block(records: list[Any], where: dict[str, Steps], first_row: int, done: float, file: Path) -> Block:
    rows = [first_row + i for i, record in enumerate(records) if isinstance(record, dict)]
    malformed = [(first_row + i, r[:LONGEST_SHOWN]) for i, r in enumerate(records) if not isinstance(r, dict)]
    found = [record for record in records if isinstance(record, dict)]
    columns = []
    for path, path_steps in where.items():
        if len(path_steps) == 1:
            values = [record.get(path_steps[0]) for record in found]
        else:
            values = [walk(record, path_steps) for record in found]
        columns.append(_column(values, path, file))
    return Block(
        pa.table(columns, names=list(where)), pa.array(rows, pa.int64()), first_row + len(records), done, malformed
    )


def _column(values: list[Any], path: str, file: Path) -> pa.Array:
    """Make an array of strings, or of lists of strings where every value is a list.

    Raises InputError, as for Parquet, where all values are objects or lists of objects.
    """
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowException, UnicodeEncodeError, TypeError):
        pass  # not all texts, or half a surrogate pair
    parts = [part for value in values for part in (value if isinstance(value, list) else [value]) if part is not None]
    if parts and all(isinstance(part, dict) for part in parts):
        raise not_text(file, path, list(parts[0]))
    if all(isinstance(value, list | None) for value in values):
        lists = [None if value is None else [_clean(as_text(part)) for part in value] for value in values]
        return pa.array(lists, pa.list_(pa.string()))
    return pa.array([_clean(as_text(value)) for value in values], pa.string())


def _clean(text: str | None) -> str | None:
    """Replace half surrogate pairs, which JSON may escape and UTF-8 cannot hold, by U+FFFD."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
