"""Sections of a study file: frozen pydantic models that name the nearest valid key where a key is unknown."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator


class Section(BaseModel):
    """Validate one mapping of a study file. An unknown key is an error that names the nearest valid key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        return _check_keys(value, cls.model_fields)


def dataclass_section(kind: type) -> Any:
    """Turn a stage's settings dataclass into the type of a section.

    Pydantic validates the types; the dataclass checks its own values. Fields and defaults are written down once.
    """
    names = [field.name for field in dataclasses.fields(kind)]
    return Annotated[kind, BeforeValidator(lambda value: _check_keys(value, names))]


def _check_keys(value: Any, valid: Iterable[str]) -> Any:
    valid = list(valid)
    for key in value if isinstance(value, Mapping) else ():
        if key not in valid:
            near = difflib.get_close_matches(str(key), valid, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"valid keys are {', '.join(valid)}"
            raise ValueError(f"unknown key {key!r}; {hint}")
    return value


def distinct(values: list[Any], name: str) -> list[Any]:
    """Return `values` unchanged. Raises ValueError where two of them are equal."""
    if len(set(values)) < len(values):
        raise ValueError(f"{name} must differ, got {', '.join(map(str, values))}")
    return values
