"""Sections of a study file: frozen pydantic models that name the nearest valid key where a key is
unknown."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from dreamer_study.pipeline.errors import nearest


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
        if isinstance(value, str) and not all(re.fullmatch(one, value) for one in patterns):
            # pydantic's own words show the pattern
            raise ValueError(f"{value!r} must be {field.description}")
        return _check_plain(value, field.annotation)


def check_keys(value: Any, valid: Iterable[str]) -> Any:
    """Return a value unchanged. Raises ValueError for a mapping with a key that is not valid,
    naming the nearest."""
    valid = list(valid)
    for key in value if isinstance(value, Mapping) else ():
        if key not in valid:
            raise ValueError(
                f"unknown key {key!r}" + nearest(key, valid, f"; valid keys are {', '.join(valid)}")
            )
    return value


def _check_plain(value: Any, hint: Any, where: str = "") -> Any:
    """Return a value of the type `hint` unchanged. Raises ValueError for what pydantic would take
    for something else.

    That is true or false for a number, an empty text for a path, a text with a NUL byte; and
    unknown keys.
    """
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        hints = typing.get_type_hints(hint)
        return {
            name: _check_plain(one, hints[name], f"{name}: ")
            for name, one in check_keys(value, hints).items()
        }
    if isinstance(value, list) and dataclasses.is_dataclass(
        kind := next(iter(typing.get_args(hint)), None)
    ):
        return [_check_plain(one, kind) for one in value]
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, bool) and not re.search(r"\b(bool|Any)\b", str(hint)):
            raise ValueError(f"{where}{str(one).lower()} is no number, nor a word")
        if isinstance(one, str) and ("\0" in one or (not one and "Path" in str(hint))):
            raise ValueError(f"{where}{one!r} is no name")
    return value


def settings_section(kind: type, without: Collection[str] = ()) -> Any:
    """Build the base class of a section from the settings dataclass `kind`: its fields and
    defaults, except `without`.

    What `kind` checks beyond single fields, the section built on it must check by making one.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name not in without:
            default = ... if field.default is dataclasses.MISSING else field.default
            fields[field.name] = (hints[field.name], Field(default))
    return create_model(kind.__name__, __base__=Section, **fields)


def distinct(values: list[Any], name: str) -> list[Any]:
    """Return `values` unchanged. Raises ValueError where two of them are equal."""
    if len(set(values)) < len(values):
        raise ValueError(f"{name} must differ, got {', '.join(map(str, values))}")
    return values
