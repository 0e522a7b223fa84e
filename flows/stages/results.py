"""What a study knows, as rows of the results database: the only place where stage outputs become tables."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows.stages.evaluate import result_folders
from flows.stages.prepare import Prepared
from flows.stages.train import Planned, Run
from flows.study.configuration import Study
from model.training.provenance import package_version
from pipeline.storage.store import Output, canonical
from sql.results import connect, ingest
from sql.statistics.compute import compute_statistics

# What an evaluation leaves: the first three always, the others as far as the study asks for them.
FOUND = (
    "evaluations",
    "items",
    "evaluation_versions",
    "depth_evaluations",
    "depth_attention",
    "expert_usage",
)
PACKAGES = ("torch", "lm-eval", "datasets", "datasketch", "tokenizers", "duckdb", "prefect", "numpy", "pyarrow")


def enter_study(study: Study, prepared: Prepared) -> None:
    """The rows of `studies` and `curation`."""
    versions = {name: metadata.version(name) for name in PACKAGES} | {"python": platform.python_version()}
    row = {
        "study_id": study.study_id,
        "name": study.name,
        "config": canonical({"study": study.model_dump(mode="json", exclude={"root", "store"}), "packages": versions}),
        "code_version": package_version(),
        "created_at": datetime.now(UTC).replace(tzinfo=None),
    }
    curation = [
        {"study_id": study.study_id, "stage": output.stage, "tokens": None, **count}
        for output in prepared.stages
        for count in output.results["counts"]
    ]
    tables = {"studies": pa.Table.from_pylist([row]), "curation": pa.Table.from_pylist(curation)}
    declared = _declared(study, prepared)
    ingest(study.database, {**tables, **({"benchmarks": pa.Table.from_pylist(declared)} if declared else {})})


def _declared(study: Study, prepared: Prepared) -> list[dict[str, Any]]:
    """Rows of `benchmarks` for what the study file says otherwise than the table: which metric is a task's accuracy."""
    with closing(connect(study.database)) as connection:
        rows = connection.execute("SELECT task, metric, filter FROM benchmarks").fetchall()
    known = {task: (metric, filter) for task, metric, filter in rows}
    wanted = {task["benchmark"]: task for task in prepared.specifications if "perplexity" not in task["metric"]}
    return [
        {"task": name, **{key: task[key] for key in ("metric", "filter", "chance")}, "reason": f"said by {study.name}"}
        for name, task in wanted.items()
        if known.get(name) != (task["metric"], task["filter"])
    ]


def enter_runs(study: Study, planned: Sequence[Planned], runs: Sequence[Run]) -> None:
    """The rows of `models`, `runs`, `steps` and `checkpoints`."""
    enter_rows(study, planned, [(run.planned.model_id, run.status, run.folder / "rows") for run in runs], [])


def enter_evaluations(study: Study, outputs: Mapping[str, Output]) -> None:
    """The rows of all that evaluation finds, and the intervals and curves computed from them."""
    enter_rows(
        study, [], [], [folder for output in outputs.values() for folder in result_folders(output.path / "results")]
    )


def enter_rows(
    study: Study, planned: Sequence[Planned], runs: Sequence[tuple[str, str, Path]], evaluations: Sequence[Path]
) -> None:
    """Enter models, runs (model_id, status and `rows` folder of each) and the `rows` folders of evaluations.

    With evaluations, the intervals of the data-efficiency factors and the fitted curves are computed anew.
    """
    models = [
        {
            "study_id": study.study_id,
            "model_id": model.model_id,
            "variant": model.variant,
            "depth": model.depth,
            "parameters": model.parameters,
            "flops_per_token": model.flops_per_token,
            "memory_bytes": model.memory_bytes,
            "config": canonical(model.config.to_dict()),
        }
        for model in planned
    ]
    trained = [
        {**row, "study_id": study.study_id, "model_id": model_id, "status": status}
        for model_id, status, folder in runs
        for row in pq.read_table(folder / "runs.parquet").to_pylist()
    ]
    tables: dict[str, Any] = {
        "models": pa.Table.from_pylist(models) if models else [],
        "runs": pa.Table.from_pylist(trained) if trained else [],
        "steps": [folder / "steps.parquet" for _, _, folder in runs],
        "checkpoints": _checkpoints([folder.parent for _, _, folder in runs]),
        **{
            table: [path for folder in evaluations if (path := folder / f"{table}.parquet").exists()] for table in FOUND
        },
    }
    ingest(study.database, {name: rows for name, rows in tables.items() if len(rows)})
    if evaluations and study.evaluation.bootstrap_replicates:
        with closing(connect(study.database)) as connection:
            compute_statistics(connection, study.study_id, replicates=study.evaluation.bootstrap_replicates)


def _checkpoints(runs: Sequence[Path]) -> pa.Table | list[Any]:
    """The rows of `checkpoints`, as far as the models are there: rows may have been brought here without them."""
    names = ("run_id", "tokens", "step", "epoch", "loss", "seconds", "stream_hash")
    files = [path for run in runs for path in sorted(run.glob("checkpoints/[0-9]*/checkpoint.json"))]
    said = [json.loads(path.read_text()) for path in files]
    return pa.Table.from_pylist([{name: one[name] for name in names} for one in said]) if said else []
