"""Run every query of a Markdown page and put its output below the query.

    python docs/cookbook.py docs/sql.md runs/demo/results.duckdb

A query is a fenced block of `sql`; its output is the fenced block of `text` that follows directly.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import query

QUERY = re.compile(r"```sql\n(?P<sql>.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)
MOST_ROWS = 50


def answered(page: str, database: Path) -> str:
    """Return the page with the output of every query.

    Raises InputError for a query that DuckDB refuses.
    """

    def with_output(block: re.Match[str]) -> str:
        table = as_text(query(database, block["sql"]))
        return f"```sql\n{block['sql']}```\n\n```text\n{table}\n```\n"

    return QUERY.sub(with_output, page)


def as_text(table: pd.DataFrame) -> str:
    """Align the columns of a table as text, numbers to the right."""
    if table.empty:
        return "(no rows)"
    cells = [
        [_cell(value) for value in row] for row in table.head(MOST_ROWS).itertuples(index=False)
    ]
    columns = []
    for name, *column in zip(table.columns, *cells, strict=True):
        width = max(map(len, [name, *column]))
        align = str.rjust if pd.api.types.is_numeric_dtype(table[name]) else str.ljust
        columns.append([align(cell, width) for cell in (name, *column)])
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    if len(table) > MOST_ROWS:
        lines.append(f"({len(table) - MOST_ROWS} more rows)")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None or pd.isna(value):
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("database", type=Path)
    arguments = parser.parse_args()
    try:
        arguments.page.write_text(answered(arguments.page.read_text(), arguments.database))
    except InputError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
