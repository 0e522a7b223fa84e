"""`dreamer bundle` and `dreamer collect`: take a prepared study to a bare machine, and ingest the rows that come back.

GPU nodes often have torch and no network, no Prefect and no DuckDB. A bundle is a folder of all files that
`python -m model.carried` needs there.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.commands.tables import print_outcome, read_outcome
from flows.running import progress
from flows.running.patience import patiently
from flows.running.single import only_run
from flows.stages.evaluate import job_settings
from flows.stages.ingest import compute_intervals, ingest_rows, ingest_study
from flows.stages.models import describe_run, plan_models
from flows.stages.outputs import Prepared, checkpoint_folders, read_finished, read_returned, result_folders
from flows.stages.prepare import prepare_data
from flows.stages.states import study_runs
from flows.study.configuration import Study
from flows.study.loading import load_study
from model.carried import PLAN
from pipeline.errors import InputError
from pipeline.storage.store import Store


def bundle(options: argparse.Namespace) -> None:
    """Write a bundle, and print the commands that come next."""
    study, folder = load_study(options.study, mirror=options.mirror, root=options.root), options.folder
    with progress.on_terminal(), only_run(study):
        plan = write_bundle(study, folder)
    print(f"{folder}: {len(plan['runs'])} runs of {plan['study_id']}. There, with this project's folder beside it:")
    print(f"  python -m model.carried {folder.name} --processes 1")
    print(f"and back here: dreamer collect {study.arguments} {shlex.quote(str(folder))}")


def collect(options: argparse.Namespace) -> None:
    """Ingest a bundle's results, write the report, and print the data-efficiency factors."""
    from reports.page.report import write_report

    study = load_study(options.study, mirror=options.mirror, root=options.root)
    with only_run(study):
        patiently(lambda: collect_bundle(study, options.folder))
        patiently(lambda: write_report(study.database, study.study_id, study.report.parent))
    print_outcome(study, *read_outcome(study))


def write_bundle(study: Study, folder: Path) -> dict[str, Any]:
    """Prepare a study's data here, and write all that its training and evaluation need to `folder`; returns the plan.

    Raises InputError for a file, for an existing folder of another study, and for benchmarks that only lm-eval can
    evaluate.
    """
    plan_file = folder / PLAN
    if folder.is_file():
        raise InputError(f"{folder} is a file; name a folder to bundle to")
    if plan_file.exists() and _read_json(folder, PLAN).get("study_id") != study.study_id:
        raise InputError(f"{folder} holds another study; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    prepared = prepare_data(study, Store(study.store_folder))
    harnessed = [task["task"] for task in prepared.tasks if not task.get("plain")]
    if harnessed:
        raise InputError(
            f"{study.name}: {', '.join(harnessed)} need lm-eval, which a bare machine has not; leave them out"
        )
    tasks = _copy_items(prepared.tasks, folder)
    for name, output in (("tokens", prepared.packed), ("tokenizer", prepared.tokenizer)):
        shutil.copytree(output.path, folder / name, dirs_exist_ok=True)
    runs = []
    for model in plan_models(study, prepared.vocabulary_size):
        for seed in study.training.seeds:
            description = describe_run(study, prepared.packed, model, seed)
            place = folder / "runs" / description["run_id"]
            place.mkdir(parents=True, exist_ok=True)
            (place / "run.json").write_text(json.dumps({**description, "data": "../../tokens"}, indent=1))
            runs.append({"run_id": description["run_id"], "model_id": model.model_id, "seed": seed})
    evaluation = {
        **job_settings(study),
        "tokenizer": "tokenizer",
        "tasks": tasks,
        "observe": "tokens" if study.evaluation.introspect else None,
        "harness": False,  # the plain items also where lm-eval is installed: one way, one result
    }
    plan = {"study_id": study.study_id, "stop_at": study.training.stop_at, "runs": runs, "evaluation": evaluation}
    plan_file.write_text(json.dumps(plan, indent=1))
    return plan


def _copy_items(tasks: Sequence[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Copy the plain items of every task to `folder`; returns the tasks as a bare machine reads them.

    Raises InputError where two benchmarks have a task of one name with other items.
    """
    (folder / "tasks").mkdir(exist_ok=True)
    taken: dict[str, dict[str, Any]] = {}
    copied = []
    for task in tasks:
        name = f"tasks/{task['task'].replace('/', '-')}.items.jsonl"  # files of two benchmarks may have one name
        other = taken.setdefault(name, task)
        if not filecmp.cmp(other["plain"], task["plain"], shallow=False):
            raise InputError(
                f"benchmarks {other['benchmark']!r} and {task['benchmark']!r} both have a task {task['task']!r}, of "
                f"{other['plain']} and of {task['plain']}; give one of them another 'task'"
            )
        shutil.copy(task["plain"], folder / name)
        copied.append({**task, "plain": name, "yaml": None, "dataset_path": None})
    return copied


def collect_bundle(study: Study, folder: Path) -> None:
    """Ingest the rows that a bundle's trainings and evaluations have left in `folder`.

    Raises InputError if the bundle is another study's, has not run to its end, or has not come back whole, and if the
    study's folder holds results that the bundle's would replace.
    """
    plan, chosen, job = (
        _read_json(folder, PLAN),
        _read_json(folder, "chosen.json", list),
        _read_json(folder, "job.json"),
    )
    if plan.get("study_id") != study.study_id:
        raise InputError(
            f"{folder} holds {plan.get('study_id')}, not {study.study_id}: the study file has changed since"
        )
    _check_place(study)
    _check_complete(folder, plan, chosen, job)
    try:
        prepared = read_finished(study, Prepared)
    except InputError:  # the bundle was written on another machine
        prepared = prepare_data(study, Store(study.store_folder))
    ingest_study(study, prepared)
    runs = [
        (
            run["model_id"],
            "complete" if run["run_id"] in chosen else "screened",
            folder / "runs" / run["run_id"] / "rows",
        )
        for run in plan["runs"]
    ]
    ingest_rows(study, plan_models(study, prepared.vocabulary_size), runs, result_folders(folder / "results"))
    compute_intervals(study)


def _check_place(study: Study) -> None:
    """Raise InputError where the folder is another study's, or holds checkpoints that the study has trained there."""
    try:
        held = read_returned(study, Prepared).study_id
    except InputError:  # nothing is prepared there
        return
    if held.rpartition("-")[0] != study.name:
        raise InputError(f"{study.folder} is the folder of {held}; name another for {study.name} with --root")
    if held == study.study_id and any(map(checkpoint_folders, study_runs(study, read_finished(study, Prepared)))):
        raise InputError(
            f"{study.folder} holds models of {held} that were trained there, and the bundle's results would replace "
            "theirs; name another folder with --root"
        )


def _read_json(folder: Path, name: str, kind: type = dict) -> Any:
    """Read one of the files of a bundle."""
    try:
        values = json.loads((folder / name).read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder / name} is missing: `python -m model.carried {folder}` has not ended there"
        ) from None
    except ValueError as error:
        raise InputError(f"{folder / name} is damaged ({error}); copy it again") from None
    if not isinstance(values, kind):
        raise InputError(f"{folder / name} is damaged; copy it again")
    return values


def _check_complete(folder: Path, plan: dict[str, Any], chosen: list[str], job: dict[str, Any]) -> None:
    """Raise InputError, naming the first missing file, unless all runs and all evaluations have come back."""
    try:
        planned = [run["run_id"] for run in plan["runs"]]
        evaluated = [f"{one['run_id']}/{int(one['tokens']):015d}" for one in job["checkpoints"]]
        chosen_models = {run["model_id"] for run in plan["runs"] if run["run_id"] in chosen}
        complete = set(chosen) <= set(planned) and chosen_models == {run["model_id"] for run in plan["runs"]}
    except (KeyError, TypeError, ValueError):
        complete = False
    if not complete:
        raise InputError(f"{folder}: {PLAN}, chosen.json and job.json do not fit each other; copy the folder again")
    runs = [folder / "runs" / run / "rows" / "runs.parquet" for run in planned]
    results = [folder / "results" / place / "rows" / "evaluations.parquet" for place in evaluated]
    missing = [path for path in (*runs, *results) if not path.is_file()]
    if missing:
        raise InputError(f"{missing[0]} is missing, {len(missing)} in all: copy the folder again")
