"""`dreamer carry` and `dreamer adopt`: take a prepared study to a bare machine, and bring its rows back.

GPU nodes often have torch and no network, no Prefect and no DuckDB. What they need is files alone.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from flows.stages.evaluate import result_folders
from flows.stages.prepare import prepare_data
from flows.stages.results import enter_rows, enter_study
from flows.stages.train import describe_run, plan_models
from flows.study.configuration import Study
from model.carried import PLAN
from pipeline.errors import InputError
from pipeline.storage.store import Store


def carry(study: Study, folder: Path) -> dict[str, Any]:
    """Prepare a study's data here and write all that its training and evaluation need to `folder`.

    Raises InputError for an existing folder of another study, and for benchmarks that need lm-eval where they are run.
    """
    plan_file = folder / PLAN
    if plan_file.exists() and _left(folder, PLAN).get("study_id") != study.study_id:
        raise InputError(f"{folder} holds another study; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    prepared = prepare_data(study, Store(study.store_folder))
    harnessed = [task["task"] for task in prepared.specifications if not task.get("plain")]
    if harnessed:
        raise InputError(
            f"{study.name}: {', '.join(harnessed)} need lm-eval, which a bare machine has not; leave them out"
        )
    for name, source in (("tokens", prepared.packed.path), ("tokenizer", prepared.tokenizer.path)):
        shutil.copytree(source, folder / name, dirs_exist_ok=True)
    (folder / "tasks").mkdir(exist_ok=True)
    tasks = []
    for task in prepared.specifications:
        plain = shutil.copy(task["plain"], folder / "tasks")
        tasks.append({**task, "plain": os.path.relpath(plain, folder), "yaml": None, "dataset_path": None})
    runs = []
    for model in plan_models(study, prepared.vocabulary_size):
        for seed in study.training.seeds:
            description = describe_run(study, prepared.packed, model, seed)
            place = folder / "runs" / description["run_id"]
            place.mkdir(parents=True, exist_ok=True)
            (place / "run.json").write_text(json.dumps({**description, "data": "../../tokens"}, indent=1))
            runs.append({"run_id": description["run_id"], "model_id": model.model_id, "seed": seed})
    settings = study.evaluation
    evaluation = {
        "tokenizer": "tokenizer",
        "tasks": tasks,
        "limit": settings.limit,
        "batch_tokens": settings.batch_tokens,
        "max_new_tokens": settings.max_new_tokens,
        "depths": settings.depths,
        "observe": "tokens" if settings.introspect else None,
        "device": study.training.device,
        "harness": False,  # the plain items also where lm-eval is installed: one way, one result
    }
    plan = {"study_id": study.study_id, "stop_at": study.training.stop_at, "runs": runs, "evaluation": evaluation}
    plan_file.write_text(json.dumps(plan, indent=1))
    return plan


def adopt(study: Study, folder: Path) -> None:
    """Enter the rows that a carried study has left in `folder` into the study's results.

    Raises InputError if the folder is another study's, has not been run to its end, or has not come back whole.
    """
    plan, chosen, job = _left(folder, PLAN), _left(folder, "chosen.json", list), _left(folder, "job.json")
    if plan.get("study_id") != study.study_id:
        raise InputError(
            f"{folder} holds {plan.get('study_id')}, not {study.study_id}: the study file has changed since"
        )
    _check_whole(folder, plan, chosen, job)
    prepared = prepare_data(study, Store(study.store_folder))
    enter_study(study, prepared)
    planned = plan_models(study, prepared.vocabulary_size)
    runs = [
        (
            run["model_id"],
            "complete" if run["run_id"] in chosen else "screened",
            folder / "runs" / run["run_id"] / "rows",
        )
        for run in plan["runs"]
    ]
    enter_rows(study, planned, runs, result_folders(folder / "results"))


def _left(folder: Path, name: str, kind: type = dict) -> Any:
    """What `carry` or the run of a carried study has left in one of its files."""
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


def _check_whole(folder: Path, plan: dict[str, Any], chosen: list[str], job: dict[str, Any]) -> None:
    """Raise InputError, naming the first that is not there, unless all runs and all evaluations have come back."""
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
