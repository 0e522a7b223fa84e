"""Check the entries of a study that name a source or a benchmark.

The words of errors are those of `pipeline/settings.py`.
"""

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
from dreamer_study.pipeline.settings import describe, unknown_key
from dreamer_study.pipeline.sources.columns.sql import parse

Entry = TypeVar("Entry")
CONFIG = ConfigDict(extra="forbid", use_attribute_docstrings=True)


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


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a value must be: it completes "<field> is <value>, but it must be <rule>"."""

    text: str


# The types of fields; fields without a rule are texts.
Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(
        lambda value: (value,) if isinstance(value, str) else value,
        json_schema_input_type=str | tuple[str, ...],
    ),
    Rule("a text or a list of texts"),
]
# Names and repositories become parts of paths and ids.
Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][\w.-]*$"),
    Rule("of letters, digits, dots, dashes and underscores only"),
]
Repository = Annotated[
    str,
    Field(pattern=r"^([\w-]+(\.[\w-]+)*/[\w-]+(\.[\w-]+)*)?$"),
    Rule("of the form owner/name"),
]
Revision = Annotated[
    str | None,
    Field(pattern="^[0-9a-f]{7,40}$"),
    Rule("a commit (7 to 40 of 0-9 and a-f), as branches and tags move"),
]
Column = Annotated[str, BeforeValidator(_parsed)]  # one expression
ColumnList = Annotated[Texts, AfterValidator(lambda texts: tuple(map(_parsed, texts)))]
Patterns = Annotated[Texts, AfterValidator(_checked_patterns)]  # regular expressions (RE2)
Flag = Annotated[bool, Field(strict=True), Rule("true or false")]


def read_table(kind: type[Entry], path: Path) -> dict[str, Entry]:
    """Read the entries of a YAML file, by their names."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {entry["name"]: kind(**entry) for entry in entries}


def resolve(
    kind: type[Entry],
    table: Mapping[str, Entry],
    entry: str | Mapping[str, Any],
    also: Collection[str] = (),
) -> tuple[Entry | None, dict[str, Any]]:
    """Find the entry of `table` that a study's entry names or changes, and the fields given.

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
            raise InputError(f"{where}: {unknown_key(key, [*fields, *also])}")
    has_data = entry.get("repository") is not None or bool(entry.get("files"))
    base = None if has_data else table.get(str(entry.get("name")))
    missing = _missing(entry, has_data) if base is None else []
    if missing:
        raise InputError(
            f"{where}: {' and '.join(missing)} must be given{nearest(entry.get('name'), table)}"
        )
    values = {}
    for key, value in entry.items():
        if key not in fields or (key == "repository" and not value):
            continue
        given = _default(fields[key]) if value is None else value
        if given is not dataclasses.MISSING:
            values[key] = given
    return base, values


def _missing(entry: Mapping[str, Any], has_data: bool) -> list[str]:
    """List what an entry lacks that changes none of the table."""
    missing = [] if entry.get("name") else ["name"]
    if not has_data:
        missing.append("repository")
    return missing


def build(kind: type[Entry], base: Entry | None, values: Mapping[str, Any]) -> Entry:
    """Make the checked entry: `base` with the fields `values` changed, or a new one.

    Raises InputError, in one line.
    """
    try:
        if base is None:
            return kind(**values)
        return dataclasses.replace(base, **values)  # type: ignore[type-var]
    except ValidationError as error:
        # Once each: a list of three wrong values breaks one rule.
        problems = dict.fromkeys(_problem(kind, details, values) for details in error.errors())
        where = f"{kind.__name__.lower()} {values['name']!r}"
        raise InputError(f"{where}: {'; '.join(problems)}") from None


def _default(field: dataclasses.Field) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _problem(kind: Any, error: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Describe an error by the whole value of its field."""
    if not error["loc"]:  # fields that do not fit together
        return describe(error)
    key = error["loc"][0]
    expected = error.get("ctx", {}).get("expected", "a text")
    rules = [of for of in kind.__pydantic_fields__[key].metadata if isinstance(of, Rule)]
    rule = rules[-1].text if rules else expected
    return describe({**error, "loc": (key,), "input": values[key]}, rule)
