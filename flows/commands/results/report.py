"""`dreamer report`: write the report of a study, print its text and tables, or serve the page."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from dreamer_study.flows.commands.results.printing import print_part
from dreamer_study.flows.commands.results.query import find_results
from dreamer_study.flows.estimates.price import check_price
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import naming
from dreamer_study.sql.results import query


def report(options: argparse.Namespace) -> None:
    """Write the report of a study, or of the newest study of a results file.

    With `text`, print its text and tables instead; with `watch`, also serve the page.
    """
    check_price(options.price)
    database, wanted = find_results(options.study, options.root)
    study_id = _study_id(database, wanted)
    if options.text:
        from dreamer_study.reports.page.plain import plain_report

        for part in plain_report(database, study_id, options.price):
            print_part(part)
        return
    # takes a second, which a query need not wait for
    from dreamer_study.reports.page.report import write_report

    # before reading: rows that enter meanwhile are shown by the next page
    drawn = database.stat().st_mtime_ns
    folder = database.parent / "report"
    with naming(folder):
        page = write_report(database, study_id, folder, price=options.price)
    print(page)
    if options.watch:
        from dreamer_study.reports.page.serving import watch

        write = partial(
            write_report, database, study_id, page.parent, papers=False, price=options.price
        )
        watch(database, page, drawn, write, partial(print, flush=True))


def _study_id(database: Path, wanted: str | None) -> str:
    newest_first = "SELECT study_id FROM studies ORDER BY created_at DESC NULLS LAST, study_id"
    studies = list(query(database, newest_first)["study_id"])
    if not studies:
        raise InputError(f"{database} holds no study yet")
    if wanted in studies:
        return wanted
    newest = studies[0]
    if wanted:
        write_line(
            f"{database} holds no results of {wanted} (the study file has changed); showing"
            f" {newest}"
        )
    return newest
