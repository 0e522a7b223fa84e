"""Read rows of JSON lines, and of JSON files of one array or of objects one after the other.

Records are cut out of the file a block at a time and parsed by Python. The file is read twice:
first for the names and kinds of its columns, which its last row may change, then for its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.blocks import LONGEST_SHOWN, Block, batches
from dreamer_study.pipeline.sources.files.json_values import (
    DECODER,
    NotText,
    Number,
    Seen,
    Twice,
    check_once,
    fitted,
    strings,
)
from dreamer_study.pipeline.sources.files.text_files import TextFile, kind_of_file
from dreamer_study.pipeline.sources.files.turns import is_turn_or_part
from dreamer_study.pipeline.storage.memory import bytes_to_take

_CHUNK = 2**16  # characters that are read at once
_LARGEST_CHUNK = 2**24
_NEAR_END = 16  # characters: an error so near to the end may be the end's fault
MOST_VALUES = 4_000_000  # of a record, by the commas and brackets in it
_BYTES_OF_VALUE = 512  # of all memory, for a value that takes a fifth of this in Python
MOST_FIELDS = 100_000  # of all records, at all depths
_BLANK = " \t\r\n,\ufeff"


class JsonRows:
    """Read JSON in blocks.

    The columns are those of the first `rows` rows, mostly of all. `field` is the name under which
    an object around the rows holds them.
    """

    def __init__(
        self, path: Path, longest: int, *, rows: int | None = None, field: str = ""
    ) -> None:
        self.path = path
        self.file = TextFile(path, longest)
        self._rows = rows
        self._field = field
        self._cut = False  # whether the line that was read last has no end

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns: their names, and of what kind most of their values are.

        Raises InputError for a file whose first rows are no records.
        """
        seen = Seen()
        first: list[dict[str, Any]] = []
        for texts in batches(islice(self._texts(), self._rows)):
            records = [record for record in map(_record, texts) if record is not None]
            if not seen.objects and not records:
                raise InputError(
                    f"{self.path}: none of the first {len(texts)} rows is a record; is it what its"
                    " name says?"
                )
            for record in records:
                seen.add(record)
            if seen.count() > MOST_FIELDS:
                raise InputError(
                    f"{self.path}: its records have more than {MOST_FIELDS:,} different fields; are"
                    " their names values?"
                )
            first = first or records
        self._first = first[0] if first and seen.objects == 1 else {}
        return pa.schema([(name, field.kind()) for name, field in seen.fields.items() if name])

    @property
    def hint(self) -> str:
        """Say how a file's only object holds rows, if it does."""
        if not self.schema:
            return ""
        lists = _lists_of_rows(self._first)
        if lists:
            holds = " and ".join(f"its `{path}` holds {n:,} records" for path, n in lists.items())
            return f"it is one object, and {holds}: give the source `field: {next(iter(lists))}`"
        if not self._may_be_one_object:
            return ""
        values = [*self._first.values()]
        nested = [value for value in values if isinstance(value, dict)]
        for value in (self._first, *nested):
            columns = _columns_in_lists(value)
            if columns:
                return (
                    f"it is one object, whose columns are lists ({', '.join(columns[:5])}): write"
                    " one record a line"
                )
        if len(values) > 1 and all(map(_is_row, values)):
            return f"it is one object of {len(values):,} records by name: write one record a line"
        return ""

    def count(self, limit: int | None = None) -> int:
        """Count all rows, or at most `limit`, in place of reading them."""
        return sum(1 for _ in islice(self._texts(), limit))

    def blocks(
        self, columns: pa.Schema, limit: int | None = None, expressions: str | None = None
    ) -> Iterator[Block]:
        """Yield all rows, or the first `limit` rows.

        Of columns with fields, only those that occur in `expressions` need to have the kind that
        the schema says. Raises InputError for a record that holds one of the columns twice.
        """
        row = 0
        for texts in batches(islice(self._texts(), limit)):
            numbers: list[int] = []
            rows: list[list[Any]] = []
            malformed: list[tuple[int, str]] = []
            not_text: list[tuple[int, str]] = []
            for number, text in enumerate(texts, row):
                record = _record(text)
                if record is None:
                    malformed.append((number, _shown(text)))
                    continue
                try:
                    values = self._fitted(record, columns, expressions, number)
                except NotText:
                    not_text.append((number, _shown(text)))
                else:
                    numbers.append(number)
                    rows.append(values)
            row += len(texts)
            if self._cut and malformed and malformed[-1][0] == row - 1:
                raise InputError(
                    f"{self.path}: cut off in the middle of its last row; fetch it again"
                )
            arrays = []
            for place, column in enumerate(columns):
                arrays.append(strings([values[place] for values in rows], column.type))
            yield Block(
                pa.table(arrays, schema=columns),
                pa.array(numbers, pa.int64()),
                self.file.done,
                malformed,
                not_text,
            )

    def _fitted(
        self, record: dict[str, Any], columns: pa.Schema, expressions: str | None, row: int
    ) -> list[Any]:
        """Convert the values of a record to the kinds of the columns. Raises NotText."""
        values = []
        try:
            for column in columns:
                check_once(record, column.name)
                value = _as_integer(record.get(column.name))
                values.append(fitted(value, column.type, expressions))
        except Twice as error:
            raise InputError(
                f"{self.path}: row {row} holds {str(error)!r} twice; which one is meant? Remove"
                " the other"
            ) from None
        return values

    @property
    def _may_be_one_object(self) -> bool:
        return kind_of_file(self.file.name) == "json"

    @cached_property
    def _is_lines(self) -> bool:
        """Distinguish JSON lines from an array, and from objects over several lines.

        The first line of such an object ends with `{` or `,`.
        """
        head = self.file.head
        if self._field or head.startswith(b"["):
            return False
        first, line_end, _ = head.partition(b"\n")
        if not line_end or not self._may_be_one_object:
            return True
        return not (first.startswith(b"{") and first.rstrip().endswith((b"{", b",")))

    def _texts(self) -> Iterator[bytes]:
        self.file = TextFile(self.path, self.file.longest)
        return self._lines() if self._is_lines else self._values()

    def _lines(self) -> Iterator[bytes]:
        for line in self.file.lines():
            self._cut = not line.endswith(b"\n")
            record = line.rstrip(b"\r\n").lstrip()
            if record:
                if len(record) > _most_values():
                    self._check_values(record)
                yield record

    def _values(self) -> Iterator[bytes]:
        """Yield the elements of an array, or objects one after the other.

        `text` is a buffer, out of which one value is cut at a time, from `position` on.
        """
        array = bool(self._field) or self.file.head.startswith(b"[")
        whole = "its array" if array else "its objects"
        row = 0
        text = self.file.read(_CHUNK).lstrip()
        if self._field:
            text, position = self._before_field(text)
        else:
            position = 1 if array else 0
        while True:
            text, position = self._past(_BLANK, text, position)
            if not text:
                if array:
                    raise self._cut_off(f"row {row} of {whole}")
                return
            if array and text.startswith("]", position):
                text, position = self._behind_array(text, position + 1)
                if not text:
                    return
                continue
            text, position, end = self._with_whole_value(text, position, f"row {row} of {whole}")
            self.file.unpacked.add(0, 1)
            yield text[position:end].encode("utf-8", "surrogatepass")
            row += 1
            position = end

    def _behind_array(self, text: str, position: int) -> tuple[str, int]:
        """Read on into another array, as `cat` of two files leaves it; "" at the end.

        What stands behind an array in an object is no row.
        """
        if self._field:
            return "", 0
        text, position = self._past(_BLANK, text, position)
        if text and not text.startswith("[", position):
            raise InputError(
                f"{self.path}: behind its array stands {text[position : position + 20]!r}; fetch it"
                " again"
            )
        return text, position + 1

    def _before_field(self, text: str) -> tuple[str, int]:
        """Read on to the first row of the array that the field of an object holds."""
        place = f"the object around {self._field!r}"
        names: list[str] = []
        field = self._field
        is_inside = text.startswith("{")
        position = 1
        while is_inside:
            text, position = self._past(_BLANK, text, position)
            if not text:
                raise self._cut_off(place)
            if text.startswith("}", position):
                break
            text, position, end = self._with_whole_value(text, position, place)
            names.append(str(DECODER.decode(text[position:end])))
            text, position = self._past(_BLANK + ":", text, end)
            if names[-1] == field:
                if text.startswith("[", position):
                    return text, position + 1
                raise InputError(f"{self.path}: its field {self._field!r} holds no list of rows")
            if field.startswith(f"{names[-1]}.") and text.startswith("{", position):
                field = field.removeprefix(f"{names[-1]}.")
                names = []
                position += 1
                continue
            text, _, position = self._with_whole_value(text, position, place)
        there = f"; it has {', '.join(names)}" if names else ": it is no object"
        raise InputError(f"{self.path}: it has no field {self._field!r}{there}")

    def _past(self, blanks: str, text: str, position: int) -> tuple[str, int]:
        """Read on to a sign that is none of the blanks; "" where the file ends before."""
        while text:
            while position < len(text) and text[position] in blanks:
                position += 1
            if position < len(text):
                return text, position
            text = self.file.read(_CHUNK)
            position = 0
        return "", 0

    def _with_whole_value(self, text: str, position: int, place: str) -> tuple[str, int, int]:
        """Read on until the value at `position` is whole: returns the text, its start and end."""
        chunk = _CHUNK
        while True:
            try:
                _, end = DECODER.raw_decode(text, position)
                # A number that ends where the buffer ends may have more digits.
                more = self.file.read(chunk) if end == len(text) else ""
                if not more:
                    return text, position, end
                text = text[position:] + more
                position = 0
            except json.JSONDecodeError as error:
                if len(text) - position > self.file.longest:
                    raise self.file.too_long(place) from None
                self._check_values(text[position:].encode("utf-8", "replace"))
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

    def _check_values(self, record: bytes) -> None:
        """Raise InputError for a record whose values would take gigabytes in Python."""
        most = _most_values()
        if len(record) > most and sum(map(record.count, (b",", b"[", b"{"))) > most:
            raise InputError(
                f"{self.path}: a record of {len(record):,} bytes holds more than {most:,}"
                " values, or signs of them; divide it into several, or raise data.memory"
            )

    def _cut_off(self, place: str) -> InputError:
        return InputError(f"{self.path}: cut off in {place}; fetch it again")


def _most_values() -> int:
    return min(MOST_VALUES, bytes_to_take() // _BYTES_OF_VALUE)


def _may_be_cut(error: json.JSONDecodeError, text: str) -> bool:
    """Tell whether more text may mend the error."""
    unterminated = error.msg.startswith("Unterminated string")
    return unterminated or error.pos >= len(text) - _NEAR_END


def _record(text: bytes) -> dict[str, Any] | None:
    try:
        record = DECODER.decode(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _as_integer(value: Any) -> Any:
    """Write 51.0, as JSON may write the integer 51, as 51: the text of an integer in Parquet."""
    return value.removesuffix(".0") if isinstance(value, Number) else value


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace")[:LONGEST_SHOWN]


def _is_row(value: Any) -> bool:
    """Tell whether a value may be a row: an object that is no turn and no part of a message."""
    return isinstance(value, dict) and bool(value) and not is_turn_or_part(value)


def _lists_of_rows(value: dict[str, Any]) -> dict[str, int]:
    """Find the lists of rows inside an object: how many rows each holds, by its path."""
    found = {}
    for name, inner in value.items():
        if isinstance(inner, list) and inner and all(map(_is_row, inner)):
            found[name] = len(inner)
        elif isinstance(inner, dict):
            for path, count in _lists_of_rows(inner).items():
                found[f"{name}.{path}"] = count
    return found


def _columns_in_lists(value: dict[str, Any]) -> list[str]:
    """List the fields of an object that are all columns: equally long lists, or maps, of values.

    So pandas writes a table: `{"question": {"0": "Who?"}, "answer": {"0": "Ada."}}`.
    """
    columns = []
    for name, inner in value.items():
        is_map = isinstance(inner, dict) and all(map(str.isdigit, inner))
        cells = [*inner.values()] if is_map else inner
        if isinstance(cells, list) and cells and not any(isinstance(x, dict | list) for x in cells):
            columns.append((name, len(cells)))
    are_all = len(columns) == len(value) > 1
    of_one_length = len({length for _, length in columns}) == 1
    return [name for name, _ in columns] if are_all and of_one_length else []
