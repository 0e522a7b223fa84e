"""`dreamer factors`: the ratios of tokens, and the report, of curves trained elsewhere."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.results.decision import Decision, check_asked, decide
from dreamer_study.flows.commands.results.printing import (
    WARNING_MARK,
    print_answer,
    print_crossings,
    print_part,
    print_targets,
    read_printed,
)
from dreamer_study.flows.commands.tables import console
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import naming, write_text_atomically
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.entering import (
    EXAMPLE,
    STUDY,
    enter_curves,
    metrics_taken,
    read_targets,
    within_intervals,
)
from dreamer_study.reports.curves.patterns import listed
from dreamer_study.reports.curves.points import Curves
from dreamer_study.reports.curves.reading import read
from dreamer_study.reports.data import read_study
from dreamer_study.reports.page.answer import Answer, answer_of, read_answer
from dreamer_study.reports.text.numbers import counted
from dreamer_study.sql.export import plain_cells
from dreamer_study.sql.results import ask, connect, query

MOST_NOTES = 5  # that weaken the answer, on a terminal
RATIOS = "select * exclude (study_id) from token_ratios"
PATIENCE = 2.0  # seconds without a line


def factors(options: argparse.Namespace) -> int:
    """Print the ratios of curves as at the end of a study.

    With `report`, also write the report as one HTML file. Returns the exit status, which with
    `below` says on which side of a ratio an interval is.
    """
    check_asked(options.below, options.variant, options.task)
    path = EXAMPLE if options.curves == "example" else Path(options.curves)
    if options.report:
        inputs = [path, options.items] if options.items else [path]
        _check_report(options.report, inputs)
    curves = read(path, _asked(options))
    if not (options.json or options.csv):
        _print_notes(curves, warnings=False)
    targets = read_targets(options.target, curves)
    with tempfile.TemporaryDirectory(prefix="dreamer-factors-") as folder:
        database = Path(folder) / "results.duckdb"
        # all the time: to open a file again takes as long as a query
        with closing(connect(database)):
            with saying_after(PATIENCE, _work(curves)):
                enter_curves(
                    database,
                    curves,
                    baseline=options.baseline,
                    targets=targets,
                    decayed_at_end=options.decayed_at_end,
                    every_pair=options.all,
                )
            baseline = query(database, "from studies")["baseline"][0]
            decision = None
            if options.below is not None:
                ratios = query(database, "from token_ratios")
                decision = decide(ratios, options.below, options.variant, options.task)
            said = None
            if options.report:  # before the reader of what is printed may leave
                said = _write_report(database, options.report, Path(folder))
            if options.json:
                print_document(**_document(database, curves, baseline, decision, options, said))
            elif options.csv:
                ratios = plain_cells(query(database, RATIOS))
                ratios.to_csv(sys.stdout, index=False)
            else:
                _print(database, curves, baseline, options, said)
                if decision:
                    console.print(decision.sentence)
    return decision.status if decision else 0


def _write_report(database: Path, report: Path, folder: Path) -> Answer:
    """Write the page, and return the answer, for which nothing need be read again."""
    # takes a second, which a table alone need not wait for
    from dreamer_study.reports.page.report import write_data

    data = read_study(database, STUDY)
    page = write_data(data, folder / "report", papers=False)
    with naming(report):
        write_text_atomically(report, page.read_text())
    return answer_of(data)


def _print(
    database: Path,
    curves: Curves,
    baseline: str,
    options: argparse.Namespace,
    said: Answer | None,
) -> None:
    """Print what was read, the answer, and the table of ratios.

    `said` is the answer where it has been read already.
    """
    for taken in metrics_taken(database):
        console.print(taken)
    print_answer(read_printed(database, STUDY, said), baseline, every_row="--csv prints them")
    console.print()
    _print_notes(curves, warnings=True)
    targets = ask(database, "outcome_targets", study=STUDY)
    crossings = ask(database, "outcome_crossings", study=STUDY)
    further = print_targets(targets, baseline, curves.unit)
    further += print_crossings(crossings, baseline, curves.unit)
    if further:
        rows = counted(further, "further row")
        console.print(f"{rows} of tokens to a score: --json prints them")
    console.print(f"intervals: {within_intervals(curves)}")
    if options.report:
        console.print(f"report:    {options.report}")
    if curves.ignored:
        console.print(f"not read: {listed(curves.ignored)}")


def _document(
    database: Path,
    curves: Curves,
    baseline: str,
    decision: Decision | None,
    options: argparse.Namespace,
    said: Answer | None,
) -> dict[str, Any]:
    """Return the fields of the command's JSON document.

    `said` is the answer where it has been read already.
    """
    answer = said or read_answer(database, STUDY)
    return {
        "baseline": baseline,
        "answer": [*answer.sentences, *answer.second],
        "warnings": answer.warnings,
        "ratios": query(database, RATIOS),
        "targets": ask(database, "outcome_targets", study=STUDY),
        "crossings": ask(database, "outcome_crossings", study=STUDY),
        "intervals": within_intervals(curves),
        "notes": [*curves.notes, *metrics_taken(database)],
        "not_read": curves.ignored,
        "report": options.report,
        "below": vars(decision) if decision else None,
    }


@contextmanager
def saying_after(seconds: float, text: str) -> Iterator[None]:
    """Print a line to the standard error where the block takes longer than some seconds."""
    timer = threading.Timer(seconds, write_line, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _asked(options: argparse.Namespace) -> Asked:
    return Asked(
        items=options.items,
        pattern=options.pattern,
        logs=options.log,
        columns=options.column,
        tokens_per_step=options.tokens_per_step,
        metric=options.metric,
    )


def _work(curves: Curves) -> str:
    """Name the work that takes long."""
    points = curves.points
    return (
        f"computing the ratios of {counted(points['variant'].nunique(), 'variant')} on"
        f" {counted(points['task'].nunique(), 'task')} from {counted(len(points), 'value')} ..."
    )


def _print_notes(curves: Curves, *, warnings: bool) -> None:
    """Print the notes on what was read, or the first of those that weaken the answer."""
    if not warnings:
        for note in curves.notes:
            if not note.startswith(WARNING_MARK):
                console.print(note)
        return
    weakening = [note for note in curves.notes if note.startswith(WARNING_MARK)]
    for note in weakening[:MOST_NOTES]:
        print_part(note)
    further = len(weakening) - MOST_NOTES
    if further > 0:
        notes = counted(further, "further note")
        print_part(f"{WARNING_MARK}{notes} of this kind: --json prints them all")


def _check_report(report: Path, inputs: Sequence[Path]) -> None:
    """Raise InputError for a report that would overwrite its curves, or has no folder."""
    if report.resolve() in [path.resolve() for path in inputs]:
        raise InputError(f"--report: {report} holds the curves; name another file")
    if report.is_dir() or not report.parent.is_dir():
        raise InputError(f"--report: {report} must be a file in a folder that exists")
