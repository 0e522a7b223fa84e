"""Check settings that come from JSON: every error is one line that names the field, its value and the rule.

`check_fields` compares values with a dataclass's annotations; `check_rules` applies the rules of the dataclass itself.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import InputError, nearest_name

Rule = tuple[str, Callable[[Any], bool], str]
"""Names of fields with spaces between them, what must hold for each value, and the rule in words."""


def is_whole(value: Any) -> bool:
    """Tell whether a value is an integer; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def _list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(accepts, value))


def _optional(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or accepts(value)


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (is_whole, "a whole number"),
    "int | None": (_optional(lambda value: is_whole(value) and value > 0), "a whole number of at least 1, or null"),
    "float": (lambda value: is_whole(value) or isinstance(value, float), "a number"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "bool | None": (_optional(lambda value: isinstance(value, bool)), "true, false or null"),
    "str": (lambda value: isinstance(value, str), "text"),
    "dict": (lambda value: isinstance(value, dict), "an object"),
    "Path": (lambda value: isinstance(value, str), "the path of a folder"),
    "Path | None": (_optional(lambda value: isinstance(value, str)), "the path of a folder, or null"),
    "tuple[int, ...]": (_list_of(is_whole), "a list of whole numbers"),
    "tuple[dict, ...]": (_list_of(lambda value: isinstance(value, dict)), "a list of objects"),
}


def field_types(kind: type) -> dict[str, str]:
    """Return the annotation of every field of a dataclass, by name; its module must not evaluate annotations."""
    return {field.name: field.type for field in dataclasses.fields(kind)}


def required_fields(kind: type) -> list[str]:
    """Return the names of the fields of a dataclass that have no default."""
    missing = dataclasses.MISSING
    return [f.name for f in dataclasses.fields(kind) if f.default is missing and f.default_factory is missing]


def check_fields(
    values: Mapping[str, Any], types: Mapping[str, str], where: str, required: Collection[str] = ()
) -> None:
    """Raise InputError for a missing or unknown field (naming the nearest known one) or a value of another type.

    `types` maps names to annotations; `where` is the section or file that the message begins with.
    """
    for name, value in values.items():
        if name not in types:
            nearest = nearest_name(name, types)
            hint = f"did you mean {nearest}?" if nearest else f"known are {', '.join(types)}"
            raise InputError(f"{where}: there is no field {name!r}; {hint}")
        accepts, rule = _TYPES[types[name]]
        if not accepts(value):
            raise InputError(f"{_named(where, name)} is {_short(value)}, but it must be {rule}")
    for name in required:
        if name not in values:
            raise InputError(f"{_named(where, name)} is missing")


def check_rules(settings: Any, where: str, rules: Iterable[Rule]) -> None:
    """Raise InputError for the first field of `settings` that breaks a rule."""
    for names, holds, rule in rules:
        for name in names.split():
            value = getattr(settings, name)
            if not holds(value):
                raise InputError(f"{_named(where, name)} is {_short(value)}, but it {rule}")


def read_object(path: Path, *required: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises InputError if the text is not one or lacks a `required` name, FileNotFoundError if there is no file.
    """
    try:
        values = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:  # not text, not JSON, or nested too deeply
        raise InputError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} holds {_short(values)}, but it must be an object")
    if missing := [name for name in required if name not in values]:
        raise InputError(f"{path}: {missing[0]} is missing")
    return values


def is_file_name(text: Any) -> bool:
    """Tell whether a file or folder can have this text as its name."""
    return isinstance(text, str) and text not in ("", ".", "..") and text.isprintable() and "/" not in text


def is_device(text: Any) -> bool:
    """Tell whether a text names a kind of device that this project computes on, or one CUDA device by its number."""
    return isinstance(text, str) and re.fullmatch(r"auto|cpu|cuda(:\d+)?", text) is not None


def _named(where: str, name: str) -> str:
    """Name a field: `training.tokens` in a section, `<path>: tokens` in a file."""
    return f"{where}.{name}" if where.isidentifier() else f"{where}: {name}"


def _short(value: Any) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."
