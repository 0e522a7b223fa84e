"""Fold text at words to the width of a terminal, never inside a word or a command in backticks."""

from __future__ import annotations

import os
import re
import shutil
from textwrap import wrap
from typing import TextIO

NO_BREAK = "\N{NO-BREAK SPACE}"
WIDEST = 100  # columns: longer lines are hard to read
NARROWEST = 40
_KEPT = re.compile(r"`[^`\n]*`| %")  # a command to copy, and a number with its per cent


def reading_width() -> int:
    """Return the columns in which text is read here: those of the terminal, 80 where none is."""
    columns = shutil.get_terminal_size().columns
    return min(max(columns, NARROWEST), WIDEST)


def width_of(stream: TextIO) -> int | None:
    """Return the columns to which lines on a stream are folded; None for those of a pipe.

    In a pipe a line stays whole, as programs read the line, unless COLUMNS names a width.
    """
    if stream.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return reading_width()
    return None


def fold(text: str, width: int | None, indent: str = "") -> str:
    """Fold each line of a text that is wider than `width`; what follows a break is indented.

    >>> print(fold("run `dreamer run demo` again", 20, "  "))
    run
      `dreamer run demo`
      again
    """
    if width is None:
        return text
    return "\n".join(_fold_line(line, width, indent) for line in text.split("\n"))


def _fold_line(line: str, width: int, indent: str) -> str:
    if len(line) <= width:
        return line
    kept_whole = _KEPT.sub(lambda part: _without_breaks(part[0], width - len(indent)), line)
    folded = wrap(
        kept_whole,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(folded).replace(NO_BREAK, " ")


def _without_breaks(text: str, width: int) -> str:
    """Let no line break within a text that fits a line."""
    return text.replace(" ", NO_BREAK) if len(text) <= width else text
