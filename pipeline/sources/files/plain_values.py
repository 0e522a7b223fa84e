"""Write out values that rows of Arrow share: dictionaries, runs, views of texts and of lists.

Nothing that a file says of places (offsets, indices, ends of runs) is followed before it has been
checked: Arrow itself trusts files in this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class UnionOfTypes(Exception):
    """A column whose values are of several types, which is not read."""


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which each value is held on its own.

    Raises UnionOfTypes.
    """
    types = pa.types
    if types.is_union(kind):
        raise UnionOfTypes
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    return _plain_nested_type(kind)


def _plain_nested_type(kind: Any) -> pa.DataType:
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), _element_type(plain_type(kind.item_type)))
    if types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind), kind.list_size)
    if types.is_list(kind) or types.is_list_view(kind):
        return pa.list_(_plain_field(kind))
    if types.is_large_list(kind) or types.is_large_list_view(kind):
        return pa.large_list(_plain_field(kind))
    return kind


def _plain_field(kind: Any) -> pa.Field:
    return kind.value_field.with_type(_element_type(plain_type(kind.value_type)))


def _element_type(kind: pa.DataType) -> pa.DataType:
    """Return a type of which each element takes memory: a list may claim billions of nulls."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_element_type(field.type)) for field in kind])
    return pa.string() if pa.types.is_null(kind) else kind


def _plain_elements(array: pa.Array, begin: int, end: int) -> pa.Array:
    """Write out the elements of lists from one place to another."""
    return _with_memory(plain(array.slice(begin, end - begin)))


def _with_memory(array: pa.Array) -> pa.Array:
    kind = _element_type(array.type)
    if array.type == kind:
        return array
    if pa.types.is_null(array.type):
        # not a cast, whose memory no limit sees
        return pa.nulls(len(array), kind)
    columns = [_with_memory(array.field(place)) for place in range(array.type.num_fields)]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=array.is_null())


def plain(array: pa.Array) -> pa.Array:
    """Write out the values that rows share.

    Raises ArrowInvalid or IndexError for places outside of what they point into.
    """
    kind = array.type
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if types.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)
    if types.is_run_end_encoded(kind):
        return _without_runs(array)
    if types.is_struct(kind):
        return _plain_struct(array)
    if types.is_map(kind):
        return _plain_map(array)
    if types.is_fixed_size_list(kind):
        return _plain_fixed_lists(array)
    if types.is_list(kind) or types.is_large_list(kind):
        return _plain_lists(array)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return _without_views(array)
    return _plain_leaf(array)


def _plain_leaf(array: pa.Array) -> pa.Array:
    kind = array.type
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        as_bytes = {"string": "binary", "large_string": "large_binary"}.get(
            str(kind), "binary_view"
        )
        # texts need not be valid UTF-8 yet
        array.view(as_bytes).validate(full=True)
    else:
        array.validate(full=True)
    return array.cast(plain_type(kind))


def _without_runs(array: pa.Array) -> pa.Array:
    values = plain(array.values)
    numbers = pa.array(np.arange(len(values), dtype=np.int64))
    of_runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, numbers)
    of_runs.validate(full=True)
    places = of_runs.slice(array.offset, len(array))
    return values.take(pc.run_end_decode(places))


def _plain_struct(array: pa.StructArray) -> pa.StructArray:
    array.validate()
    fields = list(plain_type(array.type))
    if not fields:
        return array
    columns = [plain(array.field(place)) for place in range(len(fields))]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())


def _plain_lists(array: pa.Array) -> pa.Array:
    kind = plain_type(array.type)
    offsets, begin, end = _checked_offsets(array, len(array.values))
    values = _plain_elements(array.values, begin, end)
    make = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return make.from_arrays(offsets, values, type=kind, mask=array.is_null())


def _plain_map(array: pa.MapArray) -> pa.MapArray:
    kind = plain_type(array.type)
    offsets, begin, end = _checked_offsets(array, min(len(array.keys), len(array.items)))
    keys = plain(array.keys.slice(begin, end - begin))
    items = _plain_elements(array.items, begin, end)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=array.is_null())


def _checked_offsets(array: Any, most: int) -> tuple[pa.Array, int, int]:
    """Return the offsets of lists, counted from 0, and where their elements begin and end.

    Raises ArrowInvalid where a list lies outside of its elements.
    """
    array.validate()
    offsets = array.offsets.to_numpy()
    if not len(offsets):
        return pa.array([0], array.offsets.type), 0, 0
    begin = int(offsets[0])
    end = int(offsets[-1])
    if begin < 0 or end > most or np.any(offsets[1:] < offsets[:-1]):
        raise pa.ArrowInvalid("a list lies outside of its elements")
    return pa.array(offsets - begin), begin, end


def _plain_fixed_lists(array: pa.FixedSizeListArray) -> pa.Array:
    array.validate()
    kind = plain_type(array.type)
    size = kind.list_size
    if not size:
        return pa.array([[]] * len(array), kind)
    begin = array.offset * size
    values = _plain_elements(array.values, begin, begin + len(array) * size)
    return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=array.is_null())


def _without_views(array: Any) -> pa.Array:
    array.validate()
    kind = plain_type(array.type)
    is_null = array.is_null()
    offsets = array.offsets.to_numpy().astype(np.int64)
    sizes = np.where(is_null.to_numpy(zero_copy_only=False), 0, array.sizes.to_numpy())
    sizes = sizes.astype(np.int64)
    offsets = np.where(sizes, offsets, 0)
    most = len(array.values)
    if np.any((sizes < 0) | (offsets < 0) | (offsets > most) | (sizes > most - offsets)):
        raise pa.ArrowInvalid("a list lies outside of its elements")
    used = sizes > 0
    begin = int(offsets[used].min()) if used.any() else 0
    end = int((offsets + sizes)[used].max()) if used.any() else 0
    values = _plain_elements(array.values, begin, end)
    is_large = pa.types.is_large_list(kind)
    views = pa.LargeListViewArray.from_arrays(
        pa.array(np.where(used, offsets - begin, 0)), pa.array(sizes), values
    )
    ends = pa.array(np.concatenate([[0], np.cumsum(sizes)])).cast(
        pa.int64() if is_large else pa.int32()
    )
    make = pa.LargeListArray if is_large else pa.ListArray
    return make.from_arrays(ends, views.flatten(), type=kind, mask=is_null)


def valid(array: pa.Array) -> pa.Array:
    """Make texts valid UTF-8, which Parquet does not guarantee; plain bytes are taken for text.

    Raises ArrowInvalid for an array whose parts do not fit together.
    """
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        array = array.cast(pa.binary()).view(pa.string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        as_bytes = array.cast(_byte_type(array.type))
        as_bytes.validate(full=True)  # what is no fault of UTF-8 stays one
        return pa.array([_decoded(value) for value in as_bytes.to_pylist()], array.type)
    return array


def _byte_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with bytes in the place of texts."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _byte_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_byte_type(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.binary()
    return kind


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: _decoded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_decoded(inner) for inner in value]
    return value
