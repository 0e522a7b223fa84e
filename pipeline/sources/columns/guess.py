"""Guess which columns of a data set are question and response, or its text.

A person looks at the guess (`dreamer new`); no source is read by one.
"""

from __future__ import annotations

import re

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.sql import parse, quoted

# Names in public data sets, the most telling first; compared without case.
_QUESTIONS = ("question", "problem", "prompt", "instruction", "query", "input", "body", "q")
_RESPONSES = (
    "response",
    "solution",
    "completion",
    "generation",
    "output",
    "rationale",
    "answer",
    "r",
    "a",
)
_TEXTS = ("text", "content", "document")
_NO_TEXT = (
    r"(.*[_ ])?"
    r"(id|index|idx|nr|no|number|url|source|split|subject|topic|type|level|date|licen[cs]e)"
)
# Fields of a turn (who says it, what is said), and the roles of the user and of the model.
_TURNS = (("role", "content", "user", "assistant"), ("from", "value", "human", "gpt"))


def guess_columns(table: pa.Table) -> dict[str, str]:
    """Guess the columns of a source from rows: `question` and `response`, or `text`.

    Turns of a conversation come first, then names, then what is longest: the two longest columns in
    their order. Nothing where no column fits.
    """
    for field in table.schema:
        turns = _turns_of(field)
        if turns:
            return turns
    plain = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    question = _first_named(plain, _QUESTIONS)
    response = _first_named(plain, _RESPONSES)
    text = _first_named(plain, _TEXTS)
    texts = [name for name in plain if not re.fullmatch(_NO_TEXT, name, re.IGNORECASE)]
    longest = _two_longest(table, texts)
    if question and response:
        columns = {"question": question, "response": response}
    elif text or len(longest) == 1:
        columns = {"text": text or longest[0]}
    else:
        in_order = sorted(longest, key=texts.index)
        columns = dict(zip(("question", "response"), in_order, strict=False))
    return {kind: _expression(name) for kind, name in columns.items()}


def _turns_of(field: pa.Field) -> dict[str, str]:
    """Take question and response from a column of conversations; {} for any other column."""
    if not pa.types.is_list(field.type) or not pa.types.is_struct(field.type.value_type):
        return {}
    names = {part.name for part in field.type.value_type}
    for role, said, asks, responds in _TURNS:
        if {role, said} <= names:
            turns = _expression(field.name)
            form = f"list_filter({turns}, lambda m: m.\"{role}\" = '%s')[%s].{said}"
            return {"question": form % (asks, 1), "response": form % (responds, -1)}
    return {}


def _first_named(columns: list[str], names: tuple[str, ...]) -> str:
    """Return the column with the first of the names, whatever its case, or ""."""
    by_name = {column.lower(): column for column in reversed(columns)}
    for name in names:
        if name in by_name:
            return by_name[name]
    return ""


def _two_longest(table: pa.Table, columns: list[str]) -> list[str]:
    length = {name: sum(len(str(value)) for value in table[name].to_pylist()) for name in columns}
    return sorted(columns, key=lambda name: -length[name])[:2]


def _expression(name: str) -> str:
    """Write the name of a column as SQL: in quotes where it is no plain word."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return quoted(name)
    try:
        return parse(name)
    except InputError:  # a word of SQL, such as "order"
        return quoted(name)
