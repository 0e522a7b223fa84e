"""Enter what a plan has made into the results database.

This is the only place where outputs become rows of its tables.
"""

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

from dreamer_study.flows.plan.study_plan import Evaluation, Plan, Run
from dreamer_study.flows.running.benchmark_cards import (
    benchmark_cards,
    best_trivial,
    found_before,
    scored_tasks,
)
from dreamer_study.flows.running.curation import curation_counts
from dreamer_study.flows.running.data_rows import (
    benchmark_levels,
    examples_of,
    found_items,
    item_facts,
    items_of,
    mean_bytes_per_token,
    source_rows,
    tasks_in_words,
)
from dreamer_study.flows.running.elsewhere_rows import (
    claims_of_origin,
    outputs_of_origins,
    rows_of_origin,
    searched_elsewhere,
)
from dreamer_study.flows.study.configuration import OF_THE_MACHINE
from dreamer_study.model.checkpoints.checksums import read_checkpoint
from dreamer_study.model.evaluation.metrics import COLUMNS
from dreamer_study.model.training.config import HOW_FAR, HOW_IT_RUNS
from dreamer_study.model.training.provenance import package_version
from dreamer_study.model.training.search import by_rate
from dreamer_study.model.training.step_log import devices_of, read_record
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import canonical, digest
from dreamer_study.pipeline.storage.integrity import check, read_manifest
from dreamer_study.sql.ingest import forget_differing, ingest, replace_computed
from dreamer_study.sql.names import UNDER_WAY
from dreamer_study.sql.results import connect

# Tables with an evaluation's rows; which of their files are there depends on the study.
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
COMPLETE = "complete"
SCREENED = "screened"
FAILED = "failed"
# seconds that a writer waits for the results file before the rows wait and the study continues
PATIENCE = 5.0


def outputs_of(plan: Plan) -> list[dict[str, Any]]:
    """List the outputs that have rows in the results of a study, as sql/ledger.py knows them."""
    names = ["study", "claims", "computed_ratios"]
    if plan.study.training.tune:
        names += ["tuning", "tuning_settings"]
    outputs = [{"output": name, "task": name} for name in names]
    outputs += [_run_output(run) for run in plan.runs]
    outputs += [
        _evaluation_output(evaluation)
        for run in plan.runs
        for evaluation in plan.evaluations(run)
        if evaluation.done
    ]
    outputs += outputs_of_origins(plan)
    return [{"study_id": plan.study.study_id, **output} for output in outputs]


def _run_output(run: Run) -> dict[str, Any]:
    return {"output": f"runs/{run.run_id}", "run_id": run.run_id}


def _evaluation_output(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "output": f"evaluations/{evaluation.key}",
        "run_id": evaluation.run.run_id,
        "tokens": evaluation.checkpoint.tokens,
        "task": evaluation.benchmark,
        "digest": digest(read_manifest(evaluation.folder)),
    }


def forget_wrong(plan: Plan) -> set[str]:
    """Delete rows that differ from those that were entered.

    Returns the names of the outputs whose rows are whole.
    """
    outputs = outputs_of(plan)
    wrong = forget_differing(_database(plan), outputs, wait=PATIENCE)
    return {output["output"] for output in outputs} - set(wrong)


def enter_study(plan: Plan) -> None:
    """Enter the study itself: what it consists of before anything is trained.

    These are the rows of `studies`, `curation`, `sources` and `models`, of benchmarks that the
    study overrides, and of what is known of items in advance.
    """
    study_id = plan.study.study_id
    items = items_of(plan)
    tables = {
        "studies": [_study_row(plan, items)],
        "models": _model_rows(plan),
        "curation": [{"study_id": study_id, **count} for count in curation_counts(plan.data)],
        "sources": source_rows(plan),
        "benchmarks": _overridden_benchmarks(plan),
        "benchmark_levels": benchmark_levels(plan),
        "item_facts": item_facts(plan, items),
        "benchmark_cards": benchmark_cards(plan),
        "study_inputs": [
            {"study_id": study_id, "what": what, "value": value}
            for what, value in plan.inputs.items()
        ],
        "found_items": found_items(plan),
    }
    _enter(
        plan,
        {name: _table(rows) for name, rows in tables.items() if rows},
        [{"output": "study", "task": "study"}],
    )


def enter_origins(plan: Plan) -> None:
    """Enter the rows of the variants that other studies have trained."""
    if not plan.origins:
        return
    outputs = outputs_of_origins(plan)
    tables: dict[str, list[pa.Table]] = {}
    for origin in plan.origins.values():
        for table, rows in rows_of_origin(plan, origin).items():
            tables.setdefault(table, []).append(rows)
    joined = {
        table: pa.concat_tables(parts, promote_options="permissive")
        for table, parts in tables.items()
    }
    _enter(plan, joined, [{"output": "study", "task": "study"}, *outputs])


def _study_row(plan: Plan, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    study = plan.study
    packages = {name: metadata.version(name) for name in PACKAGES}
    packages["python"] = platform.python_version()
    settings = study.model_dump(mode="json", exclude=OF_THE_MACHINE)
    config = {
        "study": settings,
        "packages": packages,
        "examples": examples_of(items),
        "tasks": tasks_in_words(plan),
        "bytes_per_token": mean_bytes_per_token(plan),
    }
    return {
        "study_id": study.study_id,
        "name": study.name,
        "config": canonical(config),
        "code_version": package_version(),
        "created_at": datetime.now(UTC).replace(tzinfo=None),
        "baseline": study.models.compared_with,
    }


def _model_rows(plan: Plan) -> list[dict[str, Any]]:
    study = plan.study
    order = [variant.name for variant in study.models.variants]
    rows = []
    for model in plan.models:
        config = model.config.to_dict()
        if model.remarks:
            config = {**config, "remarks": "; ".join(model.remarks)}
        row = {
            "model_id": model.model_id,
            "variant": model.variant,
            "depth": model.depth,
            "parameters": model.parameters,
            "flops_per_token": model.flops_per_token,
            "memory_bytes": model.memory_bytes,
            "study_id": study.study_id,
            "place": order.index(model.variant) + 1,
            "config": canonical(config),
        }
        rows.append(row)
    return rows


def enter_runs(plan: Plan) -> None:
    """Enter the runs with what their trainings have recorded, and which evaluations are claimed.

    Rows of `claims` say which evaluations of shared runs are this study's.
    """
    runs = plan.runs
    records = [read_record(run.folder) for run in runs]
    rows = [_run_row(plan, run, *record) for run, record in zip(runs, records, strict=True)]
    checkpoints = [row for run in runs for row in _checkpoint_rows(run)]
    tables: dict[str, Any] = {
        "runs": _table(rows),
        "run_details": _table([_details(run) for run in runs]),
    }
    if checkpoints:
        tables["checkpoints"] = _table(checkpoints)
    if records:
        all_steps = [steps for _, steps in records]
        tables["steps"] = pa.concat_tables(all_steps, promote_options="default")
    _enter(plan, tables, [_run_output(run) for run in runs])

    study_id = plan.study.study_id
    claimed = _claims(plan, runs)
    for origin in plan.origins.values():
        of_origin = claims_of_origin(plan, origin)
        claimed += [{"study_id": study_id, **claim} for claim in of_origin]
    claims = pd.DataFrame(claimed, columns=["study_id", "run_id", "tokens", "task"])
    with closing(connect(_database(plan), wait=PATIENCE)) as connection:
        replace_computed(connection, "claims", study_id, claims)
        is_searched = plan.study.training.tune is not None
        rows = (plan.search or plan.searched(plan.tuning_runs)) if is_searched else []
        of_rates = [row for row in rows if "learning_rate" in plan.study.searched(row["variant"])]
        for table, own in (("tuning", by_rate(of_rates)), ("tuning_settings", rows)):
            elsewhere = [
                row
                for origin in plan.origins.values()
                for row in searched_elsewhere(plan, origin, table)
            ]
            named = pd.DataFrame([*own, *elsewhere]).assign(study_id=study_id)
            if is_searched or len(named):
                replace_computed(connection, table, study_id, named)


def _details(run: Run) -> dict[str, Any]:
    """Make the row of `run_details`; its recipe has no seed, nor what changes no result."""
    left_out = ("seed", *HOW_FAR, *HOW_IT_RUNS)
    recipe = {
        name: value for name, value in run.content["training"].items() if name not in left_out
    }
    return {
        "run_id": run.run_id,
        "devices": devices_of(run.folder),
        "failure": run.failure or None,
        "recipe": canonical(recipe),
    }


def _claims(plan: Plan, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Make the rows of `claims`: the finished evaluations of runs that have not failed."""
    return [
        {
            "study_id": plan.study.study_id,
            "run_id": run.run_id,
            "tokens": evaluation.checkpoint.tokens,
            "task": evaluation.benchmark,
        }
        for run in runs
        if not run.failure
        for evaluation in plan.evaluations(run)
        if evaluation.done
    ]


def enter_evaluations(plan: Plan, evaluations: Sequence[Evaluation]) -> None:
    """Enter the rows of finished evaluations.

    Raises InputError for files that were changed after they were written.
    """
    folders = [evaluation.folder for evaluation in evaluations]
    for folder in folders:
        check(folder)
    tables = {}
    for table in EVALUATION_TABLES:
        files = [folder / f"{table}.parquet" for folder in folders]
        tables[table] = [file for file in files if file.exists()]
    _enter(plan, tables, [_evaluation_output(evaluation) for evaluation in evaluations])


def compute_intervals(plan: Plan, *, most_replicates: int | None = None) -> None:
    """Compute the intervals of the factors from all evaluations that are in the results.

    With `most_replicates` no more resamples of the items are drawn, even if the study asks for
    more.
    """
    # with scipy, which a status need not wait for
    from dreamer_study.sql.statistics.compute import compute_statistics

    replicates = plan.study.evaluation.bootstrap_replicates
    if most_replicates is not None:
        replicates = min(replicates, most_replicates)
    with closing(connect(_database(plan), wait=PATIENCE)) as connection:
        compute_statistics(connection, plan.study.study_id, replicates=replicates)


def status_of(plan: Plan, run: Run) -> str:
    """Return the status of a run in the results."""
    if run.failure:
        return FAILED
    if run.status == "screened":
        return SCREENED
    if run.status == "chosen" and run.done:
        evaluated = all(evaluation.done for evaluation in plan.evaluations(run))
        return COMPLETE if evaluated else EVALUATING
    return TRAINING if (run.folder / "progress.json").exists() else WAITING


def _run_row(plan: Plan, run: Run, recorded: Mapping[str, Any], steps: pa.Table) -> dict[str, Any]:
    """Make the row of `runs`: what the training has recorded, with the status for this study.

    A run that was trained further for another study counts as far as this study wants.
    """
    return {
        **recorded,
        **_end_for_this_study(run, recorded.get("tokens", 0), steps),
        "run_id": run.run_id,
        "seed": run.seed,
        "model_id": run.model.model_id,
        "study_id": plan.study.study_id,
        "status": status_of(plan, run),
        "learning_rate": run.learning_rate,
    }


def _end_for_this_study(run: Run, tokens_recorded: int, steps: pa.Table) -> dict[str, Any]:
    """Return tokens, seconds and stream hash at the study's own end of a run.

    Empty where the run was not trained beyond, so that the newest record is its end. The last of
    a run's branches ends later than the run.
    """
    if run.branches and run.written:
        last = _checkpoint_rows(run)[-1]
        if last["tokens"] > tokens_recorded:
            return {name: last[name] for name in ("tokens", "seconds", "stream_hash")}
    if not run.done:
        return {}
    if run.status == "chosen":
        last = _checkpoint_rows(run)[-1]
        trained_on_by_another_study = last["tokens"] < tokens_recorded
        if trained_on_by_another_study:
            return {name: last[name] for name in ("tokens", "seconds", "stream_hash")}
    if run.status in ("racing", "screened") and tokens_recorded > run.goal:
        # the first step that reaches the end of the race
        (step,) = steps.filter(pc.field("tokens") >= run.goal).slice(0, 1).to_pylist()
        if step["tokens"] < tokens_recorded:
            return {"tokens": step["tokens"], "seconds": step["seconds"], "stream_hash": None}
    return {}


def _checkpoint_rows(run: Run) -> list[dict[str, Any]]:
    """Make the rows of `checkpoints`."""
    names = ("run_id", "tokens", "step", "epoch", "loss", "seconds", "stream_hash")
    recorded = [read_checkpoint(checkpoint.folder) for checkpoint in run.written]
    return [{name: values[name] for name in names} for values in recorded]


def _overridden_benchmarks(plan: Plan) -> list[dict[str, Any]]:
    """Make the rows of `benchmarks` for tasks of which the study says what the table does not.

    That is another metric as the accuracy, or the accuracy of the best trivial rule, said by the
    task or measured.
    """
    with closing(connect(_database(plan), wait=PATIENCE)) as connection:
        in_table = connection.execute("SELECT task, metric, filter FROM benchmarks").fetchall()
    accuracies = {task: (metric, filter) for task, metric, filter in in_table}
    found = found_before(plan)
    parts = ("metric", "filter", "chance", "family")
    rows = []
    for name, task in scored_tasks(plan).items():
        is_as_in_table = accuracies.get(name) == (task["metric"], task["filter"])
        trivial, _ = best_trivial(task, found.get(name, {}))
        if trivial is not None or not is_as_in_table:
            said = {part: task[part] for part in parts if part in task}
            reason = f"said by {plan.study.name}"
            rows.append({"task": name, **said, "trivial": trivial, "reason": reason})
    return rows


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make a table with the columns of all rows: a run that has not begun has fewer of them."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def _enter(plan: Plan, tables: dict[str, Any], outputs: Sequence[dict[str, Any]]) -> None:
    entered = [{"study_id": plan.study.study_id, **output} for output in outputs]
    with_rows = {name: rows for name, rows in tables.items() if len(rows)}
    ingest(_database(plan), with_rows, outputs=entered, wait=PATIENCE)


def _database(plan: Plan) -> Path:
    """Return the results file. Raises InputError where the study's folder was moved away.

    A connection would make the folder anew.
    """
    if not plan.study.folder.is_dir():
        raise InputError(f"{plan.study.folder}: no such folder; was it moved?")
    return plan.study.database
