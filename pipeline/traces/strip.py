r"""Strip the reasoning traces from one response and keep the worked solution.

The paper trains without traces ("we aim for latent reasoning instead"). Public sets mark them in several ways, and mix
them:

    <think> ... </think> solution            also with other names, and several times
    reasoning ... </think> solution          the opening mark belonged to the prompt
    <|begin_of_thought|> ... <|end_of_thought|> <|begin_of_solution|> solution <|end_of_solution|>
    <think> ...                              a trace without an end, because generation was cut off

A closing mark ends a trace, which began at the first opening mark behind the closing mark before; without one, it
began at that closing mark, or at the response's start. Which mark opens and which closes is all that counts, not their
names. A mark between quotation marks or backticks is a mention. Names that are words of prose and code (`WORDS`) are
marks where one opens the response, or where the source declares traces.

Example: "<think>1 + 1?</think>\n\nIt is 2." becomes "It is 2.".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

NONE, STRIPPED, UNCLOSED = "none", "stripped", "unclosed"
DECLARED = ("paired", "thought", "closing")  # what a source's `trace` says of traces that are marked

# Opening and closing marks of traces in public sets.
MARKS = (
    *((f"<{name}>", f"</{name}>") for name in ("think", "seed:think", "longcat_think", "antthinking")),
    *((f"<|begin_of_{name}|>", f"<|end_of_{name}|>") for name in ("thought", "thinking", "reasoning")),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
)
WORDS = tuple((f"<{name}>", f"</{name}>") for name in ("thinking", "thought", "reasoning", "reflection", "scratchpad"))
# Marks around a solution: only the marks are removed.
WRAPPING = (
    *("<|begin_of_solution|>", "<|end_of_solution|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    *("<|start|>assistant", "<|return|>"),
)
_ANSWER = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>", re.DOTALL)


def _any_of(marks: Iterable[str]) -> re.Pattern[str]:
    """Compile a search for marks that are not quoted; each begins with a literal, which makes the search fast."""
    quote = "[`\"']"
    return re.compile("|".join(rf"{mark}(?:(?!{quote})|(?<!{quote}{mark}))" for mark in map(re.escape, marks)))


_WRAPPING = _any_of(WRAPPING)
_SURE, _ALL = (tuple(map(_any_of, zip(*marks, strict=True))) for marks in (MARKS, MARKS + WORDS))
_FIRST_WORDS = tuple(opening for opening, _ in WORDS)


class Stripped(NamedTuple):
    """A response without its traces (the text of an unclosed trace is empty), and whether it had any."""

    text: str
    kind: str


def strip_trace(response: str, marking: str = "none") -> Stripped:
    """Strip the reasoning traces from one response; `marking` is the `trace` of its source.

    The parts that are left are trimmed and joined by blank lines. <answer> ... </answer> around all that follows a
    trace is removed too. A response without marks stays as it is.
    """
    worded = marking in DECLARED or response.lstrip().startswith(_FIRST_WORDS)
    opening, closing = _ALL if worded else _SURE
    *traced, rest = closing.split(response)
    if opening.search(rest):
        return Stripped("", UNCLOSED)
    if not traced and not _WRAPPING.search(rest):
        return Stripped(response, NONE)
    before = [opening.split(part, maxsplit=1) for part in traced]
    kept = [*(part[0] for part in before if len(part) == 2), rest]
    text = "\n\n".join(filter(None, (_WRAPPING.sub("", part).strip() for part in kept)))
    answer = _ANSWER.fullmatch(text) if traced else None
    return Stripped(answer[1].strip() if answer else text, STRIPPED)
