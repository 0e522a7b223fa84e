r"""Strip the reasoning traces from one response and keep the worked solution.

The paper trains without traces ("we aim for latent reasoning instead"). Public sets mark them in several ways, and mix
them:

    paired     <think> ... </think> solution, also with other names (see `marks`); "several" when there is more than one
    thought    <|begin_of_thought|> ... <|end_of_thought|> <|begin_of_solution|> solution <|end_of_solution|>
    closing    reasoning ... </think> solution: the opening mark belonged to the prompt
    unclosed   a trace without an end, because generation was cut off: dropped
    none       no marks: the response stays as it is

An opening mark starts a trace, which ends at the next closing mark of its kind. A closing mark alone ends a trace that
began where the previous trace ended, or at the start. Common words (`LEADING`) are marks only of a closed trace that
begins the response and leaves a solution.

Which marks are real, and which are mentions:

* In code (backticks, fenced blocks) and in quotation marks: a mention.
* At the response's start, closed, or of a source that declares traces: real, whatever the question says.
* After a real trace, solution marks are real.
* Of a kind that the question mentions: real where a pair begins a line, else a mention. A question that ends with an
  opening mark means that the response begins inside the trace.
* Within a sentence ("the tag <think> is used") before any real mark, or without its partner inside a line: a mention.
* Words such as <reasoning>, which prose and code use too: real only after a trace at the response's start.

The rest stays byte for byte, except white space: none at the ends, and a blank line in place of a trace (a space within
a line). <answer> ... </answer> around everything that follows a trace is removed too.

Example: "<think>1 + 1?</think>\n\nIt is 2." becomes "It is 2.", kind "paired".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pipeline.traces.marks import (
    CLOSING_MARK,
    LEADING_TRACE,
    OPENING_MARK,
    WRAPPING,
    Mark,
    find_marks,
    is_spoken_of,
    is_word,
    kind_of,
    mentioned_kinds,
)
from pipeline.traces.surroundings import Surroundings

NONE, PAIRED, SEVERAL, THOUGHT, CLOSING, UNCLOSED = "none", "paired", "several", "thought", "closing", "unclosed"
DECLARED = (PAIRED, THOUGHT, CLOSING)  # what a source's `trace` says of traces that are marked
_ANSWER = re.compile(r"<answer[ \t]*>((?:(?!</?answer\b).)*)</answer[ \t]*>", re.IGNORECASE | re.DOTALL)


class Stripped(NamedTuple):
    """A response without its traces, and the kind of their marks. The text of an unclosed trace is empty."""

    text: str
    kind: str


@dataclass(frozen=True)
class _Reading:
    """A response with its marks, and what decides whether a mark is real."""

    response: str
    question: str
    declared: bool
    marks: list[Mark]

    @cached_property
    def mentioned(self) -> set[str]:
        return mentioned_kinds(self.question)

    @cached_property
    def around(self) -> Surroundings:
        return Surroundings(self.response, self.marks)

    @cached_property
    def closing(self) -> dict[str, list[Mark]]:
        """The closing marks by name, in order."""
        found: dict[str, list[Mark]] = {}
        for mark in self.marks:
            if mark.name in OPENING_MARK:
                found.setdefault(mark.name, []).append(mark)
        return found

    @cached_property
    def closing_starts(self) -> set[int]:
        return {mark.start for mark in self.marks if mark.name in OPENING_MARK}

    def partner(self, mark: Mark) -> Mark | None:
        """Return the next closing mark of the kind of an opening mark."""
        closing = self.closing.get(CLOSING_MARK[mark.name], [])
        place = bisect_left(closing, (mark.end,))
        return closing[place] if place < len(closing) else None

    def opens(self, mark: Mark, end: int) -> bool:
        """Tell whether an opening mark is real; `end` is where the previous real mark ended, 0 without one."""
        closed, line = self.partner(mark) is not None, self.around.begins_line(end, mark)
        if self.around.only_blanks(end, mark) and (closed or not end):
            return True
        if self.declared:
            return closed or not is_spoken_of(self.response, mark)
        if kind_of(mark.name) in self.mentioned:
            return closed and line
        if end > 0 or is_word(mark):
            return end > 0 and (closed or line)
        return not is_spoken_of(self.response, mark) if closed else line

    def closes(self, mark: Mark, end: int) -> bool:
        """Tell whether a closing mark without an opening mark is real."""
        if self.declared:
            return True
        mention = kind_of(mark.name) in self.mentioned or is_spoken_of(self.response, mark)
        return not mention and (end > 0 or not is_word(mark))

    def wraps(self, mark: Mark, end: int) -> bool:
        """Tell whether a mark around a solution is real."""
        # "<|start|>assistant" before a trace's closing mark belongs to that mark.
        if mark.end in self.closing_starts:
            return False
        first = end > 0 or self.around.only_blanks(0, mark)
        return self.declared or first or kind_of(mark.name) not in self.mentioned


def strip_trace(response: str, question: str = "", marking: str = NONE) -> Stripped:
    """Strip the reasoning traces from one response, by the rules above; `marking` is the `trace` of its source."""
    marks = find_marks(response)
    reading = _Reading(response, question, marking in DECLARED, marks)
    kept: list[tuple[int, int]] = []  # ranges of the response
    traces: list[str] = []  # the kind of each trace so far
    end = 0  # of the previous trace or wrapping mark
    leading = LEADING_TRACE.match(response)
    if leading:
        end = leading.end()
        traces.append(PAIRED)
    first_end = end  # of the first trace
    for mark in marks:
        if mark.start < end or reading.around.is_code(end, mark):
            continue
        if mark.name in WRAPPING:
            if reading.wraps(mark, end):
                kept.append((end, mark.start))
                end = mark.end
        elif mark.name in CLOSING_MARK:
            if not reading.opens(mark, end):
                continue
            close = reading.partner(mark)
            if not close:
                return Stripped("", UNCLOSED)
            kept.append((end, mark.start))
            end = close.end
            traces.append(THOUGHT if mark.name in ("<|begin_of_thought|>", "<begin_of_thought>") else PAIRED)
        elif reading.closes(mark, end):
            end = mark.end
            traces.append(CLOSING)
        first_end = first_end or (end if traces else 0)
    if not end:
        return Stripped(response, NONE)
    kept.append((end, len(response)))
    text = _join(response, kept)
    begins = next((start for start, stop in kept if response[start:stop].strip()), 0)
    answer = _ANSWER.fullmatch(text) if first_end and begins >= first_end else None
    return Stripped(answer[1].strip() if answer else text, _kind(traces))


def _kind(traces: list[str]) -> str:
    if THOUGHT in traces or not traces:
        return THOUGHT
    if PAIRED not in traces:
        return CLOSING
    return SEVERAL if len(traces) > 1 else PAIRED


def _join(response: str, kept: list[tuple[int, int]]) -> str:
    """Join the kept ranges, trimmed: by a blank line where the gap has a line break, else by a space."""
    text = ""
    before = 0
    for start, end in kept:
        part = response[start:end]
        if not part.strip():
            continue
        lead = start + len(part) - len(part.lstrip())
        gap = response[before:lead]
        text += (("\n\n" if "\n" in gap else " ") if text else "") + part.strip()
        before = start + len(part.rstrip())
    return text
