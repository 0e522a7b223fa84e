"""Read and check a job file: which checkpoints are evaluated on which tasks, with which settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.settings import (
    check_fields,
    check_rules,
    field_types,
    is_device,
    is_file_name,
    is_whole,
    read_object,
    required_fields,
)
from pipeline.errors import InputError
from pipeline.storage.files import write_text_atomically

INTROSPECTION = "introspection"  # stands for a benchmark: what is observed of a model's attention and experts
COUNT = "must be a whole number of at least 1"
RULES = (
    ("limit max_new_tokens batch_tokens", lambda value: value is None or (is_whole(value) and value >= 1), COUNT),
    (
        "depths",
        lambda depths: all(is_whole(depth) and depth >= 1 for depth in depths),
        "must be a list of whole numbers of at least 1",
    ),
    ("weights", ("averaged", "raw", "both").__contains__, "must be 'averaged', 'raw' or 'both'"),
)


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """The settings of an evaluation; the one definition for job files and the section `evaluation` of a study file.

    Raises InputError, naming field, value and rule.
    """

    limit: int | None = None  # items of each task; None: all
    max_new_tokens: int | None = None  # of an answer, where the task does not say; None: lm-eval's 256
    batch_tokens: int | None = None  # positions in a batch, padding included; None: what suits the device
    depths: tuple[int, ...] = ()  # other depths at which the last checkpoint of each recurrent run is evaluated
    weights: str = "averaged"  # or "raw", as trained; "both": the averaged ones, and the raw ones beside them

    def __post_init__(self) -> None:
        check_rules(self, "evaluation", RULES)


@dataclass(frozen=True)
class Output:
    """The folder for the rows of a checkpoint and a benchmark; `configuration` is what decides the rows."""

    folder: Path
    configuration: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A model to evaluate: its run, the tokens it was trained on, and its folder.

    `outputs` are the benchmarks to evaluate, all where none is named.
    """

    run_id: str
    tokens: int
    path: Path
    outputs: Mapping[str, Output] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Job(EvaluationSettings):
    """Say which checkpoints are evaluated on which tasks.

    Paths may be relative to the job file, so that a study can be moved.
    """

    checkpoints: tuple[Checkpoint, ...]
    tokenizer: Path
    tasks: tuple[Mapping[str, Any], ...]  # specifications, as of `pipeline/benchmarks/items.py`
    output: Path
    device: str = "auto"
    harness: bool | None = None  # use lm-eval also for tasks with plain items; None: where lm-eval is installed
    trust_code: bool = False  # task files and overrides may run Python
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
        return {name: Output(place / name) for name in names}


_FIELDS = {**field_types(Job), "checkpoints": "tuple[dict, ...]", "tasks": "tuple[dict, ...]"}


def read_job(path: Path | str) -> Job:
    """Read a job file. Raises InputError if the file is missing or damaged, or a field is missing, unknown or wrong."""
    path = Path(path)
    try:
        values = read_object(path)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such job file") from None
    values = {name: value for name, value in values.items() if value not in (None, "", []) or name not in _FIELDS}
    check_fields(values, _FIELDS, str(path), required_fields(Job))
    if not is_device(values.get("device", "auto")):
        raise InputError(f"{path}: device is {values['device']!r}, but it must be auto, cpu, cuda or cuda:<number>")
    place = path.resolve().parent
    folders = {name: place / values[name] for name in ("tokenizer", "output", "observe") if values.get(name)}
    lists = {
        "checkpoints": tuple(_checkpoint(one, path) for one in values["checkpoints"]),
        "tasks": tuple(_task(one, path) for one in values["tasks"]),
        "depths": tuple(dict.fromkeys(values.get("depths", ()))),
    }
    try:
        return Job(**{**values, **folders, **lists})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _checkpoint(values: Mapping[str, Any], job: Path) -> Checkpoint:
    try:
        place = job.resolve().parent
        outputs = {
            name: Output(place / output["folder"], output["configuration"])
            for name, output in values.get("outputs", {}).items()
        }
        checkpoint = Checkpoint(values["run_id"], int(values["tokens"]), place / values["path"], outputs)
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{job}: a checkpoint needs run_id, tokens and path") from None
    if not is_file_name(checkpoint.run_id) or checkpoint.tokens < 0:
        raise InputError(
            f"{job}: checkpoint {checkpoint.run_id!r} at {checkpoint.tokens} tokens: run_id must be a name that a "
            "folder can have, tokens not negative"
        )
    return checkpoint


def _task(values: Mapping[str, Any], job: Path) -> Mapping[str, Any]:
    """Check a task's specification, and make those of its paths absolute that exist beside the job file."""
    for name in ("benchmark", "task", "metric", "filter"):
        if not isinstance(values.get(name), str):
            raise InputError(f"{job}: task {values.get('task')!r}: {name} is missing")
    place = job.resolve().parent
    paths = {name: place / values[name] for name in ("dataset_path", "yaml", "plain") if values.get(name)}
    return {**values, **{name: str(path) for name, path in paths.items() if path.exists()}}


def check_settings(job: Job) -> None:
    """Write what decides the results to `settings.json` beside them, or compare with what is written there.

    Raises InputError if the output holds results of other tasks, items, limits or another tokenizer: they must not be
    mixed. What one of the two does not say of a task's definition is no difference: a bare machine lacks its YAML, and
    the definition is not in what was written before it was compared.
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
    definitions = before.get("definitions") or [{}] * len(job.tasks)
    before["definitions"] = [
        {part: then.get(part, value) for part, value in now.items()}
        for now, then in zip(settings["definitions"], definitions, strict=False)
    ]
    for name, value in settings.items():
        if before.get(name) != value:
            raise InputError(f"{job.output}: holds results of other settings ({name}); name another folder as output")


def _definition(task: Mapping[str, Any]) -> dict[str, str]:
    """Describe what decides a task's items and scores: its metric and filter, and the digests of its files."""
    files = {name: Path(task[name]) for name in ("plain", "yaml") if task.get(name)}
    digests = {name: _digest(path) for name, path in files.items() if path.is_file()}
    return {"metric": task["metric"], "filter": task["filter"], **digests}


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _without_places(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out where the data lie, which decides nothing: a study may be moved between two evaluations."""
    return {name: value for name, value in overrides.items() if name != "dataset_kwargs"}
