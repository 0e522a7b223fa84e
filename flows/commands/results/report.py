"""`dreamer report`: write the report of a study, print its text and tables, or serve the page while results change."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from rich.table import Table as Shown

from flows.commands.results.query import find_results
from flows.commands.tables import console
from pipeline.errors import InputError
from reports.tables.cells import Cell, Table
from sql.results import query


def report(options: argparse.Namespace) -> None:
    """Write the report of a study, or of the newest study that a results file holds; with `text`, print instead."""
    database, wanted = find_results(options.study, options.root)
    study_id = _study_id(database, wanted)
    if options.text:
        from reports.page.plain import plain_report

        for part in plain_report(database, study_id):
            console.print(_shown(part) if isinstance(part, Table) else part, end="\n\n")
        return
    from reports.page.report import write_report  # takes a second, which a query need not wait for

    page = write_report(database, study_id, database.parent / "report")
    print(page)
    if options.watch:
        from reports.page.serving import watch

        write = partial(write_report, database, study_id, page.parent, papers=False)
        watch(database, page, write, partial(print, flush=True))


def _study_id(database: Path, wanted: str | None) -> str:
    newest_first = "SELECT study_id FROM studies ORDER BY created_at DESC NULLS LAST, study_id"
    known = list(query(database, newest_first)["study_id"])
    if not known:
        raise InputError(f"{database}: holds no study yet")
    return wanted if wanted in known else known[0]


def _shown(table: Table) -> Shown:
    """Make a table of the page one for a terminal, with its caption above."""
    shown = Shown(box=None, pad_edge=False, header_style="bold", title=table.caption, title_justify="left")
    for head in _heads(table):
        shown.add_column(head.text, justify="left" if head.kind == "left" else "right")
    for row in table.rows:
        shown.add_row(*map(_words, row.cells))
    return shown


def _heads(table: Table) -> list[Cell]:
    """Return one head for each column; a head over several columns comes before the heads below."""
    top, *below = table.head
    inner = iter(below[0] if below else ())
    heads = []
    for cell in top:
        single = cell.rows > 1 or not below
        heads += (
            [cell] if single else [replace(one, text=f"{cell.text} {one.text}") for one in islice(inner, cell.span)]
        )
    return heads


def _words(cell: Cell) -> str:
    return f"{cell.text} ({cell.note})" if cell.note else cell.text
