"""Build the base class of a study's section from a settings dataclass of model/, whose fields the section extends."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, Field, create_model


def settings_section(base: type[BaseModel], kind: type, without: Collection[str] = ()) -> Any:
    """Return a subclass of `base` with the fields and defaults of the dataclass `kind`, except the fields `without`.

    The subclass checks types only; the section built on it must pass its values to `kind`, which checks the rest.
    """
    hints = typing.get_type_hints(kind)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name not in without:
            default = ... if field.default is dataclasses.MISSING else field.default
            fields[field.name] = (hints[field.name], Field(default))
    return create_model(kind.__name__, __base__=base, **fields)
