"""`dreamer carry` and `dreamer adopt`: take a prepared study to a bare machine, and bring its rows back.

GPU nodes often have torch and no network, no Prefect and no DuckDB. What they need is files alone.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from flows.evaluate import result_folders
from flows.prepare import prepare_data
from flows.results import enter_rows, enter_study
from flows.study import Study
from flows.train import describe_run, plan_models
from model.carried import PLAN
from pipeline.errors import InputError
from pipeline.store import Store


def carry(study: Study, folder: Path) -> dict[str, Any]:
    """Prepare a study's data here and write all that its training and evaluation need to `folder`.

    Raises InputError for an existing folder of another study, and for benchmarks that need lm-eval where they are run.
    """
    plan_file = folder / PLAN
    if plan_file.exists() and json.loads(plan_file.read_text())["study_id"] != study.study_id:
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

    Raises InputError if the folder is another study's, or has not been run to its end.
    """
    try:
        plan = json.loads((folder / PLAN).read_text())
        chosen = set(json.loads((folder / "chosen.json").read_text()))
    except FileNotFoundError as error:
        raise InputError(
            f"{error.filename} is missing: `python -m model.carried {folder}` has not ended there"
        ) from None
    if plan["study_id"] != study.study_id:
        raise InputError(f"{folder} holds {plan['study_id']}, not {study.study_id}: the study file has changed since")
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
