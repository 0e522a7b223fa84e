r"""Strip the reasoning traces from one response and keep the worked solution.

The paper trains without traces ("we aim for latent reasoning instead"). Public sets mark them in
several ways, and mix them:

    <think> ... </think> solution            also with other names, and several times
    reasoning ... </think> solution          the opening mark belonged to the prompt
    <|begin_of_thought|> ... <|end_of_thought|> <|begin_of_solution|> solution <|end_of_solution|>
    <think> ...                              a trace without an end, because generation was cut off
    <think> ... <answer>solution</answer>    a trace without an end, and a marked solution

Tags are found too with spaces or line breaks in them, or escaped for HTML: < think >,
&lt;think&gt;.

A closing mark ends a trace, which began at the first opening mark behind the closing mark before;
without one, it began at that closing mark, or at the response's start. Which mark opens and which
closes is all that counts, not their names. A mark between quotation marks or backticks is a
mention. Names that are words of prose and code (`WORDS`) are marks where one opens the response, or
where the source declares traces.

Example: "<think>1 + 1?</think>\n\nIt is 2." becomes "It is 2.".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

NONE, STRIPPED, UNCLOSED, UNMARKED = "none", "stripped", "unclosed", "unmarked"
# What a source's `trace` says of traces that are marked.
DECLARED = ("paired", "thought", "closing")

# Opening and closing marks of traces in public sets.
MARKS = (
    *(
        (f"<{name}>", f"</{name}>")
        for name in ("think", "seed:think", "longcat_think", "antthinking")
    ),
    *(
        (f"<|begin_of_{name}|>", f"<|end_of_{name}|>")
        for name in ("thought", "thinking", "reasoning")
    ),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
)
WORDS = tuple(
    (f"<{name}>", f"</{name}>")
    for name in ("thinking", "thought", "reasoning", "reflection", "scratchpad")
)
# Marks around a solution: only the marks are removed.
SOLUTIONS = (
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<answer>", "</answer>"),
)
_NAMES = "|".join(
    opening[1:-1] for opening, closing in (*MARKS, *WORDS, *SOLUTIONS) if closing.startswith("</")
)
_SPACED = re.compile(rf"<(?:\s+(?:/\s*)?|/\s+)(?:{_NAMES})\s*>|</?(?:{_NAMES})\s+>")
_ESCAPED = re.compile(rf"&lt;(\s*(?:/\s*)?(?:{_NAMES})\s*)&gt;")


def _any_of(marks: Iterable[str]) -> re.Pattern[str]:
    """Compile a search for marks that are not quoted.

    Each alternative begins with a literal, which makes the search fast.
    """
    quote = "[`\"']"
    alternatives = []
    for mark in map(re.escape, marks):
        alternatives.append(rf"{mark}(?:(?!{quote})|(?<!{quote}{mark}))")
    return re.compile("|".join(alternatives))


def _opening_and_closing(
    marks: Iterable[tuple[str, str]],
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    openings, closings = zip(*marks, strict=True)
    return _any_of(openings), _any_of(closings)


_WRAPPING = _any_of([*chain.from_iterable(SOLUTIONS), "<|start|>assistant", "<|return|>"])
_SURE = _opening_and_closing(MARKS)
_ALL = _opening_and_closing(MARKS + WORDS)
_FIRST_WORDS = tuple(opening for opening, _ in WORDS)


class Stripped(NamedTuple):
    """A response without its traces, and whether it had any.

    The text of an unclosed trace is empty.
    """

    text: str
    kind: str


def strip_trace(response: str, marking: str = "none") -> Stripped:
    """Strip the reasoning traces from one response; `marking` is the `trace` of its source.

    The parts that are left are trimmed and joined by blank lines, without the marks around a
    solution. Of a trace without an end only a marked solution in it is left. A response without
    marks stays as it is.
    """
    text = _ESCAPED.sub(r"<\1>", response) if "&lt;" in response else response
    text = _SPACED.sub(lambda tag: "".join(tag[0].split()), text)
    worded = marking in DECLARED or text.lstrip().startswith(_FIRST_WORDS)
    opening, closing = _ALL if worded else _SURE
    *traced, rest = closing.split(text)
    if opening.search(rest):
        solution = _marked_solution(opening.split(rest, maxsplit=1)[1])
        return Stripped(solution, STRIPPED if solution else UNCLOSED)
    if not traced and not _WRAPPING.search(rest):
        return Stripped(response, NONE)
    kept = []
    for part in traced:  # what ends with a closing mark: text before an opening mark stays
        before, *trace = opening.split(part, maxsplit=1)
        if trace:
            kept.append(before)
    kept.append(rest)
    return Stripped("\n\n".join(filter(None, map(_unwrapped, kept))), STRIPPED)


def _marked_solution(trace: str) -> str:
    """Return the last marked solution in a trace without an end, or "".

    A solution has both of its marks.
    """
    for opening, closing in SOLUTIONS:
        before, end, _ = trace.rpartition(closing)
        _, start, solution = before.rpartition(opening)
        if end and start and _unwrapped(solution):
            return _unwrapped(solution)
    return ""


def _unwrapped(text: str) -> str:
    return _WRAPPING.sub("", text).strip()
