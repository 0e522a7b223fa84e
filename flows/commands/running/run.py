"""`dreamer run`: run the flow `full-study` in this process, on a Prefect server that lives as long as the run."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.commands.data.sources import print_notices
from flows.commands.planning.data_plan import amount, data_bytes
from flows.commands.tables import print_outcome, read_outcome
from flows.prefect.in_process import run_in_process
from flows.running import progress
from flows.running.patience import patiently
from flows.running.single import only_run
from flows.stages.checks import check_study, study_warnings
from flows.stages.evaluate import evaluate_runs
from flows.stages.losses import say
from flows.stages.models import plan_models
from flows.stages.prepare import prepare_data
from flows.stages.sources import locate_benchmarks, locate_sources
from flows.stages.train import train_models
from flows.study.configuration import BUILTIN, Study
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.sources.table import resolve_source
from pipeline.storage.store import Missing, Store
from sql.results import Busy, connect, query


def run(options: argparse.Namespace) -> None:
    """Run a study to its report unless it is complete, then print its data-efficiency factors."""
    study = load_study(options.study, mirror=options.mirror, root=options.root)
    if is_complete(study):
        progress.write_line(f"Nothing to do: {study.study_id} is complete.")
        say(study_warnings(study))
    else:
        with progress.on_terminal(), only_run(study, follow=options.follow):  # progress of downloads too
            if not (options.follow and is_complete(study)):
                preflight(study, trust_code=options.trust_code)
                with _staying(study.folder):
                    run_in_process(study, **flow_arguments(options))
    with progress.on_terminal():
        outcome = patiently(lambda: read_outcome(study))
    print_outcome(study, *outcome)


@contextmanager
def _staying(folder: Path) -> Iterator[None]:
    """Say what to do where a folder is moved or removed during the block. Raises InputError.

    What fails first differs from stage to stage, and a stage may have made the folder anew.
    """
    held, before = os.open(folder, os.O_RDONLY), folder.stat()  # while open, no other folder gets the inode's number
    try:
        yield
    except Exception:
        if folder.exists() and os.path.samestat(before, folder.stat()):
            raise
        first = "; another folder is there now, to be moved away first" if folder.exists() else ""
        raise InputError(
            f"{folder} was moved or removed while the study ran; move it back and run the same command again, or give "
            f"its new place by --root{first}"
        ) from None
    finally:
        os.close(held)


def flow_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Take the flow's parameters from the command's options."""
    names = ("study", "mirror", "root", "accept_code_change", "trust_code")
    given = {name: getattr(options, name) for name in names}
    return {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}


def is_complete(study: Study) -> bool:
    """Check that every output is in the store, its rows in the database, and the report written."""
    if not (study.report.exists() and study.database.exists()) or list(study.folder.glob(".*-not-*")):
        return False
    store = Store(study.store_folder, builds=False)
    try:
        prepared = prepare_data(study, store)
        trained = train_models(study, store, prepared, plan_models(study, prepared.vocabulary_size))
        evaluate_runs(study, store, prepared, trained)
    except Missing:
        return False
    try:
        count = f"SELECT count(*) AS n FROM data_efficiency WHERE study_id = '{study.study_id}'"
        factors = query(study.database, count)
    except Busy:  # the flow waits for the file
        return False
    return bool(factors["n"][0]) and study.study_id in study.report.read_text()


def preflight(study: Study, *, trust_code: bool) -> None:
    """Find what can be known to fail before any work: what `check_study` checks, data that are nowhere.

    Prints notices, and who holds the results file. Raises InputError.
    """
    check_study(study, trust_code=trust_code)
    needed, free = data_bytes(study), shutil.disk_usage(study.store_folder).free
    if needed > free:
        progress.write_line(
            f"{study.store_folder}: the data may need {amount(needed)}, and {amount(free)} are free; "
            f"`dreamer plan {study.arguments}` says what for"
        )
    print_notices(resolve_source(entry) for entry in study.data.sources if entry != BUILTIN)
    locate_sources(study, None)
    locate_benchmarks(study)
    try:
        connect(study.database, wait=1).close()
    except Busy as busy:
        progress.write_line(f"{busy}; rows wait, the study goes on")
