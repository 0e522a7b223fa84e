"""Find the marks of reasoning traces and solutions in a text, and tell marks from mentions of them."""

from __future__ import annotations

import re
from typing import NamedTuple

# Names of marks, <name> ... </name>, that are also words or names in code.
WORDS: tuple[str, ...] = (
    *("thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "chain_of_thought"),
    *("inner_thoughts", "inner_monologue", "thinking_process", "reasoning_process", "internal_thinking"),
)
# Opening and closing marks of traces in public sets. Case, and attributes or blanks before the final ">", are ignored.
MARKS: tuple[tuple[str, str], ...] = (
    *((f"<{name}>", f"</{name}>") for name in ("think", *WORDS, "seed:think", "longcat_think", "antthinking")),
    *((f"<|begin_of_{name}|>", f"<|end_of_{name}|>") for name in ("thought", "thinking", "reasoning")),
    ("<begin_of_thought>", "<end_of_thought>"),
    *((f"<|{name}_start|>", f"<|{name}_end|>") for name in ("think", "thinking")),
    *((f"<|{name}|>", f"<|/{name}|>") for name in ("think", "thinking")),
    ("<|start_thinking|>", "<|end_thinking|>"),
    ("<|im_start|>think", "<|im_start|>answer"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ("<unused94>thought", "<unused95>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
)
# Marks around a solution: only the marks are removed.
WRAPPING: tuple[str, ...] = (
    "<|begin_of_solution|>",
    "<|end_of_solution|>",
    "<begin_of_solution>",
    "<end_of_solution>",
    "<|start_response|>",
    "<|end_response|>",
    "<|start|>assistant",
    "<|return|>",
)
# Names of marks, <name> ... </name>, that count only for a closed trace at the beginning of the response.
LEADING: tuple[str, ...] = ("analysis", "reason", "cot", "rationale")

CLOSING_MARK = dict(MARKS)  # of each opening mark
OPENING_MARK = {close: opening for opening, close in MARKS}
_ALL = sorted((*CLOSING_MARK, *OPENING_MARK, *WRAPPING), key=len, reverse=True)
_WORDED = frozenset(mark for name in WORDS for mark in (f"<{name}>", f"</{name}>"))
_ATTRIBUTES = r"""(?:\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+))*[ \t]*"""


def _pattern(mark: str) -> str:
    return re.escape(mark[:-1]) + _ATTRIBUTES + ">" if mark.endswith(">") else re.escape(mark)


_LEADS = rf"\A\s*<({'|'.join(LEADING)})[ \t]*>"
LEADING_TRACE = re.compile(_LEADS + r".*?</\1[ \t]*>(?=\s*\S)", re.IGNORECASE | re.DOTALL)
ANY_MARK = "|".join((*map(_pattern, _ALL), _LEADS))  # for Arrow: which responses have a mark at all
# One expression for each first character: a literal start is what makes the search fast (500 MB/s against 50).
_MARK = {
    first: re.compile("|".join(_pattern(mark) for mark in _ALL if mark[0] == first), re.IGNORECASE)
    for first in dict.fromkeys(mark[0] for mark in _ALL)
}
_MENTIONED_AFTER = re.compile(r"[ \t]+\w|[.,;:?!)]+(\s|$)")


class Mark(NamedTuple):
    """A mark's place in a text, and its name in lower case without attributes."""

    start: int
    end: int
    name: str


def find_marks(text: str) -> list[Mark]:
    """List all marks of a text in order."""
    return sorted(
        Mark(found.start(), found.end(), _name(found[0]))
        for first, mark in _MARK.items()
        if first in text
        for found in mark.finditer(text)
    )


def _name(mark: str) -> str:
    first, *attributes = mark.lower().split()  # no name has a blank in it
    return first + ">" if attributes else first


def kind_of(mark: str) -> str:
    """Return the name of a mark's kind, equal for the opening and the closing mark."""
    return OPENING_MARK.get(mark, "solution" if mark in WRAPPING else mark)


def mentioned_kinds(question: str) -> set[str]:
    """Collect the kinds of marks that a question mentions; an opening mark at its very end starts the trace instead."""
    marks = find_marks(question)
    kinds = {kind_of(mark.name) for mark in marks}
    if marks and marks[-1].name in CLOSING_MARK and not question[marks[-1].end :].strip():
        return kinds - {kind_of(marks[-1].name)}
    return kinds


def is_word(mark: Mark) -> bool:
    """Tell whether a mark's name is a word, which prose, code and XML use too."""
    return mark.name in _WORDED


def is_spoken_of(text: str, mark: Mark) -> bool:
    """Tell whether a mark stands within a sentence, as in "the tag <think> is used": a blank before, prose after."""
    before = text[max(mark.start - 2, 0) : mark.start]
    within = len(before) == 2 and before[1] in " \t" and not before[0].isspace()
    return within and _MENTIONED_AFTER.match(text, mark.end) is not None
