"""Evaluate checkpoints: `python -m model.evaluate <job.json>`, from files alone and to files alone.

Imports, tasks, prompts and their data are paid for once; then each checkpoint is loaded and asked everything, the
requests of all tasks together so that batches are full. Its rows appear at once, as
`<output>/<run_id>/<tokens>/rows/`, or not at all: a process that is killed loses the checkpoint in hand and nothing
else, and one that is started again skips what is there. Several processes may work on one job; each takes checkpoints
that no other has.

With lm-eval installed its tasks are evaluated; without it those tasks that have a file of plain items.

Exit status: 0 done, 1 failed, 2 bad input, 143 stopped by SIGTERM.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import torch

from model.checkpoint import written_whole
from model.measures import Scored, tables
from model.plain import PlainTask
from model.text import TextModel, load_text_model
from model.tokenizer import Tokenizer, load_tokenizer
from pipeline.errors import InputError

# What the tasks ask, by lm-eval's names for it, and who answers.
ANSWERS: dict[str, Callable[[TextModel, list[Any]], list[Any]]] = {
    "loglikelihood": TextModel.log_likelihoods,
    "loglikelihood_rolling": TextModel.rolling_log_likelihoods,
    "generate_until": TextModel.write,
}
TELL_SECONDS = 1.0


class Task(Protocol):
    """What `HarnessTask` and `PlainTask` have in common."""

    @property
    def items(self) -> int: ...

    @property
    def requests(self) -> dict[str, list[Any]]: ...

    def score(self, answers: Mapping[str, Sequence[Any]]) -> Scored: ...


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
    batch_tokens: int = 16_384
    device: str = "auto"


def read_job(path: Path | str) -> Job:
    """The job in a file. Raises InputError if the file is missing or damaged, or a field is missing or unknown."""
    path = Path(path)
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such job file") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    known = {field.name for field in fields(Job)}
    for name in values.keys() - known:
        raise InputError(f"{path}: there is no field {name!r}; known are {', '.join(sorted(known))}")
    for name in ("checkpoints", "tokenizer", "tasks", "output"):
        if not values.get(name):
            raise InputError(f"{path}: {name} is missing")
    for name in ("limit", "max_new_tokens", "batch_tokens"):
        if not isinstance(values.get(name) or 1, int) or (values.get(name) is not None and values[name] < 1):
            raise InputError(f"{path}: {name} is {values[name]!r}, but it must be a whole number of at least 1")
    place = path.resolve().parent
    try:
        checkpoints = tuple(Checkpoint(c["run_id"], int(c["tokens"]), place / c["path"]) for c in values["checkpoints"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: a checkpoint needs run_id, tokens and path") from None
    tasks = []
    for task in values["tasks"]:
        for name in ("benchmark", "task", "metric", "filter"):
            if not isinstance(task.get(name), str):
                raise InputError(f"{path}: task {task.get('task')!r}: {name} is missing")
        paths = {name: str(place / task[name]) for name in ("dataset_path", "yaml", "plain") if task.get(name)}
        tasks.append({**task, **paths})
    given = {"tokenizer": place / values["tokenizer"], "output": place / values["output"]}
    return Job(**{**values, **given, "checkpoints": checkpoints, "tasks": tuple(tasks)})


def evaluate(job: Job, *, harness: bool | None = None, line: Callable[[str], object] = lambda text: None) -> list[Path]:
    """Evaluate every checkpoint of the job that is not there yet; returns the folders of all.

    `harness` says whether lm-eval is used (None: where it is installed); `line` gets a line per finished checkpoint.
    Raises InputError for bad input, also when the output holds results of other tasks, limits or another tokenizer.
    """
    tokenizer = load_tokenizer(job.tokenizer)
    job.output.mkdir(parents=True, exist_ok=True)
    _check_settings(job)
    folders = {checkpoint: _folder(job, checkpoint) for checkpoint in job.checkpoints}
    if all(folder.exists() for folder in folders.values()):
        return list(folders.values())
    tasks = build_tasks(job, harness=harness)
    progress = _Progress(job.output / "progress.json", tasks, folders.values())
    for wait in (False, True):  # first what no other process has in hand, then what another one may have left behind
        for checkpoint, folder in folders.items():
            with _claim(job, checkpoint, wait) as mine:
                if mine and not folder.exists():
                    started = time.monotonic()
                    rows = _evaluate(job, checkpoint, tokenizer, tasks, progress)
                    _write(folder, rows)
                    line(_summary(checkpoint, tasks, rows, time.monotonic() - started))
    progress.tell(final=True)
    return list(folders.values())


def build_tasks(job: Job, *, harness: bool | None = None) -> list[Task]:
    """The tasks of a job with their prompts. Raises InputError if one needs lm-eval and it is not there."""
    if harness is None:
        harness = importlib.util.find_spec("lm_eval") is not None
    default = {} if job.max_new_tokens is None else {"max_new_tokens": job.max_new_tokens}
    if not harness:
        for task in job.tasks:
            if not task.get("plain"):
                raise InputError(
                    f"benchmark {task['benchmark']}: task {task['task']} needs lm-eval; pip install 'lm-eval[math]'"
                )
        return [PlainTask(task, limit=job.limit, **default) for task in job.tasks]
    from model.harness import HarnessTask, fresh_cache, quiet_libraries

    quiet_libraries()
    with fresh_cache(job.output) as cache:
        return [HarnessTask(task, limit=job.limit, cache=cache, **default) for task in job.tasks]


def ask(model: TextModel, tasks: Sequence[Task]) -> list[Scored]:
    """All tasks' scores of one model. Requests of one kind are answered together, whatever task they come from."""
    asked = [task.requests for task in tasks]
    answers: list[dict[str, Sequence[Any]]] = [{} for _ in tasks]
    for kind, answer in ANSWERS.items():
        found = iter(answer(model, [request for requests in asked for request in requests.get(kind, ())]))
        for requests, own in zip(asked, answers, strict=True):
            own[kind] = [next(found) for _ in requests.get(kind, ())]
    return [task.score(own) for task, own in zip(tasks, answers, strict=True)]


def _evaluate(
    job: Job, checkpoint: Checkpoint, tokenizer: Tokenizer, tasks: Sequence[Task], progress: _Progress
) -> dict[str, Any]:
    model = load_text_model(
        checkpoint.path, tokenizer, job.device, batch_tokens=job.batch_tokens, finished=progress.add
    )
    return tables(checkpoint.run_id, checkpoint.tokens, ask(model, tasks))


def _folder(job: Job, checkpoint: Checkpoint) -> Path:
    return job.output / checkpoint.run_id / f"{checkpoint.tokens:015d}"


def _write(folder: Path, rows: Mapping[str, Any]) -> None:
    """The rows of one checkpoint under their final name, once they are on the disk."""
    import pyarrow.parquet as pq

    with written_whole(folder) as partial:
        (partial / "rows").mkdir()
        for name, table in rows.items():
            with (partial / "rows" / f"{name}.parquet").open("wb") as file:
                pq.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())


def _check_settings(job: Job) -> None:
    """Note what decides the results beside them; refuse to mix them with results of other settings."""
    settings = {
        "tasks": [[task["benchmark"], task["task"], task.get("overrides") or {}] for task in job.tasks],
        "limit": job.limit,
        "max_new_tokens": job.max_new_tokens,
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
        _replace(path, settings)


@contextmanager
def _claim(job: Job, checkpoint: Checkpoint, wait: bool) -> Iterator[bool]:
    """Whether this process may work on a checkpoint, that is, no other one does. A dead process claims nothing.

    Each checkpoint has a byte of its own in one lock file; the system frees the locks of a process that ends.
    """
    name = f"{checkpoint.run_id}/{checkpoint.tokens}".encode()
    byte = int.from_bytes(hashlib.blake2b(name, digest_size=7).digest())
    with (job.output / ".lock").open("w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, byte)
        except BlockingIOError:
            yield False
        else:
            yield True


class _Progress:
    """`progress.json`: items done and in all, over all checkpoints, items per second of this process, seconds left."""

    def __init__(self, path: Path, tasks: Sequence[Task], folders: Sequence[Path]) -> None:
        self._path, self._folders = path, list(folders)
        self._items = sum(task.items for task in tasks)
        self._requests = sum(len(requests) for task in tasks for requests in task.requests.values())
        self._answered = 0.0  # requests, by this process
        self._started, self._told = time.monotonic(), 0.0
        self.tell(final=True)

    def add(self, requests: float) -> None:
        """Count answered requests."""
        self._answered += requests
        if time.monotonic() - self._told >= TELL_SECONDS:
            self.tell()

    def tell(self, *, final: bool = False) -> None:
        """Rewrite the file. Between checkpoints (`final`) only whole ones count."""
        self._told = time.monotonic()
        checkpoints = self._answered / self._requests
        whole = sum(folder.exists() for folder in self._folders)
        done = round(self._items * min(len(self._folders), whole + (0.0 if final else checkpoints % 1)))
        total = self._items * len(self._folders)
        rate = self._items * checkpoints / max(1e-9, self._told - self._started)
        left = (total - done) / rate if rate else None
        _replace(self._path, {"done": done, "total": total, "items_per_second": rate, "seconds_left": left})


def _replace(path: Path, values: Mapping[str, Any]) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(values))
    os.replace(beside, path)


def _summary(checkpoint: Checkpoint, tasks: Sequence[Task], rows: Mapping[str, Any], seconds: float) -> str:
    items = sum(task.items for task in tasks)
    values = ", ".join(f"{row['task']} {row['metric']} {row['value']:.3f}" for row in rows["evaluations"].to_pylist())
    return f"{checkpoint.run_id} {checkpoint.tokens:,}: {items} items, {items / seconds:.0f}/s: {values}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m model.evaluate", description="Evaluate the checkpoints of a job.")
    parser.add_argument("job", type=Path, help="a job file: checkpoints, tokenizer, tasks, output, ...")
    parser.add_argument(
        "--verbose", action="store_true", help="print a line per checkpoint also where there is no terminal"
    )
    options = parser.parse_args(arguments)
    # Data are local, so the libraries must not look for newer ones; they read this when they are imported.
    for name, value in (("HF_HUB_OFFLINE", "1"), ("HF_DATASETS_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "false")):
        os.environ.setdefault(name, value)
    torch.set_num_threads(1)  # threads of several processes on few cores wait for each other more than they work
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    talks = options.verbose or sys.stdout.isatty()
    try:
        evaluate(read_job(options.job), line=(lambda text: print(text, flush=True)) if talks else (lambda text: None))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print(f"{options.job}: the device's memory is too small; lower batch_tokens", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{options.job}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
