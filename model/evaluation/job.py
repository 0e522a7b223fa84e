"""Read and check a job file: which checkpoints are evaluated on which tasks, with which settings."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from model.checked import Count, FileName, checked, parse_file, read_object
from pipeline.errors import InputError
from pipeline.storage.files import write_text_atomically

INTROSPECTION = "introspection"  # stands for a benchmark: what is observed of a model's attention and experts


@checked("evaluation")
class EvaluationSettings:
    """The settings of an evaluation; the one definition for job files and the section `evaluation` of a study file.

    Raises InputError, naming field, value and rule.
    """

    limit: Count | None = None  # items of each task; None: all
    max_new_tokens: Count | None = None  # of an answer, where the task does not say; None: lm-eval's 256
    batch_tokens: Count | None = None  # positions in a batch, padding included; None: what suits the device
    depths: tuple[Count, ...] = ()  # other depths at which the last checkpoint of each recurrent run is evaluated
    weights: Literal["averaged", "raw", "both"] = "averaged"  # "raw": as trained


@checked("output")
class Output:
    """The folder for the rows of a checkpoint and a benchmark; `configuration` is what decides the rows."""

    folder: Path
    configuration: dict[str, Any] | None = None


@checked("checkpoint")
class Checkpoint:
    """A model to evaluate: its run, the tokens it was trained on, and its folder.

    `outputs` are the benchmarks to evaluate, all where none is named.
    """

    run_id: FileName
    tokens: Annotated[int, Field(ge=0)]
    path: Path
    outputs: dict[str, Output] = Field(default_factory=dict)


@checked("job")
class Job(EvaluationSettings):
    """Say which checkpoints are evaluated on which tasks.

    Paths may be relative to the job file, so that a study can be moved.
    """

    checkpoints: Annotated[tuple[Checkpoint, ...], Field(min_length=1)]
    tokenizer: Path
    tasks: tuple[dict[str, Any], ...]  # specifications, as of `pipeline/benchmarks/items.py`
    output: Path
    device: str = "auto"
    trust_code: bool = False  # tasks and overrides may run Python
    observe: Path | None = None  # packed tokens: attention is observed on the tasks' texts, else on rows of these

    def other_depths(self, checkpoint: Checkpoint, trained: int) -> tuple[int, ...]:
        """Return the depths at which a recurrent checkpoint of depth `trained` is evaluated besides its own."""
        known = (other.tokens for other in self.checkpoints if other.run_id == checkpoint.run_id)
        is_last = checkpoint.tokens >= max(known)
        return tuple(depth for depth in self.depths if depth != trained) if is_last else ()

    def outputs(self, checkpoint: Checkpoint) -> Mapping[str, Output]:
        """Return the outputs of a checkpoint by benchmark, by default in `<output>/<run_id>/<tokens>/<benchmark>`."""
        if checkpoint.outputs:
            return checkpoint.outputs
        names = [INTROSPECTION] if self.observe else []
        names += dict.fromkeys(task["benchmark"] for task in self.tasks)
        place = self.output / checkpoint.run_id / f"{checkpoint.tokens:015d}"
        return {name: Output(folder=place / name) for name in names}


def read_job(path: Path | str) -> Job:
    """Read a job file. Raises InputError if the file is missing or damaged, or a field is missing, unknown or wrong."""
    path, place = Path(path), Path(path).resolve().parent
    try:
        job = parse_file(Job, path)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such job file") from None
    return dataclasses.replace(
        job,
        checkpoints=tuple(_placed(one, place) for one in job.checkpoints),
        tokenizer=place / job.tokenizer,
        tasks=tuple(_with_places(task, place) for task in job.tasks),
        output=place / job.output,
        depths=tuple(dict.fromkeys(job.depths)),
        observe=job.observe and place / job.observe,
    )


def _placed(checkpoint: Checkpoint, place: Path) -> Checkpoint:
    """Make the paths of a checkpoint absolute."""
    outputs = {
        name: dataclasses.replace(output, folder=place / output.folder) for name, output in checkpoint.outputs.items()
    }
    return dataclasses.replace(checkpoint, path=place / checkpoint.path, outputs=outputs)


def _with_places(task: Mapping[str, Any], place: Path) -> Mapping[str, Any]:
    """Make those paths of a task's specification absolute that exist beside the job file."""
    paths = {name: place / task[name] for name in ("dataset_path", "yaml", "plain") if task.get(name)}
    return {**task, **{name: str(path) for name, path in paths.items() if path.exists()}}


def check_settings(job: Job) -> None:
    """Write what decides the results to `settings.json` beside them, or compare with what is written there.

    Raises InputError if the output holds results of other tasks, items, limits or another tokenizer: they must not be
    mixed.
    """
    settings = {
        "tasks": [
            [task["benchmark"], task["task"], _without_places(task.get("overrides") or {})] for task in job.tasks
        ],
        "limit": job.limit,
        "max_new_tokens": job.max_new_tokens,
        "depths": list(job.depths),
        "weights": job.weights,
        "observe": job.observe is not None,
        "tokenizer": _digest(job.tokenizer / "tokenizer.json"),
        "definitions": [_definition(task) for task in job.tasks],
    }
    path = job.output / "settings.json"
    if not path.exists():
        write_text_atomically(path, json.dumps(settings), shared=True)
        return
    before = read_object(path)
    for name, value in settings.items():
        if before.get(name) != value:
            raise InputError(f"{job.output}: holds results of other settings ({name}); name another folder as output")


def _definition(task: Mapping[str, Any]) -> dict[str, Any]:
    """Describe what decides a task's items and scores: metric, filter, digests of its files, and what is left out."""
    files = {name: Path(task[name]) for name in ("plain", "yaml") if task.get(name)}
    digests = {name: _digest(path) for name, path in files.items() if path.is_file()}
    left_out = {"left_out": task["left_out"]} if task.get("left_out") else {}
    return {"metric": task["metric"], "filter": task["filter"], **digests, **left_out}


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _without_places(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out where the data lie, which decides nothing: a study may be moved between two evaluations."""
    return {name: value for name, value in overrides.items() if name != "dataset_kwargs"}
