"""Values of JSON: what a whole file holds at each place, and rows fitted to that.

A file may hold a text in one row and a list in another. The kind of a place is what most rows hold
there; a value of another kind is converted where it has a text to read, and else its row is no
document. So no row's kind is decided by other rows, and no JSON source ever becomes a text:

    "Two."                                                        is the text  Two.
    ["Two.", "Yes."]                                              are lines of one text
    [{"type": "text", "text": "Two."}, {"type": "image_url"}]     is  Two.  and a mark of a picture
    [{"role": "assistant", "content": "Two."}]                    is the text  Two.
    {"value": 2}, [2, 3]                                          are no text
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from dreamer_study.pipeline.sources.files.turns import FIELDS, THOUGHTS, turn_fields

# Unicode's own sign for a thing in a text that is no text, such as a picture.
OBJECT = "\ufffc"
MOST_NAMES = 1000  # of an object; one with more is a map, whose keys are values


class Number(str):
    """A number with a fraction or an exponent, as it is written."""

    __slots__ = ()


class Doubled(dict[str, Any]):
    """An object that holds some `names` more than once."""

    names: set[str]


class Twice(Exception):
    """An object holds a name twice; which value is meant is not known."""


class NotText(Exception):
    """A value has no text to read where a text is wanted."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    names = [name for name, _ in pairs]
    doubled = Doubled(plain)
    doubled.names = {name for name in plain if names.count(name) > 1}
    return doubled


# A raw tab inside a text is bad JSON and good data; NaN is what Python writes for a missing value.
DECODER = json.JSONDecoder(
    strict=False,
    parse_float=Number,
    parse_constant=lambda name: None if name == "NaN" else Number(name),
    object_pairs_hook=_object,
)


class Seen:
    """What the rows hold at one place: how many texts, lists and objects."""

    __slots__ = ("element", "fields", "lists", "objects", "texts")

    def __init__(self) -> None:
        self.texts = 0
        self.lists = 0
        self.objects = 0
        self.fields: dict[str, Seen] = {}
        self.element: Seen | None = None

    def add(self, value: Any) -> None:
        """Count one value, and what is inside of it."""
        if value is None:
            return
        if isinstance(value, dict):
            self.objects += 1
            for name, inner in value.items():
                field = self.fields.get(name)
                if field is None:
                    if len(self.fields) == MOST_NAMES:
                        continue
                    field = self.fields[name] = Seen()
                field.add(inner)
        elif isinstance(value, list):
            self.lists += 1
            if self.element is None:
                self.element = Seen()
            for inner in value:
                self.element.add(inner)
        else:
            self.texts += 1

    def count(self) -> int:
        """Count the places at and below this one."""
        inner = list(self.fields.values())
        if self.element is not None:
            inner.append(self.element)
        return 1 + sum(seen.count() for seen in inner)

    def kind(self) -> pa.DataType:
        """Return what most values are: a list, an object, or else a text."""
        half = (self.texts + self.lists + self.objects) / 2
        fields = [(name, seen.kind()) for name, seen in self.fields.items() if name]
        if self.objects > half and fields:
            return pa.struct(fields)
        if self.lists > half:
            return pa.list_(self.element.kind() if self.element else pa.string())
        return pa.string()


def fitted(value: Any, kind: pa.DataType, expressions: str | None = None) -> Any:
    """Convert a value to a kind. Raises NotText for a value that has no such form.

    Of fields that do not occur in the `expressions`, which are not read, such a value becomes null.
    Raises Twice for a field that stands twice and is read.
    """
    if value is None:
        return None
    if pa.types.is_string(kind):
        return text_of(value)
    if pa.types.is_list(kind):
        element = kind.value_type
        if isinstance(value, list):
            return [fitted(inner, element, expressions) for inner in value]
        if isinstance(value, dict):
            raise NotText
        return [_one_element(text_of(value), element)]
    if not isinstance(value, dict):
        raise NotText
    return _fitted_fields(value, kind, expressions)


def _fitted_fields(
    value: dict[str, Any], kind: pa.StructType, expressions: str | None
) -> dict[str, Any]:
    fields = {}
    for field in kind:
        is_read = expressions is None or field.name in expressions or field.name in FIELDS
        if is_read:
            check_once(value, field.name)
        try:
            fields[field.name] = fitted(value.get(field.name), field.type, expressions)
        except NotText:
            if is_read:
                raise
    return fields


def check_once(value: dict[str, Any], name: str) -> None:
    """Raise Twice for an object that holds a name twice."""
    if isinstance(value, Doubled) and name in value.names:
        raise Twice(name)


def _one_element(text: str, element: pa.DataType) -> Any:
    """Make an element of a list out of a text that stands where other rows have a list."""
    if pa.types.is_string(element):
        return text
    if pa.types.is_struct(element) and {"type", "text"} <= {field.name for field in element}:
        return {"type": "text", "text": text}
    raise NotText


def text_of(value: Any) -> str:
    """Return the text of a value; parts that are no text leave a mark. Raises NotText."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    parts = value if isinstance(value, list) else [value]
    if len(parts) == 1 and isinstance(parts[0], dict):
        fields = turn_fields(parts[0])
        if fields is not None and parts[0][fields[1]] is not None:
            return text_of(parts[0][fields[1]])
    texts = map(_part, parts)
    return "\n".join(text for text in texts if text is not None)


def _part(part: Any) -> str | None:
    """Return the text of a part of a message; None for a reasoning trace."""
    if isinstance(part, str) and not isinstance(part, Number):
        return part
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise NotText
    if part["type"] in THOUGHTS:
        return None
    if isinstance(part.get("text"), str):
        return part["text"]
    if part["type"] == "text":
        raise NotText
    return OBJECT


def strings(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """Make a column of fitted values.

    Half a surrogate pair, which JSON may escape and UTF-8 cannot hold, becomes U+FFFD.
    """
    values = list(values)
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([_whole(value) for value in values], kind)


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _whole(inner) for name, inner in value.items()}
    return value
