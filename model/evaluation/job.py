"""What an evaluation is asked to do: the job file, read and checked, and what must stay the same when it is
continued."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from model.training.run import is_name
from pipeline.errors import InputError


@dataclass(frozen=True)
class Checkpoint:
    """A model to evaluate: its run, the tokens it was trained on, and its folder."""

    run_id: str
    tokens: int
    path: Path


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to evaluate on what. Paths in the file may be relative to it, so that a prepared study can be carried."""

    checkpoints: tuple[Checkpoint, ...]
    tokenizer: Path
    tasks: tuple[Mapping[str, Any], ...]  # specifications, as of `pipeline/benchmarks.py`
    output: Path
    limit: int | None = None  # items of each task; None: all
    max_new_tokens: int | None = None  # of an answer, where the task does not say; None: lm-eval's 256
    batch_tokens: int | None = None  # positions in a batch, padding included; None: what suits the device
    device: str = "auto"
    harness: bool | None = (
        None  # whether lm-eval asks the tasks that also have plain items; None: where it is installed
    )
    depths: tuple[int, ...] = ()  # at which the last checkpoint of each recurrent run is evaluated besides its own
    observe: Path | None = None  # packed tokens: attention is observed on the tasks' texts, else on rows of these

    def other_depths(self, checkpoint: Checkpoint, trained: int) -> tuple[int, ...]:
        """The depths at which a recurrent checkpoint, trained at another one, is evaluated besides its own."""
        last = max(other.tokens for other in self.checkpoints if other.run_id == checkpoint.run_id)
        return tuple(depth for depth in self.depths if depth != trained) if checkpoint.tokens == last else ()


def read_job(path: Path | str) -> Job:
    """The job in a file. Raises InputError if the file is missing or damaged, or a field is missing or unknown."""
    path = Path(path)
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such job file") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: not an object")
    known = {field.name for field in fields(Job)}
    for name in values.keys() - known:
        raise InputError(f"{path}: there is no field {name!r}; known are {', '.join(sorted(known))}")
    for name in ("checkpoints", "tokenizer", "tasks", "output"):
        if not values.get(name):
            raise InputError(f"{path}: {name} is missing")
    for name in ("limit", "max_new_tokens", "batch_tokens"):
        if values.get(name) is not None and (type(values[name]) is not int or values[name] < 1):
            raise InputError(f"{path}: {name} is {values[name]!r}, but it must be a whole number of at least 1")
    for name in ("tokenizer", "output", "observe"):
        if not isinstance(values.get(name) or "", str):
            raise InputError(f"{path}: {name} is {values[name]!r}, but it must be the path of a folder")
    if values.get("harness") not in (None, True, False):
        raise InputError(f"{path}: harness is {values['harness']!r}, but it must be true, false or left out")
    for name in ("checkpoints", "tasks"):
        if not isinstance(values[name], list) or not all(isinstance(one, dict) for one in values[name]):
            raise InputError(f"{path}: {name} must be a list of objects")
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", str(values.get("device", "auto"))):
        raise InputError(f"{path}: device is {values['device']!r}, but it must be auto, cpu, cuda or cuda:<number>")
    depths = values.get("depths") or []
    if not isinstance(depths, list) or not all(isinstance(depth, int) and depth >= 1 for depth in depths):
        raise InputError(f"{path}: depths is {depths!r}, but it must be a list of whole numbers of at least 1")
    place = path.resolve().parent
    try:
        checkpoints = tuple(Checkpoint(c["run_id"], int(c["tokens"]), place / c["path"]) for c in values["checkpoints"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: a checkpoint needs run_id, tokens and path") from None
    for checkpoint in checkpoints:
        if not is_name(checkpoint.run_id) or checkpoint.tokens < 0:
            raise InputError(
                f"{path}: checkpoint {checkpoint.run_id!r} at {checkpoint.tokens} tokens: run_id must be a name that a "
                "folder can have, tokens not negative"
            )
    tasks = []
    for task in values["tasks"]:
        for name in ("benchmark", "task", "metric", "filter"):
            if not isinstance(task.get(name), str):
                raise InputError(f"{path}: task {task.get('task')!r}: {name} is missing")
        paths = {name: place / task[name] for name in ("dataset_path", "yaml", "plain") if task.get(name)}
        tasks.append({**task, **{name: str(path) for name, path in paths.items() if path.exists()}})
    given = {name: place / values[name] for name in ("tokenizer", "output", "observe") if values.get(name)}
    given["depths"] = tuple(dict.fromkeys(depths))
    return Job(**{**values, **given, "checkpoints": checkpoints, "tasks": tuple(tasks)})


def check_settings(job: Job) -> None:
    """Note what decides the results in `settings.json` beside them; with what is noted there, compare.

    Raises InputError if the output holds results of other tasks, limits or another tokenizer: they must not be mixed.
    """
    settings = {
        "tasks": [
            [task["benchmark"], task["task"], _without_places(task.get("overrides") or {})] for task in job.tasks
        ],
        "limit": job.limit,
        "max_new_tokens": job.max_new_tokens,
        "depths": list(job.depths),
        "observe": job.observe is not None,
        "tokenizer": hashlib.blake2b((job.tokenizer / "tokenizer.json").read_bytes(), digest_size=16).hexdigest(),
    }
    path = job.output / "settings.json"
    if path.exists():
        before = json.loads(path.read_text())
        for name, value in settings.items():
            if before.get(name) != value:
                raise InputError(
                    f"{job.output}: holds results of other settings ({name}); name another folder as output"
                )
    else:
        replace_json(path, settings)


def _without_places(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Where the data lie decides nothing: a study may be moved between two evaluations."""
    return {name: value for name, value in overrides.items() if name != "dataset_kwargs"}


def replace_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file beside and rename it, so that readers see the old values or the new ones."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(values))
    os.replace(beside, path)
