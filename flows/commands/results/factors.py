"""`dreamer factors`: the ratios of tokens, and the report, of curves trained elsewhere."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from dreamer_study.flows.commands.results.printing import print_answer
from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import naming, write_text_atomically
from dreamer_study.reports.curves.entering import (
    EXAMPLE,
    STUDY,
    enter_curves,
    read,
    read_targets,
    within_intervals,
)
from dreamer_study.sql.results import ask, connect, query


def factors(options: argparse.Namespace) -> None:
    """Print the ratios of curves as at the end of a study.

    With `report`, also write the report as one HTML file.
    """
    path = EXAMPLE if options.curves == "example" else Path(options.curves)
    if options.report:
        inputs = [path, options.items] if options.items else [path]
        _check_report(options.report, inputs)
    curves = read(path, items=options.items, pattern=options.pattern)
    targets = read_targets(options.target, curves)
    with tempfile.TemporaryDirectory(prefix="dreamer-factors-") as folder:
        database = Path(folder) / "results.duckdb"
        # all the time: to open a file again takes as long as a query
        with closing(connect(database)):
            enter_curves(
                database,
                curves,
                baseline=options.baseline,
                targets=targets,
                decayed_at_end=options.decayed_at_end,
            )
            if options.report:  # before the reader of what is printed may leave
                # takes a second, which a table alone need not wait for
                from dreamer_study.reports.page.report import write_report

                page = write_report(database, STUDY, Path(folder) / "report", papers=False)
                with naming(options.report):
                    write_text_atomically(options.report, page.read_text())
            baseline = query(database, "from studies")["baseline"][0]
            print_answer(database, STUDY, baseline)
            crossings = ask(database, "outcome_crossings", study=STUDY)
            if len(crossings):
                rule = "by the paper's rule (its factor is 1 over the ratio)"
                console.print(f"\nto {baseline}'s best accuracy, {rule}\n")
                print_table(crossings)
            console.print(f"\nintervals: {within_intervals(curves)}")
            if options.report:
                console.print(f"report:    {options.report}")
            if curves.ignored:
                console.print(f"not read: {', '.join(curves.ignored)}")


def _check_report(report: Path, inputs: Sequence[Path]) -> None:
    """Raise InputError for a report that would overwrite its curves, or has no folder."""
    if report.resolve() in [path.resolve() for path in inputs]:
        raise InputError(f"--report: {report} holds the curves; name another file")
    if report.is_dir() or not report.parent.is_dir():
        raise InputError(f"--report: {report} must be a file in a folder that is there")
