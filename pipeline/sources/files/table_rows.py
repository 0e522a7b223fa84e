"""Read rows of CSV files with any delimiter, and texts of one document a file.

Python's reader of CSV is strict and shows records of another length. DuckDB's takes a quoted text
of several lines for several rows where it does not guess the quotes, and says nothing of a file
that ends inside a quoted text.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.blocks import LONGEST_SHOWN, Block, batches
from dreamer_study.pipeline.sources.files.text_files import TextFile

_DELIMITERS = ",;\t|"


class CsvRows:
    """Read a CSV file in blocks.

    Without a `delimiter`, the one that the first line has most often is taken. `escape` is the sign
    before a quote inside a quoted text, where such a quote is not doubled.
    """

    def __init__(self, path: Path, longest: int, delimiter: str = "", escape: str = "") -> None:
        self.path = path
        self.file = TextFile(path, longest)
        first_line = self.file.head.partition(b"\n")[0].decode("utf-8", "replace")
        self.delimiter = delimiter or max(_DELIMITERS, key=first_line.count)
        csv.field_size_limit(longest)
        lines = (line.decode("utf-8", "replace") for line in self.file.lines())
        self._reader = csv.reader(
            lines,
            strict=True,
            delimiter=self.delimiter,
            escapechar=escape or None,
            doublequote=not escape,
        )
        self.names = next(self._records(), [])
        self.schema = pa.schema([(name, pa.string()) for name in self.names])

    def count(self, limit: int | None = None) -> int:
        """Count all rows, or at most `limit`, in place of reading them."""
        return sum(1 for _ in islice(self._records(), limit))

    def blocks(
        self, columns: pa.Schema, limit: int | None = None, expressions: str | None = None
    ) -> Iterator[Block]:
        """Yield all rows, or the first `limit` rows."""
        row = 0
        position = {name: number for number, name in enumerate(self.names)}
        for batch in batches(islice(self._records(), limit)):
            numbers = []
            records = []
            malformed = []
            for number, record in enumerate(batch, row):
                if len(record) == len(self.names):
                    numbers.append(number)
                    records.append(record)
                else:
                    malformed.append((number, self.delimiter.join(record)[:LONGEST_SHOWN]))
            row += len(batch)
            texts = []
            for name in columns.names:
                values = [record[position[name]] for record in records]
                texts.append(pa.array(values, pa.string()))
            table = pa.table(texts, schema=columns)
            yield Block(table, pa.array(numbers, pa.int64()), self.file.done, malformed)

    def _records(self) -> Iterator[list[str]]:
        try:
            yield from filter(None, self._reader)
        except csv.Error as error:
            line = self._reader.line_num
            if "field limit" in str(error):
                raise self.file.too_long(f"a text at line {line}") from None
            if "end of data" in str(error):
                fault = f"cut off at line {line}; fetch it again"
            else:
                fault = (
                    f"line {line} is not CSV ({error}): a quote inside a quoted text is written"
                    ' twice; where it stands as \\" give the source `escape: "\\\\"`'
                )
            raise InputError(f"{self.path}: {fault}") from error


class WholeText:
    """Read a file of plain text as one row with the column `text`."""

    schema = pa.schema([("text", pa.string())])

    def __init__(self, path: Path, longest: int) -> None:
        self.path = path
        self.file = TextFile(path, longest)

    def count(self, limit: int | None = None) -> int:
        """Count the one row."""
        return 1

    def blocks(
        self, columns: pa.Schema, limit: int | None = None, expressions: str | None = None
    ) -> Iterator[Block]:
        """Yield the one row."""
        text = self.file.read(self.file.longest + 1)
        if len(text) > self.file.longest:
            raise self.file.too_long("the text")
        table = pa.table({"text": [text]}, schema=self.schema).select(columns.names)
        yield Block(table, pa.array([0], pa.int64()), 1.0)
