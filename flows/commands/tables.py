"""Print data frames as tables that fit a terminal, and whole in a pipe."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from itertools import accumulate
from numbers import Integral
from typing import Any, Literal

import pandas as pd
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from dreamer_study.flows.progress.reports import printable


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects. Of texts control characters are escaped, and no line is folded: a command
        stays whole."""
        shown = [printable(one) if isinstance(one, str) else one for one in objects]
        super().print(*shown, soft_wrap=all(isinstance(one, str) for one in shown), **options)

    def on_broken_pipe(self) -> None:
        """End well when the reader of our output (head, less) has gone, where rich would end with
        status 1."""
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
    """Make a table without rows; of each column its head, and whether the column is set to the
    right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head, right in columns:
        shown, side = printable(head), "right" if right else "left"
        table.add_column(shown, justify=side, overflow=overflow, no_wrap=overflow == "ellipsis")
    return table


def print_table(table: pd.DataFrame) -> None:
    """Print a data frame as a table, numbers to the right; names the last columns where a terminal
    is too narrow."""
    widths = [max(map(cell_len, map(cell, table[name])), default=0) for name in table]
    widths = [
        max(len(str(name)), min(width, FOLDED)) + 2
        for name, width in zip(table, widths, strict=True)
    ]
    fitting = max(1, sum(end - 2 <= console.width for end in accumulate(widths)))
    part = table.iloc[:, :fitting]
    shown = empty_table(
        (str(name), pd.api.types.is_numeric_dtype(part[name])) for name in part.columns
    )
    for row in part.itertuples(index=False):
        shown.add_row(*map(cell, row))
    console.print(shown)
    if len(absent := table.columns[fitting:]):
        console.print(
            f"Not shown: {', '.join(map(str, absent))}. A pipe (| less -S) gets every column."
        )


def cell(value: Any) -> str:
    """Format one value of a table: a number below 10,000 with four digits, a larger one rounded,
    null as a dash."""
    if (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float) and math.isnan(value))
    ):
        return "-"
    if isinstance(value, float) and math.isinf(value):
        return "unbounded"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, Integral) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))
