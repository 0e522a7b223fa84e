"""Guess which columns of a data set are question and response, or its text, for a person to look
at."""

from __future__ import annotations

import re

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.sql import parse, quoted

# Names in public data sets, the most telling first; compared without case.
_NAMES = {
    "question": ("question", "problem", "prompt", "instruction", "query", "input", "body", "q"),
    "response": (
        "response",
        "solution",
        "completion",
        "generation",
        "output",
        "rationale",
        "answer",
        "r",
        "a",
    ),
    "text": ("text", "content", "document"),
}
_NO_TEXT = (
    r"(.*[_ ])?"
    r"(id|index|idx|nr|no|number|url|source|split|subject|topic|type|level|date|licen[cs]e)"
)
_TURNS = (("role", "content", "user", "assistant"), ("from", "value", "human", "gpt"))


def guess_columns(table: pa.Table) -> dict[str, str]:
    """Guess the columns of a source from rows: `question` and `response`, or `text`; nothing where
    no column fits.

    Turns of a conversation come first, then names, then what is longest: the two longest columns in
    their order.
    """
    for field in table.schema:
        turn = field.type.value_type if pa.types.is_list(field.type) else pa.null()
        for role, said, asks, responds in _TURNS if pa.types.is_struct(turn) else ():
            if {role, said} <= {part.name for part in turn}:
                form = (
                    f'list_filter({_expression(field.name)}, lambda m: m."{role}" ='
                    f" '%s')[%s].{said}"
                )
                return {"question": form % (asks, 1), "response": form % (responds, -1)}
    plain = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    known = {name.lower(): name for name in reversed(plain)}
    named = {
        kind: next((known[name] for name in names if name in known), "")
        for kind, names in _NAMES.items()
    }
    texts = [name for name in plain if not re.fullmatch(_NO_TEXT, name, re.IGNORECASE)]
    length = {name: sum(len(str(value)) for value in table[name].to_pylist()) for name in texts}
    longest = sorted(texts, key=lambda name: -length[name])[:2]
    if named["question"] and named["response"]:
        found = {"question": named["question"], "response": named["response"]}
    elif named["text"] or len(longest) == 1:
        found = {"text": named["text"] or longest[0]}
    else:
        found = dict(zip(("question", "response"), sorted(longest, key=texts.index), strict=False))
    return {kind: _expression(name) for kind, name in found.items()}


def _expression(name: str) -> str:
    """Write the name of a column as SQL: in quotes where it is no plain word."""
    try:
        return parse(name) if re.fullmatch(r"[A-Za-z_]\w*", name) else quoted(name)
    except InputError:
        return quoted(name)
