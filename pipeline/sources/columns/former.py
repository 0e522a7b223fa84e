"""Translate column expressions of earlier versions, a small language of our own, to SQL: for the error message."""

from __future__ import annotations

import re
from typing import Any

_LITERAL = re.compile(r"'(?:[^']|'')*'")
_TEMPLATE = re.compile(r"\{\s*([A-Za-z_][^{}]*)\}")
_PATH = r"[A-Za-z_][\w.]*(?:\[-?\d+\][\w.]*)*"
_FORMS = (
    (re.compile(r'\bafter\(([^,]+),\s*"([^"]*)"\)'), r"after(\1, '\2')"),
    (re.compile(r"\blast\((.*)\)$", re.DOTALL), r"lines(\1)[-1]"),
    (re.compile(r"\bchoice\((.*?)(?:\[\*\])?,\s*([^)]*)\)"), r"\1[\2::int + 1]"),
    (re.compile(r'(?<![\w":/])([A-Za-z_]\w*(?:/[A-Za-z_]\w*)+)'), r'"\1"'),
    (re.compile(rf"({_PATH})\[\*\]((?:\.\w+)*)"), r"unnest(\1)\2"),
    (re.compile(r"([A-Za-z_]\w*)\[(\d+)\]"), lambda found: f"list_extract({found[1]}, {int(found[2]) + 1})"),
    (
        re.compile(r"[^\s|(),]+(?:\s*(?<!\|)\|(?!\|)\s*[^\s|(),]+)+"),
        lambda found: f"coalesce({', '.join(part.strip() for part in found[0].split('|'))})",
    ),
)


def sql_form(text: Any) -> str | None:
    """Return the SQL of an expression in the former language; None for other expressions.

    A position in a list is one of them: positions counted from 0, in SQL they count from 1.
    """
    if isinstance(text, list | tuple):
        return f"concat_ws(' ', {', '.join(map(_column, text))})"
    if not isinstance(text, str):
        return None
    literals: list[str] = []

    def hide(found: re.Match[str]) -> str:
        literals.append(found[0])
        return f"\0{len(literals) - 1}\0"

    hidden = _LITERAL.sub(hide, text)
    if _TEMPLATE.search(hidden):
        parts = _TEMPLATE.split(text)
        return "concat(" + ", ".join(_column(p) if i % 2 else _quoted(p) for i, p in enumerate(parts) if p) + ")"
    form = hidden
    for pattern, replacement in _FORMS:
        form = pattern.sub(replacement, form)
    return re.sub("\0(\\d+)\0", lambda found: literals[int(found[1])], form) if form != hidden else None


def _column(text: Any) -> str:
    return sql_form(str(text)) or str(text).strip()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
