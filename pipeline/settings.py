"""Check settings by pydantic; every error is one line that names setting, value and rule.

    training.beta1 is 7, but it must be less than 1
    training: unknown key 'warmup_stepz'; did you mean 'warmup_steps'?

Three kinds of settings are checked here: what one process hands to another as JSON (`checked`), the
sections of a study file (`Section`), and a study's entries of sources and benchmarks
(`sources.entries`).
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass

from dreamer_study.pipeline.errors import InputError, nearest

Kind = TypeVar("Kind", bound=type)

Count = Annotated[int, Field(ge=1, lt=2**63)]


def _file_name(text: str) -> str:
    if text in ("", ".", "..") or not text.isprintable() or "/" in text:
        raise ValueError("it must be a name that a file or folder can have")
    return text


FileName = Annotated[str, AfterValidator(_file_name)]


# --- the words of errors ---


def unknown_key(key: object, valid: Iterable[str]) -> str:
    """Say that a key is unknown, with the nearest valid one, or else all."""
    names = list(valid)
    return f"unknown key {key!r}" + nearest(key, names, f"; valid keys are {', '.join(names)}")


def describe(error: Mapping[str, Any], rule: str = "") -> str:
    """Describe one error of pydantic: `tokens is 0, but it must be greater than 0`.

    `rule` says what a value must be, where pydantic's own words do not serve. A check of ours says
    the rule itself, as a ValueError: "it must be ..." follows the value, any other text stands
    alone.
    """
    name = ".".join(map(str, error["loc"]))
    message = error["msg"].removeprefix("Value error, ")
    if error["type"].startswith("missing"):
        return f"{name} is missing"
    if error["type"] == "value_error" and not message.startswith("it must"):
        return message if not name or message.startswith(f"{name}.") else f"{name}: {message}"
    if rule:
        message = f"it must be {rule}"
    else:  # "Input should be less than 1", "List should have at least 1 item"
        message = re.sub(r"^\w+ should ", "it must ", message)
    return f"{name} is {_short(error['input'])}, but {message}" if name else message


def one_line(error: ValidationError) -> str:
    """Join all validation errors on one line."""
    return "; ".join(describe(details) for details in error.errors(include_url=False))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- what one process hands to another ---


@dataclass_transform(frozen_default=True, kw_only_default=True)
def checked(where: str, *, extra: Literal["forbid", "ignore"] = "forbid") -> Callable[[Kind], Kind]:
    """Decorate a class: make a frozen dataclass that pydantic checks.

    An InputError begins with `where`. Types are strict: 1 is no bool, and "1" no number.
    """

    def decorate(kind: Kind) -> Kind:
        config = ConfigDict(strict=True, extra=extra, use_attribute_docstrings=True)
        made: Any = dataclass(frozen=True, kw_only=True, config=config)(kind)
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
    """Read a JSON file as an object of a class that `checked` has made.

    Raises InputError that begins with the path.
    """
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
    for name in required:
        if name not in values:
            raise InputError(f"{path}: {name} is missing")
    return values


def _first_error(error: ValidationError, kind: type, where: str) -> str:
    """Describe the first thing that is wrong.

    It is `training.tokens is 0, ...` in the section `training`, `<path>: tokens is 0, ...` in a
    file.
    """
    first = error.errors(include_url=False)[0]
    if first["type"] == "unexpected_keyword_argument":
        *path, key = first["loc"]
        places = [where, ".".join(map(str, path))] if path else [where]
        return f"{': '.join(places)}: {unknown_key(key, _fields_at(kind, path))}"
    text = describe(first)
    return f"{where}.{text}" if where.isidentifier() else f"{where}: {text}"


def _fields_at(kind: Any, path: Sequence[int | str]) -> list[str]:
    """List the fields of the dataclass that lies at a path in `kind`; none for anything else."""
    for part in path:
        if dataclasses.is_dataclass(kind):
            kind = typing.get_type_hints(kind).get(str(part))
        else:  # a list of dataclasses
            kind = next(iter(typing.get_args(kind)), None)
    return (
        [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    )


# --- sections of a study file ---


class Section(BaseModel):
    """Validate one mapping of a study file.

    A field may be a stage's settings dataclass: pydantic checks the types, the dataclass its own
    rules, so that fields and defaults are written down once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        return check_keys(value, cls.model_fields)

    @field_validator("*", mode="before")
    @classmethod
    def _plain_values(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        patterns = [rule.pattern for rule in field.metadata if getattr(rule, "pattern", None)]
        if isinstance(value, str) and not all(re.fullmatch(pattern, value) for pattern in patterns):
            # pydantic's own words show the pattern
            raise ValueError(f"it must be {field.description}")
        return _check_plain(value, field.annotation)


def check_keys(value: Any, valid: Iterable[str]) -> Any:
    """Return a value unchanged. Raises ValueError for a mapping with a key that is not valid."""
    if isinstance(value, Mapping):
        names = list(valid)
        for key in value:
            if key not in names:
                raise ValueError(unknown_key(key, names))
    return value


def _check_plain(value: Any, hint: Any, where: str = "") -> Any:
    """Return a value of the type `hint` unchanged.

    Raises ValueError for what pydantic would take for something else, that is true or false for a
    number, an empty text for a path, a text with a NUL byte; and for unknown keys.
    """
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        hints = typing.get_type_hints(hint)
        check_keys(value, hints)
        return {key: _check_plain(inner, hints[key], f"{key}: ") for key, inner in value.items()}
    if isinstance(value, list):
        of_element = next(iter(typing.get_args(hint)), None)
        if dataclasses.is_dataclass(of_element):
            return [_check_plain(element, of_element) for element in value]
        for element in value:
            _check_plain_scalar(element, hint, where)
    else:
        _check_plain_scalar(value, hint, where)
    return value


# Control characters other than tabs and ends of lines, and halves of a character.
_UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def _check_plain_scalar(value: Any, hint: Any, where: str) -> None:
    if isinstance(value, bool) and dataclasses.is_dataclass(hint):
        names = ", ".join(field.name for field in dataclasses.fields(hint))
        raise ValueError(
            f"{where}{str(value).lower()} switches nothing on or off; leave the key out for the"
            f" defaults, or give some of: {names}"
        )
    if isinstance(value, bool) and not re.search(r"\b(bool|Any)\b", str(hint)):
        raise ValueError(f"{where}{str(value).lower()} is no number, nor a word")
    if isinstance(value, str):
        is_empty_path = not value and "Path" in str(hint)
        if is_empty_path or "\0" in value:
            raise ValueError(f"{where}{value!r} is no name")
        unwritable = _UNWRITABLE.search(value)
        if unwritable:
            raise ValueError(f"{where}it holds {unwritable[0]!r}, which no text has")


def settings_section(kind: Any, without: Collection[str] = ()) -> Any:
    """Build the base class of a section from the settings dataclass `kind`, one of pydantic's.

    The section has the fields, descriptions and defaults of `kind`, except `without`. What `kind`
    checks beyond single fields, the section built on it must check by making one.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name in without:
            continue
        described = {"description": kind.__pydantic_fields__[field.name].description}
        if field.default_factory is not dataclasses.MISSING:
            made = Field(default_factory=field.default_factory, **described)
        else:
            default = ... if field.default is dataclasses.MISSING else field.default
            made = Field(default, **described)
        fields[field.name] = (hints[field.name], made)
    return create_model(kind.__name__, __base__=Section, **fields)


def distinct(values: list[Any], name: str) -> list[Any]:
    """Return `values` unchanged. Raises ValueError where two of them are equal."""
    if len(set(values)) < len(values):
        raise ValueError(f"{name} must differ, got {', '.join(map(str, values))}")
    return values
