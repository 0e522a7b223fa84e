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
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from model.checkpoint import written_whole
from model.job import Checkpoint, Job, check_settings, read_job, replace_json
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


def evaluate(job: Job, *, line: Callable[[str], object] = lambda text: None) -> list[Path]:
    """Evaluate every checkpoint of the job that is not there yet; returns the folders of all.

    `line` gets a line per finished checkpoint. Raises InputError for bad input, also when the output holds results of
    other tasks, limits or another tokenizer.
    """
    tokenizer = load_tokenizer(job.tokenizer)
    job.output.mkdir(parents=True, exist_ok=True)
    check_settings(job)
    folders = {checkpoint: _folder(job, checkpoint) for checkpoint in job.checkpoints}
    if all(folder.exists() for folder in folders.values()):
        return list(folders.values())
    tasks = build_tasks(job)
    progress = _Progress(job.output / "progress.json", tasks, folders.values())
    asker = _Asker(job, tokenizer, tasks, progress)
    for wait in (False, True):  # first what no other process has in hand, then what another one may have left behind
        for checkpoint, folder in folders.items():
            with _claim(job, checkpoint, wait) as mine:
                if mine and not folder.exists():
                    started = time.monotonic()
                    rows = asker(checkpoint)
                    _write(folder, rows)
                    progress.finish()
                    line(_summary(checkpoint, tasks, rows, time.monotonic() - started))
    progress.tell()
    return list(folders.values())


def build_tasks(job: Job) -> list[Task]:
    """The tasks of a job with their prompts: lm-eval's, or plain where it is missing or only the plain items are there.

    Raises InputError if a task needs lm-eval and it is not installed.
    """
    installed = importlib.util.find_spec("lm_eval") is not None
    harness = installed if job.harness is None else job.harness and installed
    default = {"limit": job.limit}
    if job.max_new_tokens is not None:
        default["max_new_tokens"] = job.max_new_tokens
    plain = [bool(task.get("plain")) and not (harness and _has_definition(task)) for task in job.tasks]
    if all(plain):
        return [PlainTask(task, **default) for task in job.tasks]
    if not installed:
        task = job.tasks[plain.index(False)]
        raise InputError(
            f"benchmark {task['benchmark']}: task {task['task']} needs lm-eval, which is not installed here; "
            "pip install 'lm-eval[math]'"
        )
    from model.harness import HarnessTask, fresh_cache, tune_libraries

    tune_libraries()
    with fresh_cache(job.output) as cache:
        return [
            PlainTask(task, **default) if items else HarnessTask(task, cache=cache, **default)
            for task, items in zip(job.tasks, plain, strict=True)
        ]


def _has_definition(task: Mapping[str, Any]) -> bool:
    return bool(task.get("yaml") or task.get("dataset_path"))


def ask(model: TextModel, tasks: Sequence[Task]) -> list[Scored]:
    """All tasks' scores of one model. Requests of one kind are answered together, whatever task they come from."""
    asked = [task.requests for task in tasks]
    answers: list[dict[str, Sequence[Any]]] = [{} for _ in tasks]
    for kind, answer in ANSWERS.items():
        found = iter(answer(model, [request for requests in asked for request in requests.get(kind, ())]))
        for requests, own in zip(asked, answers, strict=True):
            own[kind] = [next(found) for _ in requests.get(kind, ())]
    return [task.score(own) for task, own in zip(tasks, answers, strict=True)]


class _Asker:
    """Asks checkpoints everything; where the device's memory is too small, in smaller batches from then on."""

    def __init__(self, job: Job, tokenizer: Tokenizer, tasks: Sequence[Task], progress: _Progress) -> None:
        self._job, self._tokenizer, self._tasks, self._progress = job, tokenizer, tasks, progress
        self._batch_tokens = job.batch_tokens

    def __call__(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """The rows of one checkpoint."""
        model = load_text_model(
            checkpoint.path,
            self._tokenizer,
            self._job.device,
            batch_tokens=self._batch_tokens,
            finished=self._progress.add,
        )
        while True:
            try:
                return tables(checkpoint.run_id, checkpoint.tokens, ask(model, self._tasks))
            except torch.OutOfMemoryError:
                if model.batch_tokens <= model.sequence_length:
                    raise
            # Outside of the handler, whose traceback keeps the tensors alive.
            self._progress.start_again()
            model.batch_tokens = self._batch_tokens = model.batch_tokens // 2
            torch.cuda.empty_cache()


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
    """`progress.json`: items done and in all, over all checkpoints; items per second of this process; seconds left."""

    def __init__(self, path: Path, tasks: Sequence[Task], folders: Iterable[Path]) -> None:
        self._path, self._folders = path, list(folders)
        self._items = sum(task.items for task in tasks)
        self._requests = sum(len(requests) for task in tasks for requests in task.requests.values())
        self._own = self._share = 0.0  # checkpoints done by this process, and the share of the one in hand
        self._started, self._told = time.monotonic(), 0.0
        self.tell()

    def add(self, requests: float) -> None:
        """Count answered requests of the checkpoint in hand."""
        self._share = min(1.0, self._share + requests / self._requests)
        if time.monotonic() - self._told >= TELL_SECONDS:
            self.tell()

    def start_again(self) -> None:
        """The checkpoint in hand is asked from the beginning."""
        self._share = 0.0

    def finish(self) -> None:
        """The checkpoint in hand is written."""
        self._own, self._share = self._own + 1, 0.0
        self.tell()

    def tell(self) -> None:
        """Rewrite the file."""
        self._told = time.monotonic()
        whole = sum(folder.exists() for folder in self._folders)
        total = self._items * len(self._folders)
        done = min(total, round(self._items * (whole + self._share)))
        rate = self._items * (self._own + self._share) / max(1e-9, self._told - self._started)
        left = (total - done) / rate if rate else None
        replace_json(self._path, {"done": done, "total": total, "items_per_second": rate, "seconds_left": left})


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
        print(f"{options.job}: the device's memory is too small for one sequence of these models", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{options.job}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
