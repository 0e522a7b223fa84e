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
_CHUNK = 2**16  # characters that are read at once
_LARGEST_CHUNK = 2**24
_NEAR_END = 16  # characters: an error so near to the end may be the end's fault
# JSON may write the integer 51 as 51.0: its text is 51, as that of an integer in Parquet.
_NUMBER = r"regexp_replace({0}, '\.0$', '')"
# A value as text, of a column that holds objects in some rows and texts in others.
_MIXED = f"""case json_type({{0}})
    when 'ARRAY' then array_to_string(from_json({{0}}, '["VARCHAR"]'), chr(10))
    when 'OBJECT' then null
    when 'DOUBLE' then {_NUMBER.format("{0}->>'$'")}
    else {{0}} ->> '$'
end"""
_FORMS = {"JSON": _MIXED, "DOUBLE": _NUMBER}  # by kind; values of other kinds stay as they are
_BRACE = "left(line, 1) = '{'"
_OBJECT = f"{_BRACE} and json_valid(line)"


class JsonRows:
    """Read JSON in blocks. The columns, and what they hold, are those of the first block."""

    def __init__(self, path: Path, longest: int) -> None:
        self.path = path
        self.file = TextFile(path, longest)
        self._cut = False  # whether the line that was read last has no end
        texts = batches(self._lines() if self._is_lines() else self._values())
        first = next(texts, [])
        self._texts = chain([first], texts) if first else texts
        records = [record for record in map(_record, first) if record is not None]
        if first and not records:
            raise InputError(
                f"{path}: none of the first {len(first)} rows is a record; is it what its name"
                " says?"
            )
        self._kinds = {name: _column_kind(values) for name, values in _columns(records).items()}
        self.schema = pa.schema([])
        if self._kinds:
            table, _ = _parsed(first[:1], self._kinds)
            self.schema = table.schema

    def count(self, limit: int | None = None) -> int:
        """Count all rows, or at most `limit`, in place of reading them."""
        return sum(1 for _ in islice(chain.from_iterable(self._texts), limit))

    def blocks(self, columns: Sequence[str], limit: int | None = None) -> Iterator[Block]:
        """Yield all rows, or the first `limit` rows."""
        kinds = {name: self._kinds[name] for name in columns}
        row = 0
        for batch in self._texts:
            texts = batch if limit is None else batch[: limit - row]
            if not texts:
                return
            with placing(f"{self.path}: after row {row}"):
                table, broken = _parsed(texts, kinds)
            if self._cut and len(batch) - 1 in broken:
                raise InputError(
                    f"{self.path}: cut off in the middle of its last row; fetch it again"
                )
            malformed = []
            for number in broken:
                text = texts[number].decode("utf-8", "replace")
                malformed.append((row + number, text[:LONGEST_SHOWN]))
            rows = np.delete(np.arange(row, row + len(texts)), broken)
            row += len(texts)
            yield Block(table, pa.array(rows), self.file.done, malformed)

    def _is_lines(self) -> bool:
        """Distinguish JSON lines from an array, and from objects over several lines.

        The first line of such an object ends with `{` or `,`.
        """
        head = self.file.head
        if head.startswith(b"["):
            return False
        first, line_end, _ = head.partition(b"\n")
        if not line_end or ".json" not in self.path.suffixes[-2:]:
            return True
        return not (first.startswith(b"{") and first.rstrip().endswith((b"{", b",")))

    def _lines(self) -> Iterator[bytes]:
        for line in self.file.lines():
            self._cut = not line.endswith(b"\n")
            record = line.rstrip(b"\r\n").lstrip()
            if record:
                yield record

    def _values(self) -> Iterator[bytes]:
        """Yield the elements of an array, or objects one after the other.

        `text` is a buffer, out of which one value is cut at a time, from `position` on.
        """
        array = self.file.head.startswith(b"[")
        whole = "its array" if array else "its objects"
        row = 0
        text = self.file.read(_CHUNK).lstrip()
        position = 1 if array else 0
        while True:
            while position < len(text) and text[position] in " \t\r\n,":
                position += 1
            if position == len(text):
                text = self.file.read(_CHUNK)
                position = 0
                if text:
                    continue
                if array:
                    raise self._cut_off(f"row {row} of {whole}")
                return
            if array and text.startswith("]", position):
                return
            text, position, end = self._with_whole_value(text, position, f"row {row} of {whole}")
            yield text[position:end].encode("utf-8", "surrogatepass")
            row += 1
            position = end

    def _with_whole_value(self, text: str, position: int, place: str) -> tuple[str, int, int]:
        """Read on until the value at `position` is whole: returns the text, its start and end."""
        chunk = _CHUNK
        while True:
            try:
                _, end = _DECODER.raw_decode(text, position)
                return text, position, end
            except json.JSONDecodeError as error:
                if len(text) - position > self.file.longest:
                    raise self.file.too_long(place) from None
                if not _may_be_cut(error, text):
                    raise InputError(
                        f"{self.path}: broken JSON in {place}; fetch it again"
                    ) from error
                more = self.file.read(chunk)
                if not more:
                    raise self._cut_off(place) from error
                # Twice as much each time: a long value is not decoded again for every small chunk.
                chunk = min(chunk * 2, _LARGEST_CHUNK)
                text = text[position:] + more
                position = 0
            # a number of thousands of digits; nested without end
            except (ValueError, RecursionError) as error:
                raise InputError(f"{self.path}: {place} cannot be read ({error})") from error

    def _cut_off(self, place: str) -> InputError:
        return InputError(f"{self.path}: cut off in {place}; fetch it again")


def _may_be_cut(error: json.JSONDecodeError, text: str) -> bool:
    """Tell whether more text may mend the error."""
    unterminated = error.msg.startswith("Unterminated string")
    return unterminated or error.pos >= len(text) - _NEAR_END


def _record(text: bytes) -> dict[str, Any] | None:
    try:
        record = _DECODER.decode(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _mended(text: bytes) -> bytes:
    """Write an object that only Python can read as DuckDB reads it; any other text as b""."""
    record = _record(text)
    if record is None:
        return b""
    # Half a surrogate pair, which JSON may escape and UTF-8 cannot hold, becomes U+FFFD.
    whole = json.dumps(record, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    return whole.decode("utf-16-le", "replace").encode()


def _columns(objects: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """List the values of each name.

    Names that differ in case alone are one column, as in SQL; the first spelling is its name.
    """
    names: dict[str, str] = {}
    for record in reversed(objects):
        for name in reversed(record):
            if name:
                names[name.lower()] = name
    return {name: [record.get(name) for record in objects] for name in reversed(names.values())}


def _column_kind(values: list[Any]) -> Any:
    """Find the kind of a column: a structure, "JSON" (mixed), "DOUBLE", or else text."""
    structure = _structure(values)
    if structure is not None:
        return structure
    if any(isinstance(value, dict | list) for value in values):
        return "JSON"
    if any(isinstance(value, float) for value in values):
        return "DOUBLE"
    return "VARCHAR"


def _structure(values: list[Any]) -> Any:
    """Find whether most values are objects or lists, as DuckDB writes it; None for anything else.

    What is inside of them is a structure or a text. DuckDB's `json_group_structure` is not used:
    its database is lost to an object of 129 levels.
    """
    values = [value for value in values if value is not None]
    objects = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    if 2 * len(objects) > len(values):
        columns = _columns(objects)
        return {
            name: _structure(inner) or "VARCHAR" for name, inner in columns.items()
        } or "VARCHAR"
    if 2 * len(lists) > len(values):
        elements = list(chain.from_iterable(lists))
        return [_structure(elements) or "VARCHAR"]
    return None


def _parsed(texts: list[bytes], kinds: Mapping[str, Any]) -> tuple[pa.Table, list[int]]:
    """Parse texts into a table with a column of each kind.

    Returns also the numbers of the texts that are no objects.
    """
    texts = [_without_nan(text) for text in texts]
    structure = {name: "VARCHAR" if kind == "DOUBLE" else kind for name, kind in kinds.items()}
    record = "from_json(line, '" + json.dumps(structure).replace("'", "''") + "')"
    forms = [
        _FORMS.get(str(kind), "{0}").format(f"o.{quoted(name)}") for name, kind in kinds.items()
    ]

    def parse(lines: pa.Table, right: str) -> tuple[pa.Table, list[int]]:
        table = evaluate(["o is not null", *forms], lines, f"case when {right} then {record} end")
        return table, np.flatnonzero(~table["0"].to_numpy()).tolist()

    try:
        table, broken = parse(_lines(texts), _BRACE)
    except InputError:  # one text is broken: which one only a second, slower parse tells
        table, broken = parse(_lines(texts), _OBJECT)
    if broken:
        mended = list(texts)
        for number in broken:
            mended[number] = _mended(texts[number])
        table, broken = parse(_lines(mended), _OBJECT)
        table = table.filter(table["0"])
    return table.drop_columns("0").rename_columns(list(kinds)), broken


def _without_nan(text: bytes) -> bytes:
    """Write null for NaN, which Python writes for a missing value and DuckDB cannot read."""
    if b"NaN" in text and _NAN.search(text):
        return _mended(text) or text
    return text


def _lines(texts: list[bytes]) -> pa.Table:
    return pa.table({"line": [text.decode("utf-8", "replace") for text in texts]})
