"""Ingest stage outputs into the results database: the only place where they become rows of its tables."""

from __future__ import annotations

import json
import platform
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.running import progress
from flows.running.patience import LABEL, patiently
from flows.running.processes import read_progress
from flows.stages.losses import unmarked
from flows.stages.models import PlannedModel
from flows.stages.outputs import Evaluated, Prepared, Run, Trained
from flows.study.configuration import Study
from model.evaluation.metrics import COLUMNS
from model.training.origins.provenance import package_version
from pipeline.errors import InputError
from pipeline.storage.store import canonical
from pipeline.worlds.world import WORLD_LICENCE, WORLD_SOURCE
from sql.ingest import forget, ingest
from sql.results import Busy, connect
from sql.statistics.compute import compute_statistics

# Tables of an evaluation's `rows` folder; which files are there depends on what the study asks for.
EVALUATION_TABLES = (*COLUMNS, "depth_evaluations", "raw_evaluations")
PACKAGES = ("torch", "lm-eval", "datasets", "datasketch", "tokenizers", "duckdb", "prefect", "numpy", "pyarrow")

PATIENCE = 5.0  # seconds that a stage waits for the results file before its rows wait and the study goes on
ENTERING = threading.RLock()  # training and evaluation go on side by side, and one of them writes at a time


def ingest_stages(
    study: Study,
    prepared: Prepared,
    planned: Sequence[PlannedModel] = (),
    trained: Trained | None = None,
    evaluated: Evaluated | None = None,
) -> None:
    """Ingest the rows of the latest stage given, and those of earlier stages that still wait.

    Where another program holds the results file, the rows of data and training wait: all rows are in the store, and a
    mark in the study's folder says that a later stage has to ingest them. Rows of evaluations wait until the file is
    free.
    """
    work = {"prepared": lambda: ingest_study(study, prepared)}
    if trained:
        work["trained"] = lambda: ingest_runs(study, planned, trained)
    if trained and evaluated:
        work["evaluated"] = lambda: ingest_evaluations(study, trained, evaluated)
    marks = {stage: not_ingested(study, stage) for stage in work}
    marks[list(work)[-1]].touch()
    with ENTERING:
        for stage, mark in marks.items():
            if not mark.exists():
                continue
            try:
                patiently(work[stage]) if evaluated else work[stage]()
            except Busy as busy:
                progress.report(LABEL, 0.0, f"{busy}; rows wait, the study goes on")
                return
            mark.unlink()


def _database(study: Study) -> Path:
    """Return the results file, whose folder a connection would make anew. Raises InputError for a folder moved away."""
    if not study.folder.is_dir():
        raise InputError(f"{study.folder}: no such folder; was it moved?")
    return study.database


def not_ingested(study: Study, stage: str) -> Path:
    """Return the file that marks rows of a stage as not ingested yet, or not in their final state."""
    return study.folder / f".{stage}-not-ingested"


def ingest_study(study: Study, prepared: Prepared) -> None:
    """Ingest the rows of `studies`, `curation` and `sources`, and of benchmarks that the study overrides."""
    versions = {name: metadata.version(name) for name in PACKAGES} | {"python": platform.python_version()}
    row = {
        "study_id": study.study_id,
        "name": study.name,
        "config": canonical({"study": study.model_dump(mode="json", exclude={"root", "store"}), "packages": versions}),
        "code_version": package_version(),
        "created_at": datetime.now(UTC).replace(tzinfo=None),
    }
    curation = [{"study_id": study.study_id, **count} for count in prepared.counts()]
    tables = {"studies": [row], "curation": curation, "sources": _sources(study, prepared)}
    tables["benchmarks"] = _overridden_benchmarks(study, prepared)
    _ingest(study, tables)


def _sources(study: Study, prepared: Prepared) -> list[dict[str, Any]]:
    """Make the rows of `sources` from what reading and stripping each source have written down."""
    rows = []
    without_marks: dict[str, int] = {}
    for output in prepared.stages:
        if output.stage == "traces":
            without_marks |= unmarked(output)
    for output in prepared.stages:
        if output.stage == "documents":
            source = output.manifest["configuration"]["source"]
            known = {name: source[name] for name in ("repository", "revision", "licence")}
            known["commit"] = output.results["commit"]
            if source["repository"] == WORLD_SOURCE["repository"]:
                # Not in the source's entry, where it would give every output of the world another key.
                known["licence"] = WORLD_LICENCE
            known["unmarked"] = without_marks.get(source["name"], 0)
            rows.append({"study_id": study.study_id, "source": source["name"], **known})
    return rows


def _overridden_benchmarks(study: Study, prepared: Prepared) -> list[dict[str, Any]]:
    """Make the rows of `benchmarks` for tasks whose accuracy is another metric in the study file than in the table."""
    with closing(connect(_database(study))) as connection:
        rows = connection.execute("SELECT task, metric, filter FROM benchmarks").fetchall()
    known = {task: (metric, filter) for task, metric, filter in rows}
    wanted = {task["benchmark"]: task for task in prepared.tasks if not _is_loss(task["metric"])}
    return [
        {"task": name, **{key: task[key] for key in ("metric", "filter", "chance")}, "reason": f"said by {study.name}"}
        for name, task in wanted.items()
        if known.get(name) != (task["metric"], task["filter"])
    ]


def _is_loss(metric: str) -> bool:
    return "perplexity" in metric or metric == "bits_per_byte"


def ingest_runs(study: Study, planned: Sequence[PlannedModel], trained: Trained) -> None:
    """Ingest the rows of `models`, `runs`, `steps`, `checkpoints` and `run_details`."""
    models = [
        {**vars(model), "study_id": study.study_id, "config": canonical(model.config.to_dict())} for model in planned
    ]
    begun = [run for run in trained.runs if (run.folder / "rows" / "runs.parquet").exists()]
    rows = [
        {**row, "study_id": study.study_id, "model_id": run.model_id, "status": run.status}
        for run in begun
        for row in pq.read_table(run.folder / "rows" / "runs.parquet").to_pylist()
    ]
    steps = [run.folder / "rows" / "steps.parquet" for run in begun]
    _ingest(study, {"models": models, "runs": rows, "steps": steps, "checkpoints": _checkpoints(begun)})
    names = ("run_id", "model_id", "seed", "status")
    unbegun = [
        {"study_id": study.study_id, **{name: getattr(run, name) for name in names}}
        for run in trained.runs
        if run not in begun
    ]
    details = [
        {
            "run_id": run.run_id,
            "devices": read_progress(run.folder / "progress.json").get("ranks"),
            "failure": run.failure or None,
        }
        for run in trained.runs
    ]
    _ingest(study, {"runs": unbegun, "run_details": details})


def ingest_evaluations(study: Study, trained: Trained, evaluated: Evaluated) -> None:
    """Ingest all rows of the evaluations, then compute the mean factors.

    Some checkpoints of a run whose evaluation has failed may have been entered while it went on: they would be a
    curve that ends early, so their rows go.
    """
    unfinished = [run.run_id for run in trained.runs if run.run_id not in evaluated.outputs]
    if unfinished:
        forget(_database(study), EVALUATION_TABLES, unfinished, wait=PATIENCE)
    ingest_evaluation_rows(study, evaluated.row_folders())
    compute_intervals(study)


def ingest_evaluation_rows(study: Study, folders: Sequence[Path]) -> None:
    """Ingest the `rows` folders of evaluations."""
    files = {table: [folder / f"{table}.parquet" for folder in folders] for table in EVALUATION_TABLES}
    _ingest(study, {table: [path for path in paths if path.exists()] for table, paths in files.items()})


def compute_intervals(study: Study, *, most_replicates: int | None = None) -> None:
    """Compute the mean factors and their intervals from all evaluations that are in the results.

    With `most_replicates` at most so many resamples of the items are drawn, where the study asks for more.
    """
    wanted = study.evaluation.bootstrap_replicates
    replicates = wanted if most_replicates is None else min(wanted, most_replicates)
    with closing(connect(_database(study), wait=PATIENCE)) as connection:
        compute_statistics(connection, study.study_id, replicates=replicates)


def _checkpoints(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Make the rows of `checkpoints`."""
    names = ("run_id", "tokens", "step", "epoch", "loss", "seconds", "stream_hash")
    files = [path for run in runs for path in sorted(run.folder.glob("checkpoints/[0-9]*/checkpoint.json"))]
    return [{name: one[name] for name in names} for one in (json.loads(path.read_text()) for path in files)]


def _ingest(study: Study, tables: Mapping[str, Sequence[Any]]) -> None:
    """Ingest what each table is given: rows, or paths of Parquet files; nothing of a table without any."""
    given = {
        name: rows if isinstance(rows[0], Path) else pa.Table.from_pylist(rows) for name, rows in tables.items() if rows
    }
    ingest(_database(study), given, wait=PATIENCE)
