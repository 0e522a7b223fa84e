"""Parse paths into rows, such as `conversations[1].value`, and follow them in JSON records and in Arrow arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError

Steps = Sequence[str | int | None]

_STEP = re.compile(r"([^.\[\]]+)|\[(-?\d+|\*)\]|(\.)")


def steps(path: str) -> list[str | int | None]:
    """Parse a path into steps: a field's name, an element's position, or None for every element ("[*]").

    Example: "turns[-1].text" gives ["turns", -1, "text"]. Raises InputError for a text that is no path.
    """
    found: list[str | int | None] = []
    end = 0
    for step in _STEP.finditer(path):
        if step.start() != end:
            break
        end = step.end()
        if step[1]:
            found.append(step[1])
        elif step[2]:
            found.append(None if step[2] == "*" else int(step[2]))
    if end != len(path) or not found or not isinstance(found[0], str):
        raise InputError(f"{path!r} is not a column or a path such as conversations[1].value")
    if found.count(None) > 1:
        raise InputError(f"path {path!r} has more than one [*]")
    return found


def root(path: str, columns: Iterable[str]) -> str | None:
    """Return the column that `path` starts from, or None; a column whose name is the whole path wins."""
    columns = set(columns)
    if path in columns:
        return path
    first = steps(path)[0]
    assert isinstance(first, str)
    return first if first in columns else None


def walk(value: Any, where: Steps) -> Any:
    """Return the value at the end of a path in a JSON record, or None where the record has no such place."""
    for number, step in enumerate(where):
        if step is None:
            return [walk(part, where[number + 1 :]) for part in value] if isinstance(value, list) else None
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and -len(value) <= step < len(value) else None
        if value is None:
            return None
    return value


def leads_somewhere(schema: pa.Schema, path: str) -> bool:
    """Tell whether a path leads to a column of this schema, through lists and structs."""
    first = root(path, schema.names)
    if first is None:
        return False
    try:
        _follow(pa.array([], schema.field(first).type), [] if first == path else steps(path)[1:])
    except pa.ArrowException:  # a step to a field or an element that the type does not have
        return False
    return True


def extract(batch: pa.RecordBatch, path: str, file: Path) -> pa.Array:
    """Extract the values at the end of a path, as strings or lists of strings; null where a row has no such place.

    Raises InputError, naming `file` and the fields, when the path ends at a struct.
    """
    first = root(path, batch.schema.names)
    assert first is not None
    found = _follow(batch.column(first), [] if first == path else steps(path)[1:])
    return _as_text_array(found, path, file)


def not_text(file: Path, path: str, fields: Sequence[str]) -> InputError:
    """Return the error for a path that ends at an object with these fields, where text is wanted."""
    return InputError(f"{file}: column {path} is not text but has the fields {', '.join(fields)}; name one of them")


def _valid(array: pa.Array) -> pa.Array:
    """Convert an array to strings of valid UTF-8, which Parquet does not guarantee."""
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        array = array.cast(pa.binary()).view(pa.string())
    array = array.cast(pa.string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        texts = (
            None if value is None else value.decode("utf-8", "replace") for value in array.view(pa.binary()).to_pylist()
        )
        return pa.array(texts, pa.string())
    return array


def _follow(array: pa.Array, where: Steps) -> pa.Array:
    for number, step in enumerate(where):
        if isinstance(step, str):
            array = pc.struct_field(array, step)
        elif step is None:
            offsets, values = _list_parts(array)
            return pa.ListArray.from_arrays(offsets, _follow(values, where[number + 1 :]))
        else:
            array = _element(array, step)
    return array


def _list_parts(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the offsets, from zero, and the values of a list array of any kind; a null list counts as empty."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(pc.cast(lengths, pa.int64()))])
    return pc.cast(offsets, pa.int32()), pc.list_flatten(array)


def _element(array: pa.Array, index: int) -> pa.Array:
    """Take one element of each list, null where the list is too short."""
    offsets, values = _list_parts(array)
    starts, ends = offsets[:-1], offsets[1:]
    position = pc.add(starts if index >= 0 else ends, index)
    inside = pc.and_(pc.greater_equal(position, starts), pc.less(position, ends))
    return values.take(pc.if_else(inside, position, pa.scalar(None, position.type)))


def _as_text_array(array: pa.Array, path: str, file: Path) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if _is_list(kind):
        offsets, values = _list_parts(array)
        return pa.ListArray.from_arrays(offsets, _as_text_array(values, path, file))
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        raise not_text(file, path, [kind.field(i).name for i in range(kind.num_fields)])
    return _valid(array)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
