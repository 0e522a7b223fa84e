r"""Find the answer at the end of a response: in a box, or behind a mark such as "####"."""

from __future__ import annotations

import re

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_OPENING = re.compile(r"\s*\{")
_BARE = re.compile(r"\s+([^\s${}\\]+)")  # "\boxed 5"
_BRACE = re.compile(r"[{}]|\\.", re.DOTALL)  # an escaped brace, such as \{, is none
# What a template of chats writes behind a turn; DuckDB uses the expression too.
TEMPLATE = r"\s*(?:<[|｜][\w▁]{1,40}[|｜]>|</?s>|<eos>|<pad>|<end_of_turn>)"
_TEMPLATE = re.compile(TEMPLATE)


def last_boxed(text: str) -> str:
    r"""Return the content of the last \boxed{...} or \fbox{...}, trimmed; "" without one.

    Its braces must be balanced: where the last box has no end, no earlier one is the answer.
    "\boxed 5" counts too.
    Example: r"so \boxed{1} or \boxed{\frac{1}{2}}" gives r"\frac{1}{2}".
    """
    for mark in reversed([*_BOX.finditer(text)]):
        opening = _OPENING.match(text, mark.end())
        if opening:
            start = opening.end()
            closing = _closing_brace(text, start)
            return "" if closing is None else text[start:closing].strip()
        bare = _BARE.match(text, mark.end())
        if bare:
            return without_template(bare[1]).rstrip(".,;")
    return ""


def without_template(text: str) -> str:
    """Cut off what a template of chats writes behind a turn."""
    return _TEMPLATE.split(text, maxsplit=1)[0]


def _closing_brace(text: str, start: int) -> int | None:
    """Find where the brace is closed that was opened before `start`."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        if brace[0] == "{":
            depth += 1
        elif brace[0] == "}":
            depth -= 1
        if not depth:
            return brace.start()
    return None
