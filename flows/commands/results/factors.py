"""`dreamer factors`: the factors, and the report, of curves that were trained elsewhere."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from flows.commands.tables import console, print_factors, read_factors
from flows.curves.entering import STUDY, enter_curves
from flows.curves.lm_eval import read_lm_eval
from flows.curves.points import Curves, read_curves
from pipeline.errors import InputError
from pipeline.storage.files import naming, write_text_atomically
from sql.results import query

EXAMPLE = Path(__file__).parents[2] / "curves" / "example.csv"


def factors(options: argparse.Namespace) -> None:
    """Print the factors of curves as at the end of a study; with `report`, write the report as one HTML file."""
    path = EXAMPLE if options.curves == "example" else Path(options.curves)
    curves = _read(path, options)
    with tempfile.TemporaryDirectory(prefix="dreamer-factors-") as folder:
        database = Path(folder) / "results.duckdb"
        enter_curves(database, curves, baseline=options.baseline)
        baseline = query(database, "from studies")["baseline"][0]
        print_factors(options.curves, baseline, *read_factors(database, STUDY))
        console.print(f"\nintervals: {_errors(curves)}")
        if curves.ignored:
            console.print(f"not read: {', '.join(curves.ignored)}")
        if options.report:
            from reports.page.report import write_report  # takes a second, which the table need not wait for

            page = write_report(database, STUDY, Path(folder) / "report", papers=False)
            with naming(options.report):
                write_text_atomically(options.report, page.read_text())
            console.print(f"report:    {options.report}", soft_wrap=True)


def _read(path: Path, options: argparse.Namespace) -> Curves:
    if not path.is_dir():
        if options.pattern:
            raise InputError(f"{path}: --pattern is of a folder of lm-eval's result files")
        return read_curves(path, options.items)
    if options.items:
        raise InputError(f"{path}: lm-eval's samples are the items of a folder; leave --items out")
    return read_lm_eval(path, options.pattern)


def _errors(curves: Curves) -> str:
    """Say what the intervals hold."""
    if curves.points.groupby("variant")["seed"].nunique().min() < 2:
        return "none for a model with one seed, which cannot show what seeds differ by"
    if curves.items is not None:
        return "95 %, over seeds and items (of tasks with scores of items)"
    known = {"stderr", "items"} & {*curves.points.dropna(axis=1, how="all")}
    return "95 %, over seeds and " + (
        "the standard errors of the scores, as if no two models shared items: rather too wide"
        if known
        else "not over items, of which nothing is known"
    )
