"""Print data frames as tables that fit a terminal, and whole in a pipe."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable
from numbers import Integral
from typing import Any, Literal

import pandas as pd
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from dreamer_study.flows.progress.reports import printable


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; of texts control characters are escaped, and no line is folded.

        So a command that is printed stays whole.
        """
        escaped = [printable(part) if isinstance(part, str) else part for part in objects]
        only_texts = all(isinstance(part, str) for part in escaped)
        super().print(*escaped, soft_wrap=only_texts, **options)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError when the reader of our output (head, less) has gone.

        `dreamer` ends well by it, where rich would end with status 1.
        """
        raise BrokenPipeError


# In a pipe there is no terminal to fit into: a row is one line, however long (reports and
# comparisons, which are to be read, are folded at 100 columns there too). Brackets in data are no
# markup.
IN_A_PIPE: dict[str, Any] = (
    {} if sys.stdout.isatty() else {"width": 1_000_000, "force_terminal": False}
)
console = _Console(highlight=False, markup=False, **IN_A_PIPE)

FOLDED = 24  # columns of the terminal: a column that is wider may be folded down to these


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


def print_table(table: pd.DataFrame, right: Collection[str] = ()) -> None:
    """Print a data frame as a table, numbers to the right, and the columns that `right` names.

    Where a terminal is too narrow, the last columns are only named.
    """
    fitting = _fitting_columns(table)
    part = table.iloc[:, :fitting]
    shown = empty_table(
        (str(name), name in right or pd.api.types.is_numeric_dtype(part[name]))
        for name in part.columns
    )
    for row in part.itertuples(index=False):
        shown.add_row(*map(cell, row))
    console.print(shown)
    absent = table.columns[fitting:]
    if len(absent):
        console.print(
            f"Not shown: {', '.join(map(str, absent))}. A pipe (| less -S) gets every column."
        )


def _fitting_columns(table: pd.DataFrame) -> int:
    """Count the first columns that fit the terminal, at least one."""
    end = 0
    for number, name in enumerate(table):
        longest = max(map(cell_len, map(cell, table[name])), default=0)
        end += max(len(str(name)), min(longest, FOLDED))
        if end > console.width:
            return max(1, number)
        end += 2  # the gap before the next column
    return max(1, len(table.columns))


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
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
