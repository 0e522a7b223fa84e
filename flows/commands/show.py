"""What the `dreamer` command prints: tables of results, how far a study is, which data sets are known."""

from __future__ import annotations

import json
import math
import sys
from numbers import Integral
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from flows.running.processes import read_progress
from flows.study.configuration import Study
from pipeline.benchmarks.table import BENCHMARKS
from pipeline.sources.table import SOURCES
from sql.results import query


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever reads our output (head, less) has gone: the command ends well, where rich would end it with 1."""
        raise BrokenPipeError


# In a pipe there is no terminal to fit into: a row is one line, however long. Brackets in data are no markup.
console = _Console(width=None if sys.stdout.isatty() else 240, highlight=False, markup=False)

OUTCOME = """
SELECT d.depth, d.variant, d.task, d.baseline_accuracy, d.baseline_tokens, d.variant_tokens, d.factor, d.bound,
       i.low, i.high, d.near_chance
FROM data_efficiency AS d
LEFT JOIN factor_intervals AS i
    ON (i.study_id, i.depth, i.variant, i.task, i.rule) = (d.study_id, d.depth, d.variant, d.task, 'first')
WHERE d.study_id = '{study_id}'
ORDER BY d.depth, d.task = 'average' DESC, d.task, d.variant
"""


def print_table(table: pd.DataFrame) -> None:
    """A data frame as a table, numbers to the right."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        shown.add_column(str(column), justify="right" if pd.api.types.is_numeric_dtype(table[column]) else "left")
    for row in table.itertuples(index=False):
        shown.add_row(*(_text(value) for value in row))
    console.print(shown)


def _text(value: Any) -> str:
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float) and math.isinf(value):
        return "unbounded"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:,.0f}"
    if isinstance(value, Integral) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def print_outcome(study: Study) -> None:
    """The end of a run: the data-efficiency table and where everything is."""
    table = query(study.database, OUTCOME.format(study_id=study.study_id))
    console.print(f"\nData efficiency of {study.study_id}: the tokens LA needs for its best accuracy,")
    console.print("over the tokens the variant needs for the same accuracy\n")
    print_table(table.rename(columns={"low": "95 % low", "high": "high"}))
    console.print(f"\nreport   {study.report.resolve()}", soft_wrap=True)
    console.print(f"results  {study.database.resolve()}", soft_wrap=True)


def print_status(study: Study) -> None:
    """The stages of a study's store that are done or under way, and what is in its results."""
    if not study.store_folder.is_dir():
        console.print(f"{study.name}: not started; nothing in {study.store_folder}")
        return
    rows = []
    for folder in sorted(study.store_folder.glob("*/*/")):
        if folder.name.endswith(".partial"):
            rows.append((folder.parent.name, folder.name.removesuffix(".partial"), "under way", _words(folder)))
        elif (folder / "manifest.json").exists():
            manifest = json.loads((folder / "manifest.json").read_text())
            rows.append((manifest["stage"], manifest["key"], "done", f"{manifest['seconds']:,.1f} s"))
    print_table(pd.DataFrame(rows, columns=["stage", "key", "state", "detail"]))
    if study.database.exists():
        counts = (
            "SELECT count(*) AS evaluations, count(DISTINCT run_id) AS runs, max(tokens) AS tokens FROM evaluations"
        )
        print_table(query(study.database, counts))


def _words(folder: Any) -> str:
    """How far a training or evaluation is that has not finished."""
    runs = {path.parent.name: read_progress(path) for path in sorted(folder.glob("seed*/progress.json"))}
    if runs:
        told = (f"{name}: {run.get('tokens', 0):,} of {run.get('target', 0):,} tokens" for name, run in runs.items())
        return ", ".join(told)
    evaluation = read_progress(folder / "results" / "progress.json")
    return f"{evaluation['done']} of {evaluation['total']}" if evaluation.get("total") else ""


def print_sources(*, long: bool) -> None:
    """The two declarative tables, with licences and gates."""
    rows = [
        {
            "source": name,
            "repository": source.repository,
            "split": f"{' '.join(source.configurations)}/{source.split}",
            "licence": source.licence,
            "access": "gated" if source.gated else "open",
            **(
                {
                    "use": source.use,
                    "revision": source.revision or "-",
                    "question": source.question,
                    "response": source.response,
                }
                if long
                else {}
            ),
        }
        for name, source in SOURCES.items()
    ]
    print_table(pd.DataFrame(rows))
    console.print()
    tasks = [
        {
            "benchmark": name,
            "repository": b.repository,
            "split": b.split,
            "lm-eval tasks": " ".join(b.tasks.values()),
            "accuracy": f"{b.metric},{b.filter}",
        }
        for name, b in BENCHMARKS.items()
    ]
    print_table(pd.DataFrame(tasks))
