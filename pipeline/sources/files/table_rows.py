"""Read rows of CSV files with any delimiter, and texts of one document a file.

Python's reader of CSV is strict and shows records of another length. DuckDB's takes a quoted text
of several lines for several rows where it does not guess the quotes, and says nothing of a file
that ends inside a quoted text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.blocks import LONGEST_SHOWN, Block, batches
from dreamer_study.pipeline.sources.files.text_files import TextFile

MOST_COLUMNS = 100_000
_DELIMITERS = ",;\t|"


class CsvRows:
    """Read a CSV file in blocks.

    Without a `delimiter`, the one that the first line has most often is taken. `escape` is the sign
    before a quote inside a text, where such a quote is not doubled.
    """

    def __init__(self, path: Path, longest: int, delimiter: str = "", escape: str = "") -> None:
        self.path = path
        self.file = TextFile(path, longest)
        first_line = self.file.head.partition(b"\n")[0].decode("utf-8", "replace")
        self.delimiter = delimiter or max(_DELIMITERS, key=first_line.count)
        csv.field_size_limit(longest)
        lines: Iterator[str] = (line.decode("utf-8", "replace") for line in self.file.lines())
        if escape and escape != '"':
            lines = with_doubled_quotes(lines, escape, self.delimiter)
        self._reader = csv.reader(lines, strict=True, delimiter=self.delimiter)
        self.names = next(self._records(), [])
        if len(self.names) > MOST_COLUMNS:
            raise InputError(
                f"{path}: its first line has {len(self.names):,} fields, and a table at most"
                f" {MOST_COLUMNS:,} columns"
            )
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


def with_doubled_quotes(lines: Iterable[str], escape: str, delimiter: str) -> Iterator[str]:
    r"""Write each escaped quote as two quotes, as `csv` reads them, line by line.

    Two escape signs are one directly before a quote. Every other escape sign stays as written, such
    as those of LaTeX, which the `escapechar` of `csv` deletes.
    Example: `"a \"b\" \frac"` becomes `"a ""b"" \frac"`.
    """
    sign = re.escape(escape)
    quote = re.compile(rf'(?<!{sign})((?:{sign}{sign})*)({sign}"|""|")')
    inside = False  # a quoted text, which may have several lines
    for line in lines:
        parts = []
        place = 0
        while place < len(line):
            if not inside and line[place] == '"':
                inside = True
                parts.append('"')
                place += 1
            if inside:
                end, text, inside = _quoted_text(line, place, quote)
                parts.append(text)
                place = end
            if not inside:
                end = line.find(delimiter, place)
                end = len(line) if end < 0 else end
                parts.append(_bare_text(line[place:end], escape, quote))
                parts.append(line[end : end + 1])
                place = end + 1
        yield "".join(parts)


def _quoted_text(line: str, place: int, quote: re.Pattern[str]) -> tuple[int, str, bool]:
    """Rewrite a quoted text from a place on: its end, the text, whether it is still open."""
    parts = []
    for found in quote.finditer(line, place):
        parts.append(line[place : found.start()])
        parts.append(found[1][: len(found[1]) // 2])
        place = found.end()
        if found[2] == '"':
            return place, "".join(parts) + '"', False
        parts.append('""')
    return len(line), "".join(parts) + line[place:], True


def _bare_text(text: str, escape: str, quote: re.Pattern[str]) -> str:
    """Put a text outside of quotes in quotes where it holds an escaped one."""
    if f'{escape}"' not in text:
        return text
    content = text.rstrip("\r\n")
    doubled = quote.sub(
        lambda found: found[1][: len(found[1]) // 2] + 2 * found[2].replace(escape, ""), content
    )
    return f'"{doubled}"{text[len(content) :]}'


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
