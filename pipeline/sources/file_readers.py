"""Read rows of Parquet, JSON lines, JSON array and CSV files, also gzipped, in blocks of bounded size.

A reader yields Arrow tables with one column of text for each requested path (`pipeline.sources.column_paths`). A broken
JSON line, or a CSV record of another length, is a malformed row. A file that ends early, a broken element of a JSON
array and UTF-16 raise InputError. Single bytes that are not UTF-8 become U+FFFD, which cleaning counts.

JSON is parsed record by record: Arrow's reader is only 1.5 times as fast, gives up a whole block for one broken line,
and reads texts that look like dates as dates.
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
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.sources.column_expressions import as_text
from pipeline.sources.column_paths import Steps, extract, leads_somewhere, root, steps, walk

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz")
BLOCK_BYTES = 16 * 2**20
PEEK = 100
RECORDS = 2048
LONGEST_SHOWN = 10_000
_DECODER = json.JSONDecoder(strict=False)  # a raw tab inside a text is bad JSON and good data
_CUT = (EOFError, zlib.error, gzip.BadGzipFile)

Record = dict[str, Any] | str  # a malformed one is its text
Sized = tuple[Record, int]  # with its size in characters or bytes


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


class RecordRows:
    """Read a JSON or CSV file record by record; the columns are those of the first `PEEK` records."""

    rows: int | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = max(path.stat().st_size, 1)
        self.raw: BinaryIO = path.open("rb")
        # An attribute keeps the text stream of `_array` and `_csv` alive: when collected, it closes the file.
        self.text: io.TextIOWrapper | None = None
        self.stream: Any = gzip.GzipFile(fileobj=self.raw) if path.suffix == ".gz" else self.raw
        head = self._head()
        self.lines = path.name.removesuffix(".gz").endswith((".jsonl", ".json")) and not head.startswith(b"[")
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
            yield _block(batch, where, row, min(self.raw.tell() / self.size, 1.0))
            row += len(batch)
        self.raw.close()

    def _records(self) -> Iterator[Sized]:
        """Yield records as dictionaries, or a malformed record's text, each with its size."""
        try:
            if ".csv" in self.path.suffixes[-2:]:
                yield from self._csv()
            elif self.lines:
                yield from ((self._line(line), len(line)) for line in self.stream if line.strip())
            else:
                yield from self._array()
        except _CUT as error:
            raise self._cut_off() from error

    def _line(self, line: bytes) -> Record:
        text = line.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r\n")
        try:
            record = _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            if not line.endswith(b"\n"):
                raise InputError(f"{self.path}: cut off in the middle of its last row; fetch it again") from error
            return text
        return record if isinstance(record, dict) else text

    def _array(self) -> Iterator[Sized]:
        """Yield the elements of a JSON array, decoded one at a time from a sliding buffer."""
        row, position, chunk_size = 0, 1, 2**16
        self.text = io.TextIOWrapper(self.stream, "utf-8-sig", "replace")
        text = self.text.read(chunk_size).lstrip()
        while True:
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1
            if text.startswith("]", position):
                return
            try:
                value, end = _DECODER.raw_decode(text, position)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(text) - 16
                more = self.text.read(chunk_size) if cut else ""
                if not more:
                    what = "cut off in" if cut else "broken JSON in"
                    raise InputError(f"{self.path}: {what} row {row} of its array; fetch it again") from error
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
            head = self.stream.read(4096)
        except _CUT as error:
            raise self._cut_off() from error
        self.stream.seek(0)
        if head.startswith(b"\x1f\x8b"):
            raise InputError(f"{self.path}: compressed with gzip; its name must end with .gz")
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in head[:4]:
            raise InputError(f"{self.path}: not UTF-8 text; convert it first (iconv -f UTF-16 -t UTF-8)")
        return head.removeprefix(codecs.BOM_UTF8).lstrip()

    def _cut_off(self) -> InputError:
        return InputError(f"{self.path}: the compressed file is cut off or damaged; fetch it again")


def open_rows(path: Path) -> ParquetRows | RecordRows:
    """Open a reader for the file. Raises InputError for a name without a known ending and an unreadable file."""
    if not path.name.endswith(SUFFIXES):
        raise InputError(f"{path}: unknown kind of file; known are {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    return ParquetRows(path) if path.suffix == ".parquet" else RecordRows(path)


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


def _unreadable(path: Path, error: Exception, row: int | None = None) -> InputError:
    where = "" if row is None else f" after row {row}"
    reason = str(error).splitlines()[0]
    return InputError(f"{path}: cut off or damaged{where} ({reason}); fetch it again")


def _block(records: list[Any], where: dict[str, Steps], first_row: int, done: float) -> Block:
    rows = [first_row + i for i, record in enumerate(records) if isinstance(record, dict)]
    malformed = [(first_row + i, r[:LONGEST_SHOWN]) for i, r in enumerate(records) if not isinstance(r, dict)]
    found = [record for record in records if isinstance(record, dict)]
    columns = []
    for path_steps in where.values():
        if len(path_steps) == 1:
            values = [record.get(path_steps[0]) for record in found]
        else:
            values = [walk(record, path_steps) for record in found]
        columns.append(_column(values))
    return Block(
        pa.table(columns, names=list(where)), pa.array(rows, pa.int64()), first_row + len(records), done, malformed
    )


def _column(values: list[Any]) -> pa.Array:
    """Make an array of strings, or of lists of strings where every value is a list."""
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowException, UnicodeEncodeError, TypeError):
        pass  # not all texts, or half a surrogate pair
    if all(isinstance(value, list | None) for value in values):
        lists = [None if value is None else [_clean(as_text(part)) for part in value] for value in values]
        return pa.array(lists, pa.list_(pa.string()))
    return pa.array([_clean(as_text(value)) for value in values], pa.string())


def _clean(text: str | None) -> str | None:
    """Replace half surrogate pairs, which JSON may escape and UTF-8 cannot hold, by U+FFFD."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
