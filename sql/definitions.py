"""Read the SQL files that define a results file, in their order of creation.

The folders `tables` and `views` hold what users query, in the schema `main`. Everything else is in
`internal`, which is a folder and a schema. Tables come first. A macro, view or check comes after
the macros and views that its SQL names.

The comment beside a definition becomes its comment in the results file (`comments`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
# The number of the tables' layout. It grows by one when a column is added, or when anything is
# removed or renamed, but not for a new table.
LAYOUT = 14
INTERNAL = "internal"  # the schema of definitions that only other definitions use
# Names in a statement: relations, and macros with their arguments.
NAMED = re.compile(r"\b(?:from|join) (?:internal\.)?(\w+)|\b(\w+)\(")
ROW = "One row: "  # begins the comment of a table or view
# The lines that have comments:
#     create table if not exists runs ( -- One row: a training run of a study.
#     create or replace view funnel as
#         seed integer, -- of the weights and of the order of the data
TABLE = re.compile(r"^create table if not exists ([\w.]+) \( -- (.+)$")
VIEW = re.compile(r"^create or replace (view|macro) ([\w.]+)(.* as table$)?")
TABLE_COLUMN = re.compile(r"^ {4}(\w+) .* -- (.+)$")
VIEW_COLUMN = re.compile(r"^ {4}(?:\S.*[ .])?(\w+),? -- (.+)$")


@cache
def definitions() -> dict[str, str]:
    """Return the SQL of every table file, macro, view and check by name, in order of creation."""
    return (
        {"schema": f"create schema if not exists {INTERNAL};"}
        | _read("tables", f"{INTERNAL}/tables")
        | views()
    )


def views() -> dict[str, str]:
    """Return the SQL of every macro, view and check by name, in the order of creation."""
    built = _read("views", *(f"{INTERNAL}/{kind}" for kind in ("macros", "views", "checks")))
    order = TopologicalSorter(
        {name: needs(text, built.keys() - {name}) for name, text in built.items()}
    ).static_order()
    return {name: built[name] for name in order}


def comments(texts: Mapping[str, str]) -> Iterator[tuple[str, str, str | None, str]]:
    """Yield the comments on tables, views, table macros and their columns.

    A comment is a kind, a name, a column (or None) and a text. The comment of a table is at the end
    of its first line. The comment of a view or macro is the first line of its file. The comment of
    a column is on the column's line, in a view on a line of the last select.
    """
    for text in texts.values():
        kind = name = ""
        column_pattern: re.Pattern[str] | None = None
        for line in text.splitlines():
            if match := TABLE.match(line):
                kind, name = "table", match[1]
                column_pattern = TABLE_COLUMN
                yield kind, name, None, match[2].removeprefix(ROW)
            elif match := VIEW.match(line):
                kind, name = match[1], match[2]
                if match[3]:
                    kind += " table"  # "macro table" is DuckDB's word for a table macro
                first_line = text.split("\n")[0]
                yield kind, name, None, first_line.removeprefix("-- ").removeprefix(ROW)
            # the last select; others are indented
            elif kind == "view" and line.startswith("select"):
                column_pattern = VIEW_COLUMN
            elif column_pattern and (match := column_pattern.match(line)):
                yield kind, name, match[1], match[2]


def digest(texts: Mapping[str, str]) -> str:
    """Return a hash of the definitions, which recognises a file made from other definitions."""
    return hashlib.blake2b("\0".join(texts.values()).encode(), digest_size=16).hexdigest()


def needs(text: str, known: Collection[str]) -> list[str]:
    """Return the known macros and views that an SQL text reads, sorted by name.

    The digest depends on this order.
    """
    without_comments = re.sub("--.*", "", text)
    names = {name for pair in NAMED.findall(without_comments) for name in pair}
    return sorted(names.intersection(known))


def _read(*folders: str) -> dict[str, str]:
    """Read the SQL files at any depth of the folders, sorted by name."""
    files = [file for folder in folders for file in (FOLDER / folder).rglob("*.sql")]
    return {file.stem: file.read_text() for file in sorted(files, key=lambda file: file.stem)}
