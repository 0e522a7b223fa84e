"""Decide whether text on a stream is coloured, and colour short texts.

The rules are those of Python itself: NO_COLOR, then FORCE_COLOR, then TERM=dumb, then whether the
stream is a terminal.
"""

from __future__ import annotations

import os
from typing import TextIO

FAILED = "bold red"
WARNING = "yellow"
SIGNIFICANT = "bold cyan"
DIM = "dim"


def has_colour(stream: TextIO) -> bool:
    """Tell whether text that is written to a stream may be coloured, or bold or dim."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def colour_system(stream: TextIO) -> str | None:
    """Return the colours that a console of rich has on a stream: the eight of every terminal."""
    return "standard" if has_colour(stream) else None


def painted(text: str, style: str, stream: TextIO) -> str:
    """Put a text into a style, where the stream has colours."""
    if not has_colour(stream):
        return text
    from rich.style import Style  # most commands never need it

    return Style.parse(style).render(text)
