"""Read rows of JSON lines, and of JSON files of one array or of objects one after the other.

Records are cut out of the file here, a block at a time, and parsed by DuckDB into texts, lists and
objects. DuckDB's own `read_json` drops rows that hold a raw tab or a byte that is not UTF-8, and
does not give the text of a broken line (docs/decisions.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.errors import InputError, placing
from dreamer_study.pipeline.sources.columns.sql import evaluate, quoted
from dreamer_study.pipeline.sources.files.blocks import LONGEST_SHOWN, Block, batches
from dreamer_study.pipeline.sources.files.text_files import TextFile

# A raw tab inside a text is bad JSON and good data; NaN is what Python writes for a missing value.
_DECODER = json.JSONDecoder(
    strict=False, parse_constant=lambda name: None if name == "NaN" else float(name)
)
_NAN = re.compile(rb"[:\[,]\s*NaN\s*[,\]}]")
_CHUNK = 2**16
# JSON may write the integer 51 as 51.0: its text is 51, as that of an integer in Parquet.
_NUMBER = r"regexp_replace({0}, '\.0$', '')"
# A value as text: what is an object in some rows and a text in others is a text, or null where it
# is an object.
_MIXED = f"""case json_type({{0}}) when 'ARRAY' then array_to_string(from_json({{0}}, '["VARCHAR"]'), chr(10))
    when 'OBJECT' then null when 'DOUBLE' then {_NUMBER.format("{0}->>'$'")} else {{0}} ->> '$' end"""
_FORMS = {"JSON": _MIXED, "DOUBLE": _NUMBER}  # by kind; of other kinds values stay as they are
_BRACE = "left(line, 1) = '{'"
_OBJECT = f"{_BRACE} and json_valid(line)"


class JsonRows:
    """Read JSON in blocks. The columns, and what they hold, are those of the first block."""

    def __init__(self, path: Path, longest: int) -> None:
        self.path, self.file = path, TextFile(path, longest)
        self._cut = False  # whether the line that was read last has no end
        texts = batches(self._lines() if self._is_lines() else self._values())
        first = next(texts, [])
        self._texts = chain([first] if first else [], texts)
        records = [record for text in first if (record := _record(text)) is not None]
        self._kinds = {
            name: _kind(values, nested=False) for name, values in _columns(records).items()
        }
        if first and not records:
            raise InputError(
                f"{path}: none of the first {len(first)} rows is a record; is it what its name"
                " says?"
            )
        self.schema = _parsed(first[:1], self._kinds)[0].schema if self._kinds else pa.schema([])

    def count(self, limit: int | None = None) -> int:
        """Count all rows, or at most `limit`, in place of reading them."""
        return sum(1 for _ in islice(chain.from_iterable(self._texts), limit))

    def blocks(self, columns: Sequence[str], limit: int | None = None) -> Iterator[Block]:
        """Yield all rows, or the first `limit` rows."""
        kinds = {name: self._kinds[name] for name in columns}
        row = 0
        for texts in self._texts:
            whole, texts = len(texts), texts if limit is None else texts[: limit - row]
            if not texts:
                return
            with placing(f"{self.path}: after row {row}"):
                table, broken = _parsed(texts, kinds)
            if self._cut and whole - 1 in broken:
                raise InputError(
                    f"{self.path}: cut off in the middle of its last row; fetch it again"
                )
            malformed = [
                (row + n, texts[n].decode("utf-8", "replace")[:LONGEST_SHOWN]) for n in broken
            ]
            rows = np.delete(np.arange(row, row + len(texts)), broken)
            row += len(texts)
            yield Block(table, pa.array(rows), self.file.done, malformed)

    def _is_lines(self) -> bool:
        """Tell JSON lines from arrays and from objects over several lines, whose first line ends
        with `{` or `,`."""
        head = self.file.head
        first, line_end, _ = head.partition(b"\n")
        over_lines = (
            line_end
            and ".json" in self.path.suffixes[-2:]
            and first.rstrip().endswith((b"{", b","))
        )
        return not head.startswith(b"[") and not (over_lines and first.startswith(b"{"))

    def _lines(self) -> Iterator[bytes]:
        for line in self.file.lines():
            self._cut = not line.endswith(b"\n")
            if record := line.rstrip(b"\r\n").lstrip():
                yield record

    def _values(self) -> Iterator[bytes]:
        """Yield the elements of an array, or objects one after the other, cut out of a buffer one
        at a time."""
        array = self.file.head.startswith(b"[")
        whole = "its array" if array else "its objects"
        row, position, chunk = 0, int(array), _CHUNK
        text = self.file.read(chunk).lstrip()
        while True:
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1
            if array and text.startswith("]", position):
                return
            if not array and position == len(text):
                text, position = self.file.read(chunk), 0
                if not text:
                    return
                continue
            try:
                _, end = _DECODER.raw_decode(text, position)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(text) - 16
                if len(text) - position > self.file.longest:
                    raise self.file.too_long(f"row {row} of {whole}") from None
                more = self.file.read(chunk) if cut else ""
                if not more:
                    what = "cut off in" if cut else "broken JSON in"
                    raise InputError(
                        f"{self.path}: {what} row {row} of {whole}; fetch it again"
                    ) from error
                # a long element is not decoded again for every small chunk
                chunk = min(chunk * 2, 2**24)
                text, position = text[position:] + more, 0
                continue
            # a number of thousands of digits; nested without end
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{self.path}: row {row} of its array cannot be read ({error})"
                ) from error
            yield text[position:end].encode("utf-8", "surrogatepass")
            row, position, chunk = row + 1, end, _CHUNK


def _record(text: bytes) -> dict[str, Any] | None:
    try:
        record = _DECODER.decode(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _mended(text: bytes) -> bytes:
    """Write an object that Python alone can read as DuckDB reads it; any other text as the empty
    text."""
    if (record := _record(text)) is None:
        return b""
    # Half a surrogate pair, which JSON may escape and UTF-8 cannot hold, becomes U+FFFD.
    whole = json.dumps(record, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    return whole.decode("utf-16-le", "replace").encode()


def _columns(objects: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """List the values of each name; SQL does not tell names by their case."""
    names = {name.lower(): name for found in reversed(objects) for name in reversed(found) if name}
    return {name: [found.get(name) for found in objects] for name in reversed(names.values())}


def _kind(values: list[Any], *, nested: bool = True) -> Any:
    """Find what most values are, as DuckDB writes it: an object, a list, or else text.

    A column of its own may also be "DOUBLE" or "JSON" (mixed). DuckDB's `json_group_structure` is
    not used: its database is lost to an object of 129 levels.
    """
    values = [value for value in values if value is not None]
    objects = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    if 2 * len(objects) > len(values):
        return {name: _kind(inner) for name, inner in _columns(objects).items()} or "VARCHAR"
    if 2 * len(lists) > len(values):
        return [_kind([part for found in lists for part in found])]
    if nested:
        return "VARCHAR"
    return (
        "JSON"
        if objects or lists
        else "DOUBLE"
        if any(isinstance(value, float) for value in values)
        else "VARCHAR"
    )


def _parsed(texts: list[bytes], kinds: Mapping[str, Any]) -> tuple[pa.Table, list[int]]:
    """Parse texts into a table with a column of each kind; returns also the numbers of those that
    are no objects."""
    texts = [
        (_mended(text) or text) if b"NaN" in text and _NAN.search(text) else text for text in texts
    ]
    structure = {name: "VARCHAR" if kind == "DOUBLE" else kind for name, kind in kinds.items()}
    record = "from_json(line, '" + json.dumps(structure).replace("'", "''") + "')"
    forms = [
        _FORMS.get(str(kind), "{0}").format(f"o.{quoted(name)}") for name, kind in kinds.items()
    ]

    def parse(lines: pa.Table, right: str) -> tuple[pa.Table, list[int]]:
        found = evaluate(["o is not null", *forms], lines, f"case when {right} then {record} end")
        return found, np.flatnonzero(~found["0"].to_numpy()).tolist()

    try:
        table, broken = parse(_lines(texts), _BRACE)
    except InputError:  # a broken text, which takes parsing all twice to find
        table, broken = parse(_lines(texts), _OBJECT)
    if broken:
        mended = list(texts)
        for number in broken:
            mended[number] = _mended(texts[number])
        table, broken = parse(_lines(mended), _OBJECT)
        table = table.filter(table["0"])
    return table.drop_columns("0").rename_columns(list(kinds)), broken


def _lines(texts: list[bytes]) -> pa.Table:
    return pa.table({"line": [text.decode("utf-8", "replace") for text in texts]})
