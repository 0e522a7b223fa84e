"""Find boxed answers, and lists that are written as texts: the functions of columns that SQL does not have."""

from __future__ import annotations

import ast
import json
import re

_BRACE = re.compile(r"[{}]|\\.", re.DOTALL)  # what a backslash stands before is no brace


def as_list(text: str) -> list[str]:
    """Convert a text to a list of texts: a list as JSON or Python writes it, without its empty elements, or the text.

    Other text stays itself: "['a', 'b']" gives two elements, "a" one, "" none.
    """
    found: object = text
    if text.strip().startswith("["):
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(text.strip())
                break
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue  # not this notation: the text itself may be meant
    values = found if isinstance(found, list) else [text]
    return [str(value) for value in values if value not in (None, "")]


def last_boxed(text: str) -> str:
    r"""Return the content of the last \boxed{...} or \fbox{...} with balanced braces, trimmed; "\boxed 5" counts too.

    Example: r"so \boxed{1} or \boxed{\frac{1}{2}}" gives r"\frac{1}{2}".
    """
    end = len(text)
    while (start := max(text.rfind("\\boxed", 0, end), text.rfind("\\fbox", 0, end))) >= 0:
        opening = start + (6 if text.startswith("\\boxed", start) else 5)
        depth = 0
        if text.startswith("{", opening):
            for brace in _BRACE.finditer(text, opening):
                depth += {"{": 1, "}": -1}.get(brace[0], 0)
                if depth == 0:
                    return text[opening + 1 : brace.start()].strip()
        elif bare := re.compile(r"\s+([^\s${}\\]+)").match(text, opening):
            return bare[1].rstrip(".,;")
        end = start
    return ""
