"""Walk through the marks of one response: what they enclose, and which only mention a mark."""

from __future__ import annotations

import re
from bisect import bisect_left

from dreamer_study.pipeline.traces.code_parts import FENCE, in_backticks
from dreamer_study.pipeline.traces.examined import DECLARED, NONE, STRIPPED, Examined
from dreamer_study.pipeline.traces.marks import (
    CLOSING,
    OPENING,
    PAIRED,
    SOLUTION,
    SOLUTION_END,
    TURN,
    UNKNOWN,
    Mark,
    is_quoted,
)

LONGEST_MENTION = 80  # characters between two marks that a sentence mentions
_OF_PAGES = ("details", "fence")  # forms whose closing marks mean something else outside of traces
# Words of thinking aloud. A text with none of them is a solution, though a closing mark ends it.
_HESITATION = r"okay|ok|wait|hmm+|hold on|alternatively|maybe|let me|let's"
_HESITATES = re.compile(rf"\b(?:{_HESITATION})\b", re.IGNORECASE)
_ALOUD = re.compile(rf"\b(?:{_HESITATION}|i(?:'m|'ll| \w+))\b", re.IGNORECASE)


class Walk:
    """Walks from mark to mark: `kept` are the parts outside of traces, `traces` the spans inside.

    `left` is the first mention that stays. `is_open` says whether the last trace has no end,
    `is_unmarked` whether nothing was found to remove.
    """

    def __init__(self, text: str, marks: list[Mark], marking: str) -> None:
        self.text = text
        self.marks = marks
        self.marking = marking
        self.kept: list[str] = []
        self.traces: list[tuple[int, int]] = []
        self.left = ""
        self.is_open = False
        self.is_unmarked = True
        self._opened = False
        self._unended: Mark | None = None  # the opening mark of the last trace, if that has no end
        self._depth = 0  # of traces of one form inside each other
        self._pieces: list[str] = []  # of the part that is read now
        self._mention = ""  # the first in that part
        self._begin = 0  # of that part
        self._read = 0  # up to here the text is in `_pieces`, or dropped
        self._passed = 0  # up to here marks are those of a mention
        self._unwrapped: set[str] = set()  # names of solutions whose opening mark was removed
        self._next_closing: dict[str, int] = {}  # by form, so that no mark is looked at twice
        self._hesitates: int | None = None  # where thinking aloud begins, once that was asked
        self._has_code = "`" in text or "~~~" in text
        self._fences = [found.start() for found in FENCE.finditer(text)] if self._has_code else []
        self._walk()

    def _walk(self) -> None:
        opening: Mark | None = None
        for number, mark in enumerate(self.marks):
            if mark.start < self._read or mark.start < self._passed:
                continue
            if opening is None:
                opening = self._pass_outside(number)
            elif self._ends_trace(opening, mark):
                self._close(opening.end, mark)
                opening = None
        if opening is None:
            self._end_part(len(self.text))
        else:
            self.is_open = True
            self._unended = opening
            self.traces.append((opening.end, len(self.text)))

    def _pass_outside(self, number: int) -> Mark | None:
        """Treat a mark outside of traces; return it if it opens one."""
        mark = self.marks[number]
        closing = self._closing(number) if mark.side == OPENING else None
        if self._stays(mark, closing):
            if mark.form not in _OF_PAGES:
                self._mention = self._mention or self.text[mark.start : mark.end]
            if closing is not None and self._is_short(mark, closing):
                self._passed = closing.end
            return None
        self.is_unmarked = False
        if mark.side == OPENING:
            self._end_part(mark.start)
            self._opened = True
            self._depth = 1
            self._read = mark.end
            return mark
        if mark.side == CLOSING and not mark.form:
            self._pieces.clear()
            self._mention = ""
            self._close(self._begin, mark)
        else:
            self._cut(mark)
        return None

    def _ends_trace(self, opening: Mark, mark: Mark) -> bool:
        """Test whether a mark ends the trace that was opened; forms of their own may be nested."""
        if mark.form == opening.form != "":
            self._depth += -1 if mark.side == CLOSING else 1
        if mark.side != CLOSING:
            return False
        return mark.form == "" or (mark.form == opening.form and self._depth == 0)

    def _closing(self, number: int) -> Mark | None:
        """Find the closing mark that ends the trace of an opening mark."""
        form = self.marks[number].form
        place = max(self._next_closing.get(form, 0), number + 1)
        while place < len(self.marks):
            mark = self.marks[place]
            if mark.side == CLOSING and mark.form in ("", form):
                break
            place += 1
        self._next_closing[form] = place
        return self.marks[place] if place < len(self.marks) else None

    def _close(self, begin: int, closing: Mark) -> None:
        """End a trace that began at `begin`."""
        self.traces.append((begin, closing.start))
        self._begin = closing.end
        self._read = closing.end

    def _cut(self, mark: Mark) -> None:
        """Remove a mark alone."""
        self._pieces.append(self.text[self._read : mark.start])
        self._read = mark.end
        if mark.side == SOLUTION:
            self._unwrapped.add(mark.form)

    def _end_part(self, end: int) -> None:
        self._pieces.append(self.text[self._read : end])
        self.kept.append("".join(self._pieces).strip())
        self._pieces.clear()
        self.left = self.left or self._mention
        self._mention = ""

    def _stays(self, mark: Mark, closing: Mark | None) -> bool:
        """Test whether a mark outside of traces stays in the text, as a mention does."""
        if mark.side == UNKNOWN or (mark.side == CLOSING and mark.form in _OF_PAGES):
            return True
        if self._has_code and mark.form != "fence" and self._in_code(mark):
            return True
        if mark.side == OPENING:
            if mark.form == PAIRED and closing is None:
                return True
            return not mark.form.startswith("phrase") and self._mentions(mark, closing)
        if mark.side == CLOSING:
            is_word = not mark.form and self._is_word_of_a_sentence(mark)
            return is_word and not self._ends_first_trace(mark)
        if mark.side == SOLUTION:
            return self._stays_before_solution(mark)
        if mark.side != SOLUTION_END or mark.form in self._unwrapped:
            return False
        return not mark.sure or self._is_word_of_a_sentence(mark)

    def _stays_before_solution(self, mark: Mark) -> bool:
        """Test whether a mark of a solution is a mention: no solution stands behind it."""
        is_bracket = self.text[mark.start] == "["
        if not mark.sure and not self.traces and (is_bracket or self._in_sentence(mark)):
            return True
        if not self._is_word_of_a_sentence(mark):
            return False
        behind = bisect_left(self.marks, mark) + 1
        following = self.marks[behind] if behind < len(self.marks) else None
        if following is None or (following.side, following.form) != (SOLUTION_END, mark.form):
            return True
        between = self.text[mark.end : following.start].strip(" ,/.…")
        return between in ("", "and", "or", "to") and self._is_word_of_a_sentence(following)

    def _ends_first_trace(self, closing: Mark) -> bool:
        """Test whether a closing mark is believed within a sentence, as an opening mark lacks.

        A source may declare such traces, and words of thinking aloud tell that the text is one.
        """
        if self.traces or not self._is_sure(closing):
            return False
        if self._hesitates is None:
            found = _HESITATES.search(self.text)
            self._hesitates = found.start() if found else len(self.text)
        return self.marking == "closing" or self._hesitates < closing.start

    def _mentions(self, opening: Mark, closing: Mark | None) -> bool:
        """Test whether prose mentions an opening mark, with its closing mark if there is one."""
        sure = self._is_sure(opening)
        before = self.text[: opening.start].rstrip()[-1:] if not sure else ""
        if closing is None:
            if self._in_sentence(opening):
                return not sure or self._is_word_of_a_sentence(opening)
            return before == ":"
        if not self._is_short(opening, closing):
            return False
        if is_quoted(self.text, opening.start, closing.end):
            return True
        if self._in_sentence(opening):
            return not sure or self._runs_on(closing)
        return before == ":" and self.text[closing.end :].lstrip()[:1].islower()

    def _is_sure(self, mark: Mark) -> bool:
        return mark.sure or self.marking in DECLARED

    def _is_short(self, opening: Mark, closing: Mark) -> bool:
        between = self.text[opening.end : closing.start]
        return len(between) <= LONGEST_MENTION and "\n" not in between

    def _in_sentence(self, mark: Mark) -> bool:
        """Test whether the line before a mark stops within a sentence."""
        line = self.text[max(0, mark.start - 40) : mark.start].rpartition("\n")[2]
        last = line.rstrip()[-1:]
        return last.isalnum() or (last != "" and last in ",'’({")

    def _runs_on(self, mark: Mark) -> bool:
        """Test whether a sentence continues on the line behind a mark."""
        behind = self.text[mark.end : mark.end + 40]
        word = behind.lstrip(" \t")
        if not word:
            return False
        return word[0] in ",.;:!?)}" or (word != behind and word[0].islower())

    def _is_word_of_a_sentence(self, mark: Mark) -> bool:
        """Test whether a mark stands among the words of a sentence, as a word would."""
        before = self.text[mark.start - 1 : mark.start]
        is_apart = before not in ("", "\n") and not before.isalnum()
        return is_apart and self._in_sentence(mark) and self._runs_on(mark)

    def _in_code(self, mark: Mark) -> bool:
        """Test whether a mark stands in a block of code, or between backticks of its line.

        Of a response with an odd number of fences it is unknown what is code.
        """
        first = bisect_left(self._fences, self._begin)
        before = bisect_left(self._fences, mark.start) - first
        total = len(self._fences) - first
        if before % 2 == 1 and total % 2 == 0:
            return True
        return in_backticks(self.text, mark.start, mark.end, self._begin)

    def behind_twin(self) -> str:
        """Return the solution behind a trace that its opening mark ends too, as without a slash.

        "" where the second such mark may be a word of the trace, and behind it no solution stands.
        """
        opening = self._unended
        if opening is None or opening.form:
            return ""
        behind = self.marks[bisect_left(self.marks, opening) + 1 :]
        others = [mark for mark in behind if mark.side in (OPENING, CLOSING)]
        if len(others) != 1:
            return ""
        twin = others[0]
        written = self.text[opening.start : opening.end].lower()
        is_twin = self.text[twin.start : twin.end].lower() == written
        is_empty = not self.text[opening.end : twin.start].strip()
        if not is_twin or is_empty or self._is_word_of_a_sentence(twin):
            return ""
        text = self._unmarked(twin.end, len(self.text))
        return text if _reads_as_solution(text) else ""

    def as_heading(self, response: str) -> Examined | None:
        """Keep a whole response that words open, if no mark tells that more than a heading.

        None where the words open a trace that was cut off.
        """
        opening = self._unended
        if opening is None or not opening.form.startswith("phrase") or self._is_sure(opening):
            return None
        others = [mark for mark in self.marks if mark != opening]
        is_empty = not self.text[opening.end :].strip()
        if is_empty or any(mark.side not in (TURN, UNKNOWN) for mark in others):
            return None
        left = self.text[opening.start : opening.end].strip()
        if any(mark.side == TURN for mark in others):
            return Examined(self._unmarked(0, len(self.text)), STRIPPED, left)
        return Examined(response, NONE, left)

    def solution_in_trace(self) -> str:
        """Return the solution of a response where nothing stands behind the last trace, or "".

        It is what solution marks enclose, last of all, in a trace or before it. A closing mark that
        ends the whole response, and that no mark opened, may be a stray one: what stands before it
        is the solution, if it reads as one.
        """
        marked = [self._marked(*trace, is_end=self.is_open) for trace in reversed(self.traces)]
        for solution in marked:
            if solution:
                return solution
        if self._opened or self.marking == "closing" or not self.traces:
            return ""
        text = self._unmarked(*self.traces[-1])
        return text if _reads_as_solution(text) else ""

    def _marked(self, begin: int, end: int, *, is_end: bool) -> str:
        """Return the last solution between two places that has both of its marks.

        At the response's end the last one may lack its closing mark, if its sentence has an end.
        """
        opened: dict[str, Mark] = {}
        found = ""
        first = bisect_left(self.marks, (begin,))
        for mark in self.marks[first : bisect_left(self.marks, (end,))]:
            if mark.side == SOLUTION:
                opened[mark.form] = mark
            elif mark.side == SOLUTION_END and mark.form in opened:
                text = self._unmarked(opened.pop(mark.form).end, mark.start)
                found = text or found
        if found or not is_end or not opened:
            return found
        last = max(opened.values())
        text = self._unmarked(last.end, end)
        stated = not self._in_sentence(last) and _is_complete(text)
        return text if stated else ""

    def _unmarked(self, begin: int, end: int) -> str:
        """Return the text between two places without marks of solutions and turns."""
        pieces = []
        read = begin
        first = bisect_left(self.marks, (begin,))
        for mark in self.marks[first : bisect_left(self.marks, (end,))]:
            if mark.start >= read and mark.side in (SOLUTION, SOLUTION_END, TURN):
                pieces.append(self.text[read : mark.start])
                read = mark.end
        pieces.append(self.text[read:end])
        return "".join(pieces).strip()


def _is_complete(text: str) -> bool:
    """Test whether a text ends as a sentence does, or in a formula."""
    return text.endswith((".", "!", "?", "。", "！", "？", ".)", "$", "\\)", "\\]", "**", ".*"))


def _reads_as_solution(text: str) -> bool:
    return _is_complete(text) and not _ALOUD.search(text)
