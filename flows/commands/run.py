"""`dreamer run`: run the flow `full-study` in this process, on a Prefect server that lives as long as the run."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from pathlib import Path

from flows.commands.sources import print_notices
from flows.commands.tables import print_outcome
from flows.running import progress
from flows.running.devices import ranks_per_run
from flows.stages.evaluate import evaluate_runs
from flows.stages.models import plan_models
from flows.stages.prepare import prepare_data
from flows.stages.sources import locate_benchmarks, locate_sources
from flows.stages.train import train_models
from flows.study.configuration import BUILTIN, Study
from flows.study.loading import load_study
from pipeline.sources.table import resolve_source
from pipeline.storage.store import Missing, Store
from sql.results import connect, query


def run(options: argparse.Namespace) -> None:
    """Run a study to its report unless it is complete, then print its data-efficiency factors."""
    study = load_study(options.study, mirror=options.mirror, root=options.root)
    if is_complete(study):
        print(f"Nothing to do: {study.study_id} is complete.", file=sys.stderr)
    else:
        with progress.on_terminal():  # of downloads too
            preflight(study)
            run_in_process(study, options)
    print_outcome(study)


def is_complete(study: Study) -> bool:
    """Check that every output is in the store, its rows in the database, and the report written."""
    if not (study.report.exists() and study.database.exists()):
        return False
    store = Store(study.store_folder, builds=False)
    try:
        prepared = prepare_data(study, store)
        trained = train_models(study, store, prepared, plan_models(study, prepared.vocabulary_size))
        evaluate_runs(study, store, prepared, trained)
    except Missing:
        return False
    factors = query(study.database, f"SELECT count(*) AS n FROM data_efficiency WHERE study_id = '{study.study_id}'")
    return bool(factors["n"][0]) and study.study_id in study.report.read_text()


def preflight(study: Study) -> None:
    """Find what can be known to fail before any work: impossible models, data that are nowhere, a locked database.

    Raises InputError.
    """
    print_notices(resolve_source(entry) for entry in study.data.sources if entry != BUILTIN)
    planned = plan_models(study, study.data.tokenizer.vocabulary_size or 1024)
    ranks_per_run(study, len(planned))
    locate_sources(study, None)
    locate_benchmarks(study)
    study.folder.mkdir(parents=True, exist_ok=True)
    connect(study.database).close()


def run_in_process(study: Study, options: argparse.Namespace) -> None:
    """Run `full-study` on the Prefect server of the project's settings if it answers, else on a server of our own."""
    settings = {
        "PREFECT_HOME": str((study.folder / ".prefect").resolve()),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",  # what went wrong reaches the user as our own error, once
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        "DO_NOT_TRACK": "1",
    }
    for key, value in settings.items():
        os.environ.setdefault(key, value)
    # Prefect reads its environment when it is imported.
    from flows.prefect.serve import allow_loopback, healthy, own_server

    allow_loopback()
    from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

    from flows.full_study import full_study

    configured = get_current_settings().api.url
    arguments = {
        name: str(path) if isinstance(path := getattr(options, name), Path) else path
        for name in ("study", "mirror", "root", "accept_code_change")
    }
    progress.report("Prefect's server", 0.0, "starting")
    with nullcontext(configured) if configured and healthy(configured) else own_server() as address:
        progress.report("Prefect's server", 1.0, address)
        with temporary_settings({PREFECT_API_URL: address}):
            full_study(**arguments)
