"""The questions of `docs/sql.md` with their answers: runs every query of the page and puts its output below it.

    python -m sql.cookbook docs/sql.md runs/demo/results.duckdb

A query is a fenced block of `sql`; its output is the fenced block of `text` that follows it directly.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import pandas as pd

from pipeline.errors import InputError
from sql.results import query

QUERY = re.compile(r"```sql\n(?P<sql>.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)
MOST_ROWS = 20


def answered(page: str, database: Path) -> str:
    """The page with every query's output on this results file. Raises InputError for a query that DuckDB refuses."""

    def with_output(found: re.Match[str]) -> str:
        return f"```sql\n{found['sql']}```\n\n```text\n{shown(query(database, found['sql']))}\n```\n"

    return QUERY.sub(with_output, page)


def shown(table: pd.DataFrame) -> str:
    """A table as text, numbers to the right."""
    if table.empty:
        return "(no rows)"
    cells = [[_text(value) for value in row] for row in table.head(MOST_ROWS).itertuples(index=False)]
    widths = [max(map(len, column)) for column in zip(table.columns, *cells, strict=True)]
    right = [pd.api.types.is_numeric_dtype(table[column]) for column in table.columns]
    padded = [
        [
            cell.rjust(width) if numbers else cell.ljust(width)
            for cell, width, numbers in zip(row, widths, right, strict=True)
        ]
        for row in [list(table.columns), *cells]
    ]
    lines = ["  ".join(row).rstrip() for row in padded]
    more = len(table) - MOST_ROWS
    return "\n".join(lines + ([f"({more} more rows)"] if more > 0 else []))


def _text(value: object) -> str:
    if value is None or pd.isna(value):
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("database", type=Path)
    asked = parser.parse_args()
    try:
        asked.page.write_text(answered(asked.page.read_text(), asked.database))
    except InputError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
