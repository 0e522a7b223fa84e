"""Measure how fast a study's models train and are evaluated on this machine, by the processes that a study runs.

Every model is trained for some seconds from its start, as many side by side as the study would, and the untrained
weights are then evaluated. Untrained models generate the longest answers, so evaluations are rather faster later.
"""

from __future__ import annotations

import csv
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from flows.commands.planning.time_plan import Pace, pace_of_flops
from flows.running import progress
from flows.running.machines.devices import Slots, gpus
from flows.running.processes import (
    Failed,
    child_process,
    read_progress,
    side_by_side,
    stopped_on_exit,
    wait_unless_stopping,
)
from flows.stages.evaluate import job_settings
from flows.stages.models import PlannedModel, describe_run, plan_models
from flows.stages.outputs import Prepared, read_finished
from flows.stages.prepare import prepare_data
from flows.study.configuration import BUILTIN, MOST_TOKENS, Study
from model.profiling.profile import random_data
from model.training.ranks.launch import ProcessGroup
from pipeline.errors import InputError
from pipeline.storage.store import Output, Store

SECONDS = 30.0  # of all trainings and evaluations together, without the start of their processes
START_SECONDS = 300.0
WORLD_DOCUMENTS = 2_000
POLL_SECONDS = 0.2


def calibrate(study: Study, planned: Sequence[PlannedModel]) -> Pace:
    """Measure the pace of every model. Raises Failed, with the log's last line, where a process fails.

    The study's own data are read where they are prepared; else a small built-in world, or random tokens, on which
    nothing can be evaluated.
    """
    slots = Slots(study)
    each = SECONDS / 2 * min(slots.count, len(planned)) / len(planned)
    with tempfile.TemporaryDirectory(dir=existing_folder(study.folder), ignore_cleanup_errors=True) as place:
        root = Path(place)
        prepared = _prepared(study, root)
        if prepared:
            packed = prepared.packed
            planned = plan_models(study, prepared.vocabulary_size)
        else:
            data = random_data(root / "data", planned[0].config, study.training.batch_tokens)
            packed = Output("tokens", "random", data, {})

        def measure(model: PlannedModel) -> tuple[float, float | None]:
            with slots.take() as environment:
                folder = root / model.model_id
                trained = _train(study, packed, model, folder, environment, each)
                evaluated = _evaluate(study, prepared, model, folder, environment, each) if prepared else None
                progress.report(f"measure {model.model_id}", 1.0, f"{trained:,.0f} tokens/s")
                return trained, evaluated

        with stopped_on_exit():
            found = side_by_side(planned, measure)
    names = [model.model_id for model in planned]
    training = dict(zip(names, (trained for trained, _ in found), strict=True))
    evaluation = {name: seconds for name, (_, seconds) in zip(names, found, strict=True) if seconds}
    source = "GPU here, measured" if gpus(study) else "CPU core here, measured"
    if not evaluation:
        computed = pace_of_flops(study, planned, on_gpu=gpus(study) > 0)
        evaluation = {name: computed.evaluation[name] * computed.training[name] / training[name] for name in names}
        source += " in training; evaluation computed from that"
    return Pace(training, evaluation, source)


def existing_folder(folder: Path) -> Path:
    """Return a folder, or the nearest of its parents that exists: on the disk that the folder will be on."""
    return folder if folder.is_dir() else existing_folder(folder.absolute().parent)


def _prepared(study: Study, root: Path) -> Prepared | None:
    """Return the study's prepared data; for the built-in world alone, a small part of them, made in `root`."""
    try:
        return read_finished(study, Prepared)
    except InputError:
        pass
    if {BUILTIN} != {str(entry) for entry in [*study.data.sources, *study.evaluation.benchmarks]}:
        return None
    world = replace(study.data.world, documents=min(study.data.world.documents, WORLD_DOCUMENTS))
    small = study.model_copy(
        update={"root": root / "study", "store": None, "data": study.data.model_copy(update={"world": world})}
    )
    return prepare_data(small, Store(small.store_folder))


def _train(
    study: Study, packed: Output, model: PlannedModel, folder: Path, environment: dict[str, str], seconds: float
) -> float:
    """Train a model for some seconds and end its process; returns its tokens per second, without the first step."""
    folder.mkdir()
    run = describe_run(study, packed, model, study.training.seeds[0])
    recipe = {**run["training"], "tokens": MOST_TOKENS, "checkpoints": [0], "save_every_seconds": 1e9, "log_every": 1}
    content = {**run, "training": recipe, "data": str(packed.path.resolve())}
    (folder / "run.json").write_text(json.dumps(content))

    def steps() -> list[tuple[int, float]]:
        try:
            with (folder / "steps.csv").open(newline="") as file:
                return [(int(row["tokens"]), float(row["seconds"])) for row in csv.DictReader(file) if row["seconds"]]
        except (FileNotFoundError, ValueError):  # a line is being written
            return []

    with child_process("model.train", [str(folder)], log=folder / "train.log", environment=environment) as group:
        _wait(group, lambda: len(steps()) > 1, START_SECONDS)
        _wait(group, lambda: len(steps()) > 2 and steps()[-1][1] - steps()[0][1] >= seconds, START_SECONDS)
        _wait(group, lambda: _checkpoints(folder), START_SECONDS)  # written beside the first steps
    (before, begin), (after, end) = steps()[0], steps()[-1]
    return (after - before) / (end - begin)


def _evaluate(
    study: Study, prepared: Prepared, model: PlannedModel, folder: Path, environment: dict[str, str], seconds: float
) -> float:
    """Evaluate the untrained model for some seconds; returns the seconds that an evaluation of all items takes."""
    (checkpoint,) = _checkpoints(folder)
    job = {
        **job_settings(study),
        "depths": [],
        "weights": "raw",
        "checkpoints": [{"run_id": model.model_id, "tokens": 0, "path": str(checkpoint.resolve())}],
        "tokenizer": str(prepared.tokenizer.path.resolve()),
        "tasks": prepared.tasks,
        "output": str(folder / "results"),
    }
    (folder / "job.json").write_text(json.dumps(job))
    path = folder / "results" / "progress.json"

    def begun() -> bool:
        return bool(read_progress(path).get("done"))

    job_file = str(folder / "job.json")
    with child_process("model.evaluate", [job_file], log=folder / "log", environment=environment) as group:
        _wait(group, begun, START_SECONDS)
        until = time.monotonic() + seconds
        _wait(group, lambda: time.monotonic() > until, seconds + START_SECONDS)
    values = read_progress(path)
    return values["total"] / values["items_per_second"]


def _checkpoints(folder: Path) -> list[Path]:
    """List the finished checkpoints of a run; others have a suffix."""
    return list((folder / "checkpoints").glob("[0-9]*[0-9]"))


def _wait(group: ProcessGroup, finished: Callable[[], object], seconds: float) -> None:
    """Wait until `finished`, or the process has ended well. Raises Failed when it fails or takes too long."""
    deadline = time.monotonic() + seconds
    while not finished():
        status = group.poll()
        if status == 0:
            return
        if status:
            raise Failed(f"the measurement ended with status {status}: {group.last_line()}")
        if time.monotonic() > deadline:
            raise Failed(f"the measurement has not come further in {seconds:,.0f} s: {group.last_line()}")
        wait_unless_stopping(POLL_SECONDS)
