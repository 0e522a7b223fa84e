"""Tell what stands around the marks of a text: blanks, line breaks, quotation marks, code.

A text may hold thousands of marks on one line. So blanks, line breaks, fences and backticks are found once for a whole
text, and no question about a mark reads the text around the mark again.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from pipeline.traces.marks import OPENING_MARK, Mark

_FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
_RUN = re.compile("`+")
_QUOTES = "\"'“”‘’"


class Surroundings:
    """What stands around the marks of a text, which are asked for in order.

    A `start` is where the text begins that counts for a mark: the end of the previous trace.
    """

    def __init__(self, text: str, marks: Sequence[Mark]) -> None:
        self._text = text
        self._before = _before(text, marks)
        self._next_break = _Next(text, "\n")
        fenced = "```" in text or "~~~" in text
        self._fences = [found.start() for found in _FENCE.finditer(text)] if fenced else []
        self._ticks = _Ticks(text)
        self._in_blocks: dict[tuple[int, str], bool] = {}

    def only_blanks(self, start: int, mark: Mark) -> bool:
        """Tell whether there is nothing but blanks and line breaks between `start` and a mark."""
        return self._before[mark.start][0] < start

    def begins_line(self, start: int, mark: Mark) -> bool:
        """Tell whether a mark begins a line of the text from `start` on."""
        return self.only_blanks(self._line_start(start, mark), mark)

    def is_code(self, start: int, mark: Mark) -> bool:
        """Tell whether the mark is in quotation marks, between backticks or in a fenced block from `start` on."""
        text = self._text
        around = text[max(mark.start - 1, 0) : mark.start] + text[mark.end : mark.end + 1]
        if len(around) == 2 and all(character in _QUOTES for character in around):
            return True
        line, end = self._line_start(start, mark), self._line_end(mark)
        return self._ticks.surround(mark.start, line, end) or self._is_in_block(start, mark, line, end)

    def _line_start(self, start: int, mark: Mark) -> int:
        return max(start, self._before[mark.start][1] + 1)

    def _line_end(self, mark: Mark) -> int:
        return self._next_break.behind(mark.end)

    def _is_in_block(self, start: int, mark: Mark, line: int, end: int) -> bool:
        """Tell whether the mark, in the line from `line` to `end`, is in a fenced block.

        A closing mark alone on its line, in a block without its opening mark, is real: the fence before it was left
        open inside a trace without an opening mark, and the fence after it begins a block of the solution.
        """
        before = bisect_left(self._fences, mark.start)
        is_open = (before - bisect_left(self._fences, start)) % 2 == 1
        if not is_open or before == len(self._fences):
            return False
        alone = (
            mark.name in OPENING_MARK
            and self.only_blanks(line, mark)
            and not self._text[mark.end : end].strip()
            and "".join(self._text[mark.start : mark.end].lower().split()) == mark.name
        )
        return not alone or self._holds(before - 1, OPENING_MARK[mark.name])

    def _holds(self, fence: int, name: str) -> bool:
        """Tell whether the block from a fence to the next one holds the mark of that name."""
        if (fence, name) not in self._in_blocks:
            block = self._text[self._fences[fence] : self._fences[fence + 1]].lower()
            self._in_blocks[fence, name] = name in block
        return self._in_blocks[fence, name]


def _before(text: str, marks: Sequence[Mark]) -> dict[int, tuple[int, int]]:
    """Find, before each mark's start, the last character that is no blank and the last line break; -1 for none."""
    found: dict[int, tuple[int, int]] = {}
    solid = line_break = -1
    seen = 0
    for mark in marks:
        between = text[seen : mark.start].rstrip()
        solid = seen + len(between) - 1 if between else solid
        line_break = max(line_break, text.rfind("\n", seen, mark.start))
        seen = mark.start
        found[mark.start] = solid, line_break
    return found


class _Next:
    """Finds the next occurrence of a character behind places that mostly increase."""

    def __init__(self, text: str, character: str) -> None:
        self._text, self._character = text, character
        self._looked, self._found = 1, 0  # from where it was looked for last, and where it is

    def behind(self, place: int) -> int:
        """Return where the next one is; the length of the text where there is none."""
        if not self._looked <= place <= self._found:
            found = self._text.find(self._character, place)
            self._looked, self._found = place, found if found >= 0 else len(self._text)
        return self._found


class _Ticks:
    """Finds pairs of backtick runs (`a`, ``b``) around places that are asked for in order.

    A run pairs with the next run of its line. Of a longer run the ticks that are left over pair again.
    """

    def __init__(self, text: str) -> None:
        self._text, self._next = text, _Next(text, "`")
        self._line, self._counted = -1, 0
        self._left = 0  # ticks of the line, up to the place asked for last, that have no partner yet

    def surround(self, place: int, line: int, end: int) -> bool:
        """Tell whether a place in the line from `line` to `end` is between the runs of a pair."""
        if line != self._line:
            self._line, self._counted, self._left = line, line, 0
        for run in _RUN.finditer(self._text, self._counted, place):
            self._left = len(run[0]) - min(self._left, len(run[0]))
        self._counted = place
        return self._left > 0 and self._next.behind(place) < end
