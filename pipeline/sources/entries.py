"""Check the entries of a study that name a source or a benchmark: types of fields, and errors of
one line."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import yaml
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.pipeline.sources.columns.sql import parse

Entry = TypeVar("Entry")
CONFIG = ConfigDict(extra="forbid")


def _parsed(text: Any) -> Any:
    """Check an expression; "" stands for none."""
    return parse(text) if text not in ("", None) else text


def _checked_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        try:
            pc.replace_substring_regex(pa.scalar(""), pattern=pattern, replacement="")
        except pa.ArrowInvalid as error:
            raise InputError(f"{pattern!r} is not a regular expression ({error})") from error
    return patterns


# The types of fields. A description completes the message
# "<field> must be <description>, not <value>"; fields without one are texts.
Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(
        lambda value: (value,) if isinstance(value, str) else value,
        json_schema_input_type=str | tuple[str, ...],
    ),
    Field(description="a text or a list of texts"),
]
# Names and repositories become parts of paths and ids.
Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][\w.-]*$",
        description="of letters, digits, dots, dashes and underscores only",
    ),
]
Repository = Annotated[
    str,
    Field(
        pattern=r"^([\w-]+(\.[\w-]+)*/[\w-]+(\.[\w-]+)*)?$", description="of the form owner/name"
    ),
]
Revision = Annotated[
    str | None,
    Field(
        pattern="^[0-9a-f]{7,40}$",
        description="a commit (7 to 40 of 0-9 and a-f), as branches and tags move",
    ),
]
Column = Annotated[str, BeforeValidator(_parsed)]  # one expression
ColumnList = Annotated[Texts, AfterValidator(lambda texts: tuple(map(_parsed, texts)))]
Patterns = Annotated[Texts, AfterValidator(_checked_patterns)]  # regular expressions (RE2)
Flag = Annotated[bool, Field(strict=True, description="true or false")]


def read_table(kind: type[Entry], path: Path) -> dict[str, Entry]:
    """Read the entries of a YAML file, by their names."""
    return {
        entry["name"]: kind(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))
    }


def resolve(
    kind: type[Entry],
    table: Mapping[str, Entry],
    entry: str | Mapping[str, Any],
    also: Collection[str] = (),
) -> tuple[Entry | None, dict[str, Any]]:
    """Find the entry of `table` that a study's entry names or changes, and the fields that the
    study's entry gives.

    An entry without `repository` and `files` changes the entry of its name in the table. `also` are
    keys that are no fields; they are left out. A null stands for a field's default, and for nothing
    where a field has none. Raises InputError for a name that is not in the table, an unknown key
    (naming the nearest valid one), and a missing name or repository.
    """
    what = kind.__name__.lower()
    if isinstance(entry, str):
        if entry not in table:
            needed = "columns" if what == "source" else "task"
            raise InputError(
                f"no {what} {entry!r}{nearest(entry, table)}; or give an entry with name,"
                f" repository, {needed}"
            )
        return table[entry], {}
    where = f"{what} {entry.get('name', entry)!r}"
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in entry:
        if key not in fields and key not in also:
            raise InputError(f"{where}: unknown key {key!r}{nearest(key, [*fields, *also])}")
    own = entry.get("repository") is not None or entry.get("files")
    base = None if own else table.get(str(entry.get("name")))
    if missing := [
        key
        for key in ("name", "repository")
        if not (base or entry.get(key) or (key != "name" and own))
    ]:
        raise InputError(
            f"{where}: {' and '.join(missing)} must be given{nearest(entry.get('name'), table)}"
        )
    given = {
        key: value
        for key, value in entry.items()
        if key in fields and (key != "repository" or value)
    }
    values = {
        key: _default(fields[key]) if value is None else value for key, value in given.items()
    }
    return base, {key: value for key, value in values.items() if value is not dataclasses.MISSING}


def build(kind: type[Entry], base: Entry | None, values: Mapping[str, Any]) -> Entry:
    """Make the checked entry: `base` with the fields `values` changed, or a new one. Raises
    InputError, in one line."""
    try:
        return dataclasses.replace(base, **values) if base else kind(**values)  # type: ignore[type-var]
    except ValidationError as error:
        words = dict.fromkeys(_problem(kind, one, values) for one in error.errors())
        raise InputError(
            f"{kind.__name__.lower()} {values['name']!r}: {'; '.join(words)}"
        ) from None


def _default(field: dataclasses.Field) -> Any:
    return (
        field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    )


def _problem(kind: Any, error: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    if error["type"] == "value_error":  # raised by a check of this project
        return str(error["ctx"]["error"])
    key = error["loc"][0]
    wanted = kind.__pydantic_fields__[key].description or error.get("ctx", {}).get(
        "expected", "a text"
    )
    return f"{key} must be {wanted}, not {values[key]!r}"
