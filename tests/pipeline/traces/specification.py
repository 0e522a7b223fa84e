"""Stripping of one response in its plain form, which reads the text around every mark again: the rules, but slow."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
from pipeline.traces.strip import CLOSING, DECLARED, NONE, PAIRED, SEVERAL, THOUGHT, UNCLOSED

_ANSWER = re.compile(r"<answer[ \t]*>((?:(?!</?answer\b).)*)</answer[ \t]*>", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
_TICKS = re.compile(r"(`+)[^`]+\1")
_QUOTES = "\"'“”‘’"


@dataclass(frozen=True)
class _Reading:
    """A response with its marks, and what decides whether a mark is real."""

    response: str
    question: str
    declared: bool
    marks: list[Mark]

    @property
    def mentioned(self) -> set[str]:
        return mentioned_kinds(self.question)

    def partner(self, mark: Mark) -> Mark | None:
        """Return the next closing mark of the kind of an opening mark."""
        closing = CLOSING_MARK[mark.name]
        return next((other for other in self.marks if other.start >= mark.end and other.name == closing), None)

    def opens(self, mark: Mark, end: int) -> bool:
        """Tell whether an opening mark is real; `end` is where the previous real mark ended, 0 without one."""
        closed, line = self.partner(mark) is not None, begins_line(self.response, end, mark)
        if not self.response[end : mark.start].strip() and (closed or not end):
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
        if any(other.start == mark.end and other.name in OPENING_MARK for other in self.marks):
            return False
        first = end > 0 or not self.response[: mark.start].strip()
        return self.declared or first or kind_of(mark.name) not in self.mentioned


def strip_trace(response: str, question: str = "", marking: str = NONE) -> tuple[str, str]:
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
        if mark.start < end or is_code(response, end, mark):
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
                return ("", UNCLOSED)
            kept.append((end, mark.start))
            end = close.end
            traces.append(THOUGHT if mark.name in ("<|begin_of_thought|>", "<begin_of_thought>") else PAIRED)
        elif reading.closes(mark, end):
            end = mark.end
            traces.append(CLOSING)
        first_end = first_end or (end if traces else 0)
    if not end:
        return (response, NONE)
    kept.append((end, len(response)))
    text = _join(response, kept)
    begins = next((start for start, stop in kept if response[start:stop].strip()), 0)
    answer = _ANSWER.fullmatch(text) if first_end and begins >= first_end else None
    return (answer[1].strip() if answer else text, _kind(traces))


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


def begins_line(text: str, start: int, mark: Mark) -> bool:
    """Tell whether a mark begins a line of the text from `start` on."""
    return not text[start : mark.start].rpartition("\n")[2].strip()


def is_code(response: str, start: int, mark: Mark) -> bool:
    """Tell whether the mark is in quotation marks, between backticks or in a fenced block of the text from `start` on.

    A closing mark alone on its line, in a block without its opening mark, is real: the fence before it was left open
    inside a trace without an opening mark, and the fence after it begins a block of the solution.
    """
    around = response[max(mark.start - 1, 0) : mark.start] + response[mark.end : mark.end + 1]
    if len(around) == 2 and all(character in _QUOTES for character in around):
        return True
    line_start = response.rfind("\n", start, mark.start) + 1 or start
    line_end = response.find("\n", mark.end)
    line = response[line_start : line_end if line_end >= 0 else len(response)]
    place = mark.start - line_start
    if any(code.start() < place < code.end() for code in _TICKS.finditer(line)):
        return True
    opened: int | None = None
    if "```" not in response and "~~~" not in response:
        return False
    for fence in _FENCE.finditer(response, start):
        if opened is None:
            if fence.start() > mark.start:
                return False
            opened = fence.start()
        elif fence.start() < mark.start:
            opened = None
        else:
            alone = mark.name in OPENING_MARK and "".join(line.lower().split()) == mark.name
            return not (alone and OPENING_MARK[mark.name] not in response[opened : fence.start()].lower())
    return False
