"""Sections of a study file: frozen pydantic models that name the nearest valid key where a key is unknown."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, create_model, field_validator, model_validator

from pipeline.errors import nearest_name


class Section(BaseModel):
    """Validate one mapping of a study file.

    A field may be a stage's settings dataclass: pydantic checks the types, the dataclass its own rules, so that fields
    and defaults are written down once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        return _check_keys(value, cls.model_fields)

    @field_validator("*", mode="before")
    @classmethod
    def _known_keys_of_dataclass(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[str(info.field_name)].annotation
        return (
            _check_keys(value, [f.name for f in dataclasses.fields(kind)]) if dataclasses.is_dataclass(kind) else value
        )


def _check_keys(value: Any, valid: Iterable[str]) -> Any:
    valid = list(valid)
    for key in value if isinstance(value, Mapping) else ():
        if key not in valid:
            near = nearest_name(key, valid)
            hint = f"did you mean {near!r}?" if near else f"valid keys are {', '.join(valid)}"
            raise ValueError(f"unknown key {key!r}; {hint}")
    return value


def settings_section(kind: type, without: Collection[str] = ()) -> Any:
    """Build the base class of a section from the settings dataclass `kind`: its fields and defaults, except `without`.

    The base class checks types only. The section built on it must pass its values to `kind`, which checks the rest.
    """
    hints = typing.get_type_hints(kind)
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
