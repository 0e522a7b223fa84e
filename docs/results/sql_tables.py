"""Write tables by SQL over stored rows into the pages of docs/results, between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb

BEGIN = "<!-- by page.py -->\n"
END = "<!-- end of the tables -->\n"
MEASURE = """case
        when task = 'validation' then 'held-out loss'
        when metric = 'loss' then 'loss of the right answers'
        else 'average accuracy'
    end"""  # names the measure of a row of an average or of held-out documents


def between_marks(page: str, tables: Sequence[str]) -> str:
    """Return a page whose text between the marks is replaced by these tables."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n".join(tables) + END + rest.split(END)[1]


def table(query: str, rows: Path) -> str:
    """Return the answer of a query over a file of rows as a table in Markdown."""
    with closing(duckdb.connect()) as connection:
        result = connection.execute(query, [str(rows)])
        names = [name for name, *_ in result.description]
        lines = [names, ["---"] * len(names), *result.fetchall()]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
