"""Enter what a plan has made into the results database: the only place where outputs become rows of
its tables."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dreamer_study.flows.plan.study_plan import Evaluation, Plan, Run
from dreamer_study.flows.progress.reports import read_progress
from dreamer_study.flows.running.curation import curation_counts
from dreamer_study.flows.running.curation_warnings import unmarked
from dreamer_study.flows.study.configuration import OF_THE_MACHINE
from dreamer_study.model.checkpoints.checksums import read_checkpoint
from dreamer_study.model.evaluation.metrics import COLUMNS
from dreamer_study.model.training.config import HOW_FAR, HOW_IT_RUNS
from dreamer_study.model.training.provenance import package_version
from dreamer_study.model.training.step_log import read_record
from dreamer_study.pipeline.benchmarks.benchmark import PERPLEXITIES
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import canonical, digest
from dreamer_study.pipeline.storage.integrity import check, read_manifest
from dreamer_study.pipeline.worlds.tasks import REPOSITORY
from dreamer_study.pipeline.worlds.world import WORLD_LICENCE
from dreamer_study.sql.ingest import forget_differing, ingest, replace_computed
from dreamer_study.sql.names import UNDER_WAY
from dreamer_study.sql.results import connect

# Tables of an evaluation's rows; which files are there depends on what the study asks for.
EVALUATION_TABLES = (*COLUMNS, "depth_evaluations", "raw_evaluations")
PACKAGES = (
    "torch",
    "lm-eval",
    "datasets",
    "datasketch",
    "tokenizers",
    "duckdb",
    "prefect",
    "numpy",
    "pyarrow",
)
WAITING, TRAINING, EVALUATING = UNDER_WAY
COMPLETE, SCREENED, FAILED = "complete", "screened", "failed"
# seconds that a writer waits for the results file before the rows wait and the study goes on
PATIENCE = 5.0


def outputs_of(plan: Plan) -> list[dict[str, Any]]:
    """List the outputs that have rows in the results of a study, as sql/ledger.py knows them."""
    names = (
        "study",
        "claims",
        "computed_factors",
        *(["tuning"] if plan.study.training.tune else []),
    )
    study = [{"output": name, "task": name} for name in names]
    runs = [_run_output(run) for run in plan.runs]
    evaluations = [
        _evaluation_output(one) for run in plan.runs for one in plan.evaluations(run) if one.done
    ]
    return [{"study_id": plan.study.study_id, **output} for output in (*study, *runs, *evaluations)]


def _run_output(run: Run) -> dict[str, Any]:
    return {"output": f"runs/{run.run_id}", "run_id": run.run_id}


def _evaluation_output(one: Evaluation) -> dict[str, Any]:
    place = {"run_id": one.run.run_id, "tokens": one.checkpoint.tokens, "task": one.benchmark}
    return {
        "output": f"evaluations/{one.key}",
        **place,
        "digest": digest(read_manifest(one.folder)),
    }


def forget_wrong(plan: Plan) -> set[str]:
    """Delete rows that are not those that were entered; returns the names of the outputs whose rows
    are whole."""
    outputs = outputs_of(plan)
    wrong = forget_differing(_database(plan), outputs, wait=PATIENCE)
    return {output["output"] for output in outputs} - set(wrong)


def enter_study(plan: Plan) -> None:
    """Enter the rows of `studies`, `curation`, `sources` and `models`, and of benchmarks that the
    study overrides."""
    study = plan.study
    versions = {name: metadata.version(name) for name in PACKAGES} | {
        "python": platform.python_version()
    }
    settings = study.model_dump(mode="json", exclude=OF_THE_MACHINE)
    row = {
        "study_id": study.study_id,
        "name": study.name,
        "config": canonical({"study": settings, "packages": versions, "examples": _examples(plan)}),
        "code_version": package_version(),
        "created_at": datetime.now(UTC).replace(tzinfo=None),
        "baseline": study.models.compared_with,
    }
    known, order = {"study_id": study.study_id}, [variant.name for variant in study.models.variants]
    models = []
    for model in plan.models:
        row_of_model = {**vars(model), **known, "place": order.index(model.variant) + 1}
        remarks = row_of_model.pop("remarks")
        config = {**model.config.to_dict(), **({"remarks": "; ".join(remarks)} if remarks else {})}
        models.append({**row_of_model, "config": canonical(config)})
    curation = [{"study_id": study.study_id, **count} for count in curation_counts(plan.data)]
    tables = {"studies": [row], "models": models, "curation": curation, "sources": _sources(plan)}
    tables["benchmarks"] = _overridden_benchmarks(plan)
    _enter(
        plan,
        {name: _table(rows) for name, rows in tables.items() if rows},
        [{"output": "study", "task": "study"}],
    )


def _examples(plan: Plan) -> dict[str, list[str]]:
    """Return the first question of each benchmark, and its answer."""
    items = pq.read_table(
        plan.data.items.path / "items.parquet", columns=["benchmark", "question", "answer"]
    )
    return {
        row["benchmark"]: [row["question"], row["answer"]] for row in reversed(items.to_pylist())
    }


def enter_runs(plan: Plan) -> None:
    """Enter the rows of runs and of what is recorded of them, and `claims`: which evaluations are
    the study's."""
    runs = plan.runs
    records, apart = [read_record(run.folder) for run in runs], ("seed", *HOW_FAR, *HOW_IT_RUNS)
    rows = [_run_row(plan, run, *record) for run, record in zip(runs, records, strict=True)]
    details = [
        {
            "run_id": run.run_id,
            "devices": read_progress(run.folder / "progress.json").get("ranks"),
            "failure": run.failure or None,
            "recipe": canonical(
                {key: value for key, value in run.content["training"].items() if key not in apart}
            ),
        }
        for run in runs
    ]
    checkpoints = [one for run in runs for one in _checkpoints(run)]
    tables: dict[str, Any] = {"runs": _table(rows), "run_details": _table(details)}
    if checkpoints:
        tables["checkpoints"] = _table(checkpoints)
    if records:
        tables["steps"] = pa.concat_tables(
            [steps for _, steps in records], promote_options="default"
        )
    _enter(plan, tables, [_run_output(run) for run in runs])
    claimed = [
        {
            "study_id": plan.study.study_id,
            "run_id": run.run_id,
            "tokens": one.checkpoint.tokens,
            "task": one.benchmark,
        }
        for run in runs
        if not run.failure
        for one in plan.evaluations(run)
        if one.done
    ]
    with closing(connect(_database(plan), wait=PATIENCE)) as connection:
        claims = pd.DataFrame(claimed, columns=["study_id", "run_id", "tokens", "task"])
        replace_computed(connection, "claims", plan.study.study_id, claims)
        if plan.study.training.tune:
            searched = pd.DataFrame(plan.search or plan.searched(plan.tuning_runs))
            replace_computed(
                connection,
                "tuning",
                plan.study.study_id,
                searched.assign(study_id=plan.study.study_id),
            )


def enter_evaluations(plan: Plan, evaluations: Sequence[Evaluation]) -> None:
    """Enter the rows of finished evaluations. Raises InputError for files that were changed after
    they were written."""
    folders = [one.folder for one in evaluations]
    for folder in folders:
        check(folder)
    tables = {
        table: [path for folder in folders if (path := folder / f"{table}.parquet").exists()]
        for table in EVALUATION_TABLES
    }
    _enter(plan, tables, [_evaluation_output(one) for one in evaluations])


def compute_intervals(plan: Plan, *, most_replicates: int | None = None) -> None:
    """Compute the intervals of the factors from all evaluations that are in the results.

    With `most_replicates` at most so many resamples of the items are drawn, where the study asks
    for more.
    """
    # with scipy, which a status need not wait for
    from dreamer_study.sql.statistics.compute import compute_statistics

    wanted = plan.study.evaluation.bootstrap_replicates
    replicates = wanted if most_replicates is None else min(wanted, most_replicates)
    with closing(connect(_database(plan), wait=PATIENCE)) as connection:
        compute_statistics(connection, plan.study.study_id, replicates=replicates)


def status_of(plan: Plan, run: Run) -> str:
    """Return the status of a run in the results."""
    if run.failure:
        return FAILED
    if run.status == "screened":
        return SCREENED
    if run.status == "chosen" and run.done:
        return COMPLETE if all(one.done for one in plan.evaluations(run)) else EVALUATING
    return TRAINING if (run.folder / "progress.json").exists() else WAITING


def _run_row(plan: Plan, run: Run, recorded: Mapping[str, Any], steps: pa.Table) -> dict[str, Any]:
    """Make the row of `runs`: what the training has recorded, where it has, with the status that
    the study sees.

    A run that has gone further for another study counts as far as this study wants.
    """
    ends = {}
    if (
        run.done
        and run.status == "chosen"
        and (further := _checkpoints(run)[-1])["tokens"] < recorded.get("tokens", 0)
    ):
        ends = {name: further[name] for name in ("tokens", "seconds", "stream_hash")}
    if run.done and run.status in ("racing", "screened") and recorded.get("tokens", 0) > run.goal:
        (end,) = steps.filter(pc.field("tokens") >= run.goal).slice(0, 1).to_pylist()
        if end["tokens"] < recorded["tokens"]:
            ends = {"tokens": end["tokens"], "seconds": end["seconds"], "stream_hash": None}
    known = {
        "run_id": run.run_id,
        "seed": run.seed,
        "model_id": run.model.model_id,
        "study_id": plan.study.study_id,
    }
    return {
        **recorded,
        **ends,
        **known,
        "status": status_of(plan, run),
        "learning_rate": run.learning_rate,
    }


def _checkpoints(run: Run) -> list[dict[str, Any]]:
    """Make the rows of `checkpoints`."""
    names = ("run_id", "tokens", "step", "epoch", "loss", "seconds", "stream_hash")
    values = [read_checkpoint(one.folder) for one in run.written]
    return [{name: one[name] for name in names} for one in values]


def _sources(plan: Plan) -> list[dict[str, Any]]:
    """Make the rows of `sources` from what reading and stripping each source have written down."""
    rows = []
    for one in plan.data.sources:
        origin = one.source.repository or ", ".join(one.source.files)
        known = {
            "repository": origin,
            "revision": one.source.revision,
            "licence": one.source.licence,
        }
        if one.source.repository == REPOSITORY:
            # Not in the source's entry, where it would give every output of the world another key.
            known["licence"] = WORLD_LICENCE
        name = one.source.name
        found = {
            "commit": one.documents.results.get("commit"),
            "unmarked": unmarked(one.traces).get(name, 0),
        }
        rows.append({"study_id": plan.study.study_id, "source": name, **known, **found})
    return rows


def _overridden_benchmarks(plan: Plan) -> list[dict[str, Any]]:
    """Make the rows of `benchmarks` for tasks of which the study says what the table does not.

    That is another metric as the accuracy, or the accuracy of the best trivial rule.
    """
    with closing(connect(_database(plan), wait=PATIENCE)) as connection:
        rows = connection.execute("SELECT task, metric, filter FROM benchmarks").fetchall()
    known = {task: (metric, filter) for task, metric, filter in rows}
    wanted = {task["benchmark"]: task for task in plan.tasks if task["metric"] not in PERPLEXITIES}
    reason = f"said by {plan.study.name}"
    parts = ("metric", "filter", "chance", "family", "trivial")
    return [
        {"task": name, **{part: task[part] for part in parts if part in task}, "reason": reason}
        for name, task in wanted.items()
        if "trivial" in task or known.get(name) != (task["metric"], task["filter"])
    ]


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make a table with the columns of all rows: a run that has not begun has fewer than the
    others."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def _enter(plan: Plan, tables: dict[str, Any], outputs: Sequence[dict[str, Any]]) -> None:
    made = [{"study_id": plan.study.study_id, **output} for output in outputs]
    ingest(
        _database(plan),
        {name: rows for name, rows in tables.items() if len(rows)},
        outputs=made,
        wait=PATIENCE,
    )


def _database(plan: Plan) -> Path:
    """Return the results file, whose folder a connection would make anew. Raises InputError for a
    folder moved away."""
    if not plan.study.folder.is_dir():
        raise InputError(f"{plan.study.folder}: no such folder; was it moved?")
    return plan.study.database
