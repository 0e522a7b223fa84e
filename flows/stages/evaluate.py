"""Evaluate every checkpoint of every complete run, in processes (`python -m model.evaluate`).

One run is one job. Where a machine has more slots than runs, several processes work on one job, each on checkpoints
that no other process has taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flows.running import progress
from flows.running.devices import Slots, concurrency
from flows.running.processes import Failed, read_progress, run_module, side_by_side, stopped_on_exit
from flows.running.slurm import run_job
from flows.stages.checks import machine_memory
from flows.stages.outputs import Evaluated, Prepared, Run, Trained, write_returned
from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.storage.store import Output, Store

PROCESS_MEMORY = 2 * 10**9  # bytes for lm-eval, torch and a model: memory can be shorter than cores
VERSION = 3


def evaluate_runs(
    study: Study, store: Store, prepared: Prepared, trained: Trained, *, trust_code: bool = False
) -> Evaluated:
    """Evaluate each complete run; take finished evaluations from the store. `trust_code` lets task files run Python.

    An evaluation that fails ends no other one; the reason is returned. Raises InputError when the models were trained
    on other data, and when an evaluation process ends with bad input.
    """
    if trained.packed != prepared.packed.key:
        raise InputError(
            f"{study.folder}: the models were trained on other data; `dreamer run {study.arguments}` trains them again"
        )
    complete = [run for run in reversed(trained.runs) if run.status == "complete"]  # the slowest first
    slots, count = Slots(study), concurrency(study)
    if not study.workers:
        count = min(count, machine_memory() // PROCESS_MEMORY)
    processes = [max(1, count // len(complete) + (i < count % len(complete))) for i in range(len(complete))]
    with stopped_on_exit():
        outputs = side_by_side(
            list(zip(complete, processes, strict=True)),
            lambda job: _attempt(lambda: _evaluate(study, store, prepared, slots, trust_code, *job)),
        )
    found: dict[str, str] = {}
    failures: dict[str, str] = {}
    for run, output in zip(complete, outputs, strict=True):
        if isinstance(output, Output):
            found[run.run_id] = output.name
        else:
            failures[run.run_id] = output
    evaluated = Evaluated(study.study_id, store.root, found, failures)
    write_returned(study, evaluated)
    return evaluated


def checkpoints(run: Run) -> list[dict[str, Any]]:
    """List a run's checkpoints in order of tokens, each as {run_id, tokens, path}."""
    folders = sorted((run.folder / "checkpoints").iterdir())
    return [{"run_id": run.run_id, "tokens": int(folder.name), "path": str(folder.resolve())} for folder in folders]


def job_settings(study: Study) -> dict[str, Any]:
    """Build the part of an evaluation's job that follows from the study alone."""
    settings = study.evaluation
    named = ("limit", "batch_tokens", "max_new_tokens", "depths", "weights")
    return {**{name: getattr(settings, name) for name in named}, "device": study.training.device}


def _attempt(evaluate: Callable[[], Output]) -> Output | str:
    """Evaluate a run, or return why that failed."""
    try:
        return evaluate()
    except Failed as error:
        return str(error)


def _evaluate(
    study: Study, store: Store, prepared: Prepared, slots: Slots, trust_code: bool, run: Run, processes: int
) -> Output:
    """Evaluate the checkpoints of one run by `processes` processes."""
    label = f"evaluate {run.model_id} seed {run.seed}"
    settings = study.evaluation

    def work(folder: Path) -> dict[str, Any]:
        job = {
            **job_settings(study),
            "checkpoints": checkpoints(run),
            "tokenizer": str(prepared.tokenizer.path.resolve()),
            "tasks": prepared.tasks,
            "trust_code": trust_code,
            "observe": str(prepared.packed.path.resolve()) if settings.introspect else None,
            "output": str((folder / "results").resolve()),
        }
        (folder / "job.json").write_text(json.dumps(job, indent=1))
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str((folder / "cache").resolve())}

        failures: list[Failed] = []
        start = run_module if study.compute.pool == "local" else partial(run_job, study)

        def process(number: int) -> None:
            try:
                with slots.take() as environment:
                    start(
                        "model.evaluate",
                        [str(folder / "job.json"), "--verbose"],
                        log=folder / f"log-{number}.txt",
                        tick=partial(_report, label, folder / "results" / "progress.json"),
                        environment={**offline, **environment},
                    )
            except Failed as error:
                failures.append(error)

        side_by_side(range(min(processes, len(job["checkpoints"]))), process)
        if failures:  # when all processes have ended, so that none goes on in a folder that others may take
            raise failures[0]
        return {"run_id": run.run_id, "checkpoints": len(job["checkpoints"]), "limit": settings.limit}

    progress.report(label, 0.0, "waiting")
    # The benchmarks and digests of their data are in the key of `items`, the packed tokens in that of the run.
    configuration = {
        "run_id": run.run_id,
        **{name: getattr(settings, name) for name in ("limit", "max_new_tokens", "depths", "weights", "introspect")},
    }
    trained = store.find(*run.output.split("/"))
    if trained is None:
        raise InputError(f"{run.folder} is gone; `dreamer run {study.arguments}` trains the model again")
    output = store.build("evaluation", VERSION, configuration, [trained, prepared.items], work, resumes=True)
    progress.report(label, 1.0, "done")
    return output


def _report(label: str, path: Path) -> None:
    """Report an evaluation's progress: items per second and seconds left."""
    state = read_progress(path)
    if state.get("total"):
        left = state.get("seconds_left")
        words = f"{state.get('items_per_second') or 0:,.0f} items/s" + (f", {left:,.0f} s left" if left else "")
        progress.report(label, min(state["done"] / state["total"], 0.999), words)
