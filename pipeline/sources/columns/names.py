"""Choose the columns, and their fields, that expressions name.

A name that fits two columns is never decided by chance: SQL does not distinguish `Question` from
`question`, so of two such columns only the one that an expression spells exactly is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError

_LITERAL = re.compile(r"'(?:[^']|'')*'")
_EVERY = re.compile(r"\bcolumns\s*\(|(?:^|[(,])\s*\*", re.IGNORECASE)


def named_columns(texts: Iterable[str], schema: pa.Schema) -> pa.Schema:
    """Return the columns whose names occur in the expressions, and perhaps a few more.

    Raises InputError for a name that fits several columns, or several fields of one.
    """
    whole = " ".join(texts)
    words = _LITERAL.sub("''", whole)
    every = bool(_EVERY.search(whole))
    columns = []
    for variants in _by_lower_case(schema.names):
        if every or any(_occurs(name, words, re.IGNORECASE) for name in variants):
            column = schema.field(schema.names.index(_meant(variants, words, "columns")))
            columns.append(column.with_type(_with_meant_fields(column.type, whole)))
    if not columns and len(schema):
        columns = [schema.field(0)]  # rows are counted by it
    return pa.schema(columns)


def _by_lower_case(names: Sequence[str]) -> list[list[str]]:
    """Group the names that SQL does not distinguish."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.lower(), []).append(name)
    return list(groups.values())


def _meant(variants: Sequence[str], text: str, what: str) -> str:
    """Return the one name of `variants` that an expression means."""
    spelled = [name for name in variants if _occurs(name, text)]
    if len(variants) == 1:
        return variants[0]
    if len(spelled) == 1:
        return spelled[0]
    if len(set(variants)) < len(variants):
        name = next(name for name in variants if variants.count(name) > 1)
        raise InputError(f"{variants.count(name)} {what} are named {name!r}; rename one of them")
    raise InputError(
        f"the {what} {' and '.join(variants)} differ in case alone: spell one of them exactly, and"
        " in one way"
    )


def _with_meant_fields(kind: pa.DataType, text: str) -> pa.DataType:
    """Leave out the fields that differ in case alone from those that the expressions spell."""
    if pa.types.is_list(kind):
        return pa.list_(_with_meant_fields(kind.value_type, text))
    if not pa.types.is_struct(kind):
        return kind
    fields = []
    for variants in _by_lower_case([field.name for field in kind]):
        if len(variants) > 1 and not _occurs(variants[0], text, re.IGNORECASE):
            continue  # which no expression reads
        field = kind.field(_meant(variants, text, "fields"))
        fields.append(field.with_type(_with_meant_fields(field.type, text)))
    return pa.struct(fields)


def _occurs(name: str, text: str, flags: int = 0) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, flags))
