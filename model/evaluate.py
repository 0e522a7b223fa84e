"""Evaluate the checkpoints of a job: `python -m model.evaluate <job.json>`; reads and writes files only.

Imports, tasks, prompts and data are loaded once; then each checkpoint is evaluated part by part (evaluation/resume.py).
Its rows appear at once, as `<output>/<run_id>/<tokens>/rows/`. A killed process loses the benchmark in hand and at most
two seconds of quick ones before it, and a new one continues from there. Several processes may work on one job; each
takes checkpoints no other has.

Exit status: 0 done, 1 failed, 2 bad input, 143 stopped by SIGTERM.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from model.checkpoint import weights_in
from model.evaluation.job import Checkpoint, Job, check_settings, read_job
from model.evaluation.language_model import LanguageModel, load_language_model
from model.evaluation.questions import Questions, build_questions
from model.evaluation.resume import Part, Task, concatenate, finish_parts, remove_parts, split_evaluation
from model.evaluation.tokenizer import Tokenizer, load_tokenizer
from model.ops.device import use_one_core
from pipeline.errors import InputError
from pipeline.storage.files import write_text_atomically

TELL_SECONDS = 1.0


def evaluate(
    job: Job,
    *,
    only: int | None = None,
    questions: Callable[[Job, Tokenizer], Questions] = build_questions,
    line: Callable[[str], object] = lambda text: None,
) -> list[Path]:
    """Evaluate every checkpoint of the job that has no rows yet; return the folders of all checkpoints.

    With `only`, evaluates the checkpoint with so many tokens alone. `questions` builds the job's questions, or knows
    them from an earlier job. `line` gets a line per finished checkpoint. Raises InputError for bad input, also when the
    output holds results of other tasks, items, limits or another tokenizer, or no checkpoint has `only` tokens.
    """
    tokenizer = load_tokenizer(job.tokenizer)
    job.output.mkdir(parents=True, exist_ok=True)
    check_settings(job)
    folders = {checkpoint: _folder(job, checkpoint) for checkpoint in job.checkpoints}
    wanted = {one: folder for one, folder in folders.items() if only is None or one.tokens == only}
    if not wanted:
        known = ", ".join(map(str, sorted({checkpoint.tokens for checkpoint in job.checkpoints})))
        raise InputError(f"the job has no checkpoint with {only} tokens; those it has are {known}")
    if all(folder.exists() for folder in wanted.values()):
        for folder in wanted.values():
            remove_parts(folder)  # left by a process that was killed just before removing them
        return list(folders.values())
    asked = questions(job, tokenizer)
    progress = _Progress(job.output / "progress.json", asked.tasks, folders.values())
    evaluator = _Evaluator(job, asked, progress)
    for wait in (False, True):  # first the checkpoints no other process has, then those another may have left
        for checkpoint, folder in wanted.items():
            with _claim(job, checkpoint, wait) as mine:
                if mine and not folder.exists():
                    line(evaluator(checkpoint, folder))
                elif mine:
                    remove_parts(folder)  # of another process, killed since
    progress.tell()
    return list(folders.values())


class _Evaluator:
    """Evaluate checkpoints; a shortage of memory halves all later batches (`Questions.batch_tokens`)."""

    def __init__(self, job: Job, questions: Questions, progress: _Progress) -> None:
        self._job, self._questions, self._progress = job, questions, progress

    def __call__(self, checkpoint: Checkpoint, folder: Path) -> str:
        """Write the rows of one checkpoint to `folder`; return a line about them."""
        models = self._load(checkpoint)
        config = models[0].model.config
        depths = self._job.other_depths(checkpoint, config.depth) if config.recurrent else ()
        parts = split_evaluation(checkpoint, models, self._questions.tasks, self._questions.sample, depths)
        while True:
            self._progress.begin(parts)
            try:
                rows = concatenate(folder, list(finish_parts(folder, parts, self._progress.begin_part)))
                break
            except torch.OutOfMemoryError:
                if models[0].batch_tokens <= config.sequence_length:
                    raise
            # Outside of the handler, whose traceback keeps the tensors alive.
            self._questions.batch_tokens = models[0].batch_tokens // 2
            for model in models:
                model.batch_tokens = self._questions.batch_tokens
            torch.cuda.empty_cache()
        items, seconds = self._progress.finish()
        values = ", ".join(
            f"{row['task']} {row['metric']} {row['value']:.3f}" for row in rows["evaluations"].to_pylist()
        )
        return f"{checkpoint.run_id} {checkpoint.tokens:,}: {items} items, {items / seconds:.0f} items/s: {values}"

    def _load(self, checkpoint: Checkpoint) -> list[LanguageModel]:
        """Load the weights to evaluate: the main ones, then the raw ones where both are asked for and differ."""
        asked = ("averaged", "raw") if self._job.weights == "both" else (self._job.weights,)
        return [
            load_language_model(
                checkpoint.path,
                self._questions.tokenizer,
                self._job.device,
                weights,
                batch_tokens=self._questions.batch_tokens or self._job.batch_tokens,
                finished=self._progress.add,
            )
            for weights in dict.fromkeys(weights_in(checkpoint.path, wanted) for wanted in asked)
        ]


def _folder(job: Job, checkpoint: Checkpoint) -> Path:
    return job.output / checkpoint.run_id / f"{checkpoint.tokens:015d}"


@contextmanager
def _claim(job: Job, checkpoint: Checkpoint, wait: bool) -> Iterator[bool]:
    """Lock a checkpoint for this process; yield whether that succeeded. Locks end with their process.

    Each checkpoint has a byte of its own in one lock file.
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
    """Writes `progress.json`: items done and in all; checkpoints done; items per second here; seconds left.

    Checkpoints are those of the job when this process began: others may come since.

    A checkpoint's items count once in `done`, and at every depth in `items_per_second`.
    """

    def __init__(self, path: Path, tasks: Sequence[Task], folders: Iterable[Path]) -> None:
        self._path, self._folders = path, list(folders)
        self._items = sum(task.items for task in tasks)
        self._own = 0.0  # checkpoints' worth of work by this process, before the one in hand
        self._answered = 0.0  # items, by this process
        self._started, self._told = time.monotonic(), 0.0
        self.begin([])
        self.tell()

    def begin(self, parts: Sequence[Part]) -> None:
        """Begin a checkpoint, or begin it again after a shortage of memory."""
        self._requests = max(1, sum(part.requests for part in parts))
        self._seen = self._worked = 0.0  # of its requests: those that are done, and those done now
        self._part: Part | None = None
        self._begun = time.monotonic(), self._answered

    def begin_part(self, part: Part, there: bool) -> None:
        """Begin a part, or skip it where it is there already."""
        self._part = part
        if there:
            self._seen += part.requests

    def add(self, requests: float) -> None:
        """Count answered requests of the part in hand."""
        self._seen, self._worked = self._seen + requests, self._worked + requests
        self._answered += requests * self._part.items / self._part.requests
        if time.monotonic() - self._told >= TELL_SECONDS:
            self.tell()

    def finish(self) -> tuple[int, float]:
        """End a checkpoint; return the items answered for it by this process, and the seconds that took."""
        began, before = self._begun
        self._own += self._worked / self._requests
        answered = self._answered - before
        self.begin([])
        self.tell()
        return round(answered), max(1e-9, self._told - began)

    def tell(self) -> None:
        """Rewrite `progress.json`."""
        self._told = time.monotonic()
        whole = sum(folder.exists() for folder in self._folders)
        done = min(len(self._folders), whole + self._seen / self._requests)
        elapsed = max(1e-9, self._told - self._started)
        pace = (self._own + self._worked / self._requests) / elapsed
        values = {
            "done": round(done * self._items),
            "total": len(self._folders) * self._items,
            "checkpoints": done,
            "items_per_second": self._answered / elapsed,
            "seconds_left": (len(self._folders) - done) / pace if pace else None,
            "process": os.getpid(),
            "machine": socket.gethostname(),
        }
        write_text_atomically(self._path, json.dumps(values), shared=True, durable=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m model.evaluate", description="Evaluate the checkpoints of a job.")
    parser.add_argument("job", type=Path, help="a job file: checkpoints, tokenizer, tasks, output, ...")
    parser.add_argument(
        "--verbose", action="store_true", help="print a line per checkpoint also where there is no terminal"
    )
    parser.add_argument("--only", type=int, metavar="TOKENS", help="evaluate the checkpoint with so many tokens alone")
    options = parser.parse_args(arguments)
    prepare_process()
    talks = options.verbose or sys.stdout.isatty()
    line = (lambda text: print(text, flush=True)) if talks else (lambda text: None)
    return exit_status(options.job, lambda: evaluate(read_job(options.job), only=options.only, line=line))


def prepare_process() -> None:
    """Keep libraries of this process offline and on one core, and let SIGTERM end the process by an exception."""
    # Data are local, so the libraries must not look for newer ones; they read these variables on import.
    for name, value in (("HF_HUB_OFFLINE", "1"), ("HF_DATASETS_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "false")):
        os.environ.setdefault(name, value)
    use_one_core()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def exit_status(job: object, work: Callable[[], object]) -> int:
    """Do the work of a job and return the exit status; what went wrong is a line on standard error."""
    try:
        work()
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print(
            f"{job}: the device's free memory is too small for one of these models and one sequence; "
            "end other programs on the device, or evaluate on a device with more memory",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        print(f"{job}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
