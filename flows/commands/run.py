"""`dreamer run`: the same flows in this process, with a Prefect server only for as long as they run."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path

from flows.running import progress
from flows.study.configuration import BUILTIN, Study
from pipeline.storage.store import Missing, Store


def is_complete(study: Study) -> bool:
    """Whether every stage is in the store, its rows in the database, and the report written."""
    from flows.stages.evaluate import evaluate_runs
    from flows.stages.prepare import prepare_data
    from flows.stages.train import plan_models, train_models
    from sql.results import query

    if not (study.report.exists() and study.database.exists()):
        return False
    store = Store(study.store_folder, builds=False)
    try:
        prepared = prepare_data(study, store)
        planned = plan_models(study, prepared.vocabulary_size)
        runs = train_models(study, store, prepared.packed, planned)
        evaluate_runs(study, store, prepared, runs)
    except Missing:
        return False
    factors = query(study.database, f"SELECT count(*) AS n FROM data_efficiency WHERE study_id = '{study.study_id}'")
    return bool(factors["n"][0]) and study.study_id in study.report.read_text()


def preflight(study: Study) -> None:
    """What can be known to fail before anything starts: impossible models, data that are nowhere, a locked file.

    Raises InputError.
    """
    from flows.stages.prepare import locate_benchmarks, locate_sources
    from flows.stages.train import plan_models, ranks_of_each
    from pipeline.sources.source import notices
    from pipeline.sources.table import resolve_source
    from sql.results import connect

    for entry in study.data.sources:
        for notice in notices(resolve_source(entry)) if entry != BUILTIN else ():
            print(f"licence: {notice}", file=sys.stderr)
    planned = plan_models(study, study.data.tokenizer.vocabulary_size or 1024)
    ranks_of_each(study, len(planned))
    locate_sources(study, None)
    locate_benchmarks(study)
    study.folder.mkdir(parents=True, exist_ok=True)
    connect(study.database).close()


def run_in_process(study: Study, name: str, mirror: Path | None, root: Path | None) -> None:
    """Run `full-study` here: on the Prefect server of the project's settings when one answers, else on one of our own
    that lives as long as the run."""
    settings = {
        "PREFECT_HOME": str((study.folder / ".prefect").resolve()),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",  # what went wrong reaches the user as our own error, once
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        "DO_NOT_TRACK": "1",
    }
    for key, value in settings.items():
        os.environ.setdefault(key, value)
    from flows.prefect.serve import allow_loopback, healthy, own_server

    allow_loopback()
    from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

    from flows.full_study import full_study

    configured = get_current_settings().api.url
    progress.report("Prefect's server", 0.0, "starting")
    with nullcontext(configured) if configured and healthy(configured) else own_server() as address:
        progress.report("Prefect's server", 1.0, address)
        with temporary_settings({PREFECT_API_URL: address}):
            full_study(study=name, mirror=str(mirror) if mirror else None, root=str(root) if root else None)
