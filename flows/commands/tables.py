"""Print data frames as tables that fit a terminal, and whole in a pipe."""

from __future__ import annotations

import errno
import math
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import pandas as pd
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dreamer_study.flows.progress.colour import FAILED, SIGNIFICANT, colour_system
from dreamer_study.flows.progress.folding import fold, width_of
from dreamer_study.flows.progress.reports import printable
from dreamer_study.reports.text.numbers import figure
from dreamer_study.sql.export import plain_cells


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; of texts control characters are escaped, and lines are folded at words.

        A command in backticks stays whole, and so does every line in a pipe.
        """
        width = width_of(sys.stdout)
        escaped = [
            fold(printable(part), width) if isinstance(part, str) else part for part in objects
        ]
        only_texts = all(isinstance(part, str | Text) for part in escaped)
        super().print(*escaped, soft_wrap=only_texts, **options)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError when the reader of our output (head, less) has gone.

        `dreamer` ends well by it, where rich would end with status 1.
        """
        raise BrokenPipeError(errno.EPIPE, "Broken pipe: the reader of our output has gone")


# In a pipe there is no terminal to fit into: a row is one line, however long (reports and
# comparisons, which are to be read, are folded at 100 columns there too). Brackets in data are no
# markup.
IN_A_PIPE: dict[str, Any] = (
    {} if sys.stdout.isatty() else {"width": 1_000_000, "force_terminal": False}
)
console = _Console(
    highlight=False, markup=False, color_system=colour_system(sys.stdout), **IN_A_PIPE
)

FOLDED = 24  # columns of the terminal: a column that is wider may be folded down to these
GAP = 2  # columns between two columns of a table
LONGEST_WORD = 40  # columns: only a longer word, such as a path, is broken
FIRST_WORDS = {"significant": SIGNIFICANT, "failed": FAILED}  # of cells that have a colour


def print_csv(table: pd.DataFrame) -> None:
    """Print comma-separated values, of which no spreadsheet runs a cell, and no terminal either."""
    write_data(plain_cells(table).to_csv(index=False))


def write_data(text: str) -> None:
    """Write data to standard output as they are; on a terminal control characters are escaped."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def empty_table(
    columns: Iterable[tuple[str, bool]], overflow: Literal["fold", "ellipsis"] = "fold"
) -> Table:
    """Make a table without rows; a column is its head, and whether its cells are to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head, right in columns:
        table.add_column(
            printable(head),
            justify="right" if right else "left",
            overflow=overflow,
            no_wrap=overflow == "ellipsis",
        )
    return table


def print_fields(fields: Iterable[tuple[str, str]], column: int = 10) -> None:
    """Print lines of a name and a text, which begins at a column and is folded there."""
    width = width_of(sys.stdout)
    for name, text in fields:
        room = width - column if width else None
        first, *more = fold(printable(text), room).split("\n")
        lines = [f"{printable(name):<{column}}{first}", *(f"{'':<{column}}{line}" for line in more)]
        console.print("\n".join(lines))


def print_table(table: pd.DataFrame, right: Collection[str] = ()) -> None:
    """Print a data frame as a table, numbers to the right, and the columns that `right` names.

    Where a terminal is too narrow, the last columns are only named.
    """
    texts = [[cell(value) for value in table[name]] for name in table]
    needed = [
        _needed(printable(str(name)), cells) for name, cells in zip(table, texts, strict=True)
    ]
    fitting = _fitting_columns(needed)
    part = table.iloc[:, :fitting]
    shown = empty_table(
        (str(name), name in right or pd.api.types.is_numeric_dtype(part[name]))
        for name in part.columns
    )
    _set_widths(shown, needed[:fitting], console.width)
    for cells in zip(*texts[:fitting], strict=True):
        shown.add_row(*(coloured(text) for text in cells))
    console.print(shown)
    absent = table.columns[fitting:]
    if len(absent):
        console.print(
            f"Not shown: {', '.join(map(str, absent))}. A pipe (`| less -S`) gets every column."
        )


def coloured(text: str, style: str = "") -> Text:
    """Return the text of a cell, coloured where its first word says what one looks for."""
    first_word = re.match(r"\w*", text)[0]
    return Text(text, style=style or FIRST_WORDS.get(first_word, ""))


@dataclass(frozen=True)
class _Width:
    """The least and the greatest width of a column of a table, in columns of the terminal."""

    least: int
    most: int


def _needed(head: str, cells: Sequence[str]) -> _Width:
    """Measure a column whose head stays on one line, and whose cells are folded where they must."""
    of_words = _of_words([head, *cells])
    least = max(cell_len(head), of_words.least, min(of_words.most, FOLDED))
    return _Width(least, of_words.most)


def _of_words(texts: Sequence[str]) -> _Width:
    """Measure a column that is folded at words; a word is broken only where it is very long."""
    words = [word for text in texts for word in text.split()]
    longest = max(map(cell_len, words), default=0)
    if longest > LONGEST_WORD:
        longest = FOLDED
    return _Width(longest, max(map(cell_len, texts), default=0))


def fold_at_words(table: Table, columns: Sequence[Sequence[str]], width: int) -> None:
    """Make the columns of a table, whose texts are given, as wide as their words.

    Where all columns do not fit, they come closer together; where that is not enough, words break.
    """
    needed = [_of_words([printable(text) for text in texts]) for texts in columns]
    least = sum(column.least for column in needed)
    if least + GAP * (len(needed) - 1) <= width:
        _set_widths(table, needed, width)
    elif least + len(needed) - 1 <= width:
        table.collapse_padding = True  # a gap of one
        _set_widths(table, needed, width, gap=1)


def _fitting_columns(needed: Sequence[_Width]) -> int:
    """Count the first columns that fit the terminal, at least one."""
    end = 0
    for number, column in enumerate(needed):
        end += column.least
        if end > console.width:
            return max(1, number)
        end += GAP
    return max(1, len(needed))


def _set_widths(table: Table, needed: Sequence[_Width], width: int, gap: int = GAP) -> None:
    """Give each column of a table what it needs at least, and a share of what is left."""
    left = max(width - gap * (len(needed) - 1) - sum(column.least for column in needed), 0)
    widths = [min(column.least, width) for column in needed]
    by_wish = sorted(range(len(needed)), key=lambda place: needed[place].most - widths[place])
    for given, place in enumerate(by_wish):
        share = left // (len(needed) - given)
        more = min(share, max(needed[place].most - widths[place], 0))
        widths[place] += more
        left -= more
    for column, chosen in zip(table.columns, widths, strict=True):
        column.width = chosen


def cell(value: Any) -> str:
    """Format one value of a table: four digits below 10,000, rounded above, null as a dash."""
    if value is None or value is pd.NA or value is pd.NaT:
        return "-"
    if isinstance(value, float):
        return _cell_of_float(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))


def _cell_of_float(value: float) -> str:
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "unbounded"
    return figure(value, 4) if abs(value) < 1e4 else f"{value:,.0f}"
