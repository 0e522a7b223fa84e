"""Check settings by pydantic; every error is one line that names the setting, its value and the
rule."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from dreamer_study.pipeline.errors import InputError, nearest

Kind = TypeVar("Kind", bound=type)

Count = Annotated[int, Field(ge=1, lt=2**63)]


def _file_name(text: str) -> str:
    if text in ("", ".", "..") or not text.isprintable() or "/" in text:
        raise ValueError("it must be a name that a file or folder can have")
    return text


FileName = Annotated[str, AfterValidator(_file_name)]


@dataclass_transform(frozen_default=True, kw_only_default=True)
def checked(where: str, *, extra: str = "forbid") -> Callable[[Kind], Kind]:
    """Decorate a class: make a frozen dataclass that pydantic checks. An InputError begins with
    `where`.

    Types are strict: 1 is no bool, and "1" no number.
    """

    def decorate(kind: Kind) -> Kind:
        made = dataclass(frozen=True, kw_only=True, config=ConfigDict(strict=True, extra=extra))(
            kind
        )
        construct = made.__init__

        def __init__(self: Any, **values: Any) -> None:
            try:
                construct(self, **values)
            except ValidationError as error:
                raise InputError(_first_error(error, made, where)) from None

        made.__init__ = __init__
        return made

    return decorate


def parse_file(kind: type[Any], path: Path) -> Any:
    """Read a JSON file as an object of a class that `checked` has made. Raises InputError that
    begins with the path."""
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(_first_error(error, kind, str(path))) from None


def read_object(path: Path, *required: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises InputError if the text is not one or lacks a `required` name, FileNotFoundError if there
    is no file.
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


def _first_error(error: ValidationError, kind: type, where: str) -> str:
    """Describe the first thing that is wrong: `training.tokens is 0, ...` in a section, `<path>:
    tokens is ...`."""
    first = error.errors(include_url=False)[0]
    name, said = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    if first["type"] == "unexpected_keyword_argument":
        known = [field.name for field in dataclasses.fields(kind)]
        text = f"{name} is no field" + nearest(name, known, f"; known are {', '.join(known)}")
    elif first["type"].startswith("missing"):
        text = f"{name} is missing"
    else:
        said = said.replace("Input should be", "it must be")
        text = f"{name} is {_short(first['input'])}, but {said}" if name else said
    return f"{where}.{text}" if where.isidentifier() else f"{where}: {text}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
