"""`dreamer status`: show which stages of a study are done or under way, and what its results hold."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from flows.commands.tables import console, print_table
from flows.running.processes import read_progress
from flows.running.single import runs_elsewhere
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL
from pipeline.storage.store import Store
from sql.results import query

COUNTS = "SELECT count(*) AS evaluations, count(DISTINCT run_id) AS runs, max(tokens) AS tokens FROM evaluations"


def status(options: argparse.Namespace) -> None:
    """Print one row for each output in the study's store, then the counts of the results."""
    study = load_study(options.study, root=options.root)
    if not study.store_folder.is_dir():
        console.print(f"{study.name}: not started; nothing in {study.store_folder}")
        return
    runner, store, rows = runs_elsewhere(study), Store(study.store_folder), []
    console.print(f"{study.study_id}: " + (f"running ({runner})" if runner else "not running"))
    for folder in sorted(study.store_folder.glob("*/*/")):
        stage, key = folder.parent.name, folder.name.removesuffix(PARTIAL)
        if folder.name.endswith(PARTIAL):
            rows.append((stage, key, "under way" if runner else "stopped", _how_far(folder)))
            continue
        try:
            found = store.find(stage, key)
        except InputError:
            found = None
        done = ("done", f"{found.manifest['seconds']:,.1f} s") if found else ("damaged", "see `dreamer verify`")
        rows.append((stage, key, *done))
    print_table(pd.DataFrame(rows, columns=["stage", "key", "state", "detail"]))
    if study.database.exists():
        print_table(query(study.database, COUNTS))


def _how_far(folder: Path) -> str:
    """Describe the progress of an unfinished training or evaluation."""
    runs = {path.parent.name: read_progress(path) for path in sorted(folder.glob("seed*/progress.json"))}
    if runs:
        done = (f"{name}: {run.get('tokens', 0):,} of {run.get('target', 0):,} tokens" for name, run in runs.items())
        return ", ".join(done)
    evaluation = read_progress(folder / "results" / "progress.json")
    return f"{evaluation['done']} of {evaluation['total']}" if evaluation.get("total") else ""
