"""Find which part of a text is code: between fences, or between backticks of a line."""

from __future__ import annotations

import re

FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)


def in_backticks(text: str, start: int, end: int, begin: int = 0) -> bool:
    """Test whether a part of a text stands between backticks of its line, from `begin` on."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    behind = text[end : line_end if line_end >= 0 else len(text)]
    odd = text.count("`", max(line_start, begin), start) % 2 == 1
    return odd and "`" in behind
