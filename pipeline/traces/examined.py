"""What was found in one response: its text without traces, and the kind of its traces."""

from __future__ import annotations

from typing import NamedTuple

# The kinds of a response's traces.
NONE = "none"
STRIPPED = "stripped"
UNCLOSED = "unclosed"
UNMARKED = "unmarked"
# What a source's `trace` says of traces that are marked.
DECLARED = ("paired", "thought", "closing")


class Stripped(NamedTuple):
    """A response without its traces, and whether it had any.

    The text of an unclosed trace is empty.
    """

    text: str
    kind: str


class Examined(NamedTuple):
    """A stripped response, and the first mark or mention that stays in the text, or ""."""

    text: str
    kind: str
    left: str
