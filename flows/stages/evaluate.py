"""Evaluating every checkpoint of every complete run, in processes (`python -m model.evaluate`).

A run is one job. Where there are more places than runs, several processes share a job, each taking checkpoints that no
other has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flows.running import progress
from flows.running.processes import read_progress, run_module, stopped_on_exit
from flows.stages.prepare import Prepared
from flows.stages.train import Run, Slots, devices, side_by_side
from flows.study.configuration import Study
from pipeline.storage.store import Output, Store

PROCESS_MEMORY = 2 * 10**9  # lm-eval, torch and a model; with more cores than memory for them not all are used
VERSION = 2


def evaluate_runs(study: Study, store: Store, prepared: Prepared, runs: Sequence[Run]) -> dict[str, Output]:
    """The evaluation of each complete run by run_id; what is in the store is taken from there.

    Raises what the evaluation processes end with.
    """
    complete = [run for run in reversed(runs) if run.status == "complete"]  # the slowest first
    slots = Slots(study)
    with stopped_on_exit():
        places = devices(study) if study.workers else min(devices(study), _memory() // PROCESS_MEMORY)
        shares = _shares(places, len(complete))
        outputs = side_by_side(
            list(zip(complete, shares, strict=True)),
            lambda job: _evaluate(study, store, prepared, job[0], slots, processes=job[1]),
        )
    return {run.run_id: output for run, output in zip(complete, outputs, strict=True)}


def checkpoints(run: Run) -> list[dict[str, Any]]:
    """run_id, tokens and path of a run's checkpoints, in order of tokens."""
    folders = sorted((run.folder / "checkpoints").iterdir())
    return [{"run_id": run.run_id, "tokens": int(folder.name), "path": str(folder.resolve())} for folder in folders]


def _memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _shares(places: int, runs: int) -> list[int]:
    """How many processes each run gets: all places are used, and every run has one at least."""
    return [max(1, places // runs + (number < places % runs)) for number in range(runs)]


def _evaluate(study: Study, store: Store, prepared: Prepared, run: Run, slots: Slots, *, processes: int) -> Output:
    label = f"evaluate {run.planned.model_id} seed {run.seed}"
    settings = study.evaluation

    def work(folder: Path) -> dict[str, Any]:
        job = {
            "checkpoints": checkpoints(run),
            "tokenizer": str(prepared.tokenizer.path.resolve()),
            "tasks": prepared.specifications,
            "limit": settings.limit,
            "batch_tokens": settings.batch_tokens,
            "max_new_tokens": settings.max_new_tokens,
            "depths": settings.depths,
            "observe": str(prepared.packed.path.resolve()) if settings.introspect else None,
            "device": study.training.device,
            "output": str((folder / "results").resolve()),
        }
        (folder / "job.json").write_text(json.dumps(job, indent=1))
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str((folder / "cache").resolve())}

        def process(number: int) -> None:
            with slots.one() as environment:
                run_module(
                    "model.evaluate",
                    [str(folder / "job.json"), "--verbose"],
                    log=folder / f"log-{number}.txt",
                    tick=partial(_tick, label, folder / "results" / "progress.json"),
                    environment={**offline, **environment},
                )

        side_by_side(range(min(processes, len(job["checkpoints"]))), process)
        return {"run_id": run.run_id, "checkpoints": len(job["checkpoints"]), "limit": settings.limit}

    progress.report(label, 0.0, "waiting")
    # The benchmarks and digests of their data are in the key of `items`, the packed tokens in that of the run.
    configuration = {
        "run_id": run.run_id,
        **{name: getattr(settings, name) for name in ("limit", "max_new_tokens", "depths", "introspect")},
    }
    output = store.build("evaluation", VERSION, configuration, [run.output, prepared.items], work, resumes=True)
    progress.report(label, 1.0, "done")
    return output


def _tick(label: str, path: Path) -> None:
    said = read_progress(path)
    if said.get("total"):
        left = said.get("seconds_left")
        words = f"{said.get('items_per_second') or 0:,.0f} items/s" + (f", {left:,.0f} s left" if left else "")
        progress.report(label, min(said["done"] / said["total"], 0.999), words)


def result_folders(results: Path) -> list[Path]:
    """The `rows` folders in an evaluation's `results`, one for each finished checkpoint; others have a suffix."""
    return sorted(results.glob("*/*[0-9]/rows"))
