"""Evaluate the checkpoints of a job: `python -m dreamer_study.model.evaluate <job.json>`; reads and
writes files only.

Imports, tasks, prompts and data are loaded once; then each checkpoint is evaluated benchmark by
benchmark. The rows of a benchmark appear at once, as a folder of Parquet files: a killed process
loses the benchmark in hand, and a new one goes on from there.

Exit status: 0 done, 1 failed, 2 bad input, 143 stopped by SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from dreamer_study.model.checkpoints.models import weights_in
from dreamer_study.model.evaluation.benchmark_rows import (
    Part,
    Task,
    join,
    split_evaluation,
    write_rows,
)
from dreamer_study.model.evaluation.held_out import PlainTask
from dreamer_study.model.evaluation.job import Checkpoint, Job, Output, read_job
from dreamer_study.model.evaluation.language_model import LanguageModel, load_language_model
from dreamer_study.model.evaluation.observe import Sample, sample_of_stream
from dreamer_study.model.evaluation.tokenizer import Tokenizer, load_tokenizer
from dreamer_study.model.ops.device import use_one_core
from dreamer_study.model.processes import HOPELESS
from dreamer_study.pipeline.errors import DISK_FULL, InputError
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.pipeline.storage.locks import hold

TELL_SECONDS = 1.0


@dataclass
class Questions:
    """The tasks of a job, its tokenizer, and the rows on which attention is observed; None:
    attention is not observed.

    `batch_tokens` is set by a shortage of memory, for all that is asked from then on; None: there
    was no shortage.
    """

    tasks: list[Task]
    tokenizer: Tokenizer
    sample: Sample | None
    batch_tokens: int | None = None


_kept: dict[str, Questions] = {}
"""The questions of the newest job of this process, by what it asks."""


def questions_of(job: Job, *, keep: bool) -> Questions:
    """Build the questions of a job; with `keep`, return the previous job's where that job named
    equal tasks."""
    asked = repr(
        (job.tokenizer, job.tasks, job.limit, job.max_new_tokens, job.trust_code, job.observe)
    )
    if not keep or asked not in _kept:
        _kept.clear()
        sample = sample_of_stream(job.observe) if job.observe else None
        _kept[asked] = Questions(build_tasks(job), load_tokenizer(job.tokenizer), sample)
    return _kept[asked]


def build_tasks(job: Job) -> list[Task]:
    """Build the tasks of a job with their prompts: lm-eval's, and files of plain items that lm-eval
    has no task for."""
    default = {"limit": job.limit}
    if job.max_new_tokens is not None:
        default["max_new_tokens"] = job.max_new_tokens
    if all(map(_is_plain, job.tasks)):  # importing lm-eval takes seconds
        return [PlainTask(task, **default) for task in job.tasks]
    from dreamer_study.model.evaluation.lm_eval_definitions import tune_libraries
    from dreamer_study.model.evaluation.lm_eval_tasks import HarnessTask

    tune_libraries()
    # The datasets library recognises files by date, and would take an earlier copy for the present
    # data.
    with TemporaryDirectory(prefix=".datasets-", dir=job.output) as cache:
        return [
            (
                PlainTask(task, **default)
                if _is_plain(task)
                else HarnessTask(task, cache=cache, trust_code=job.trust_code, **default)
            )
            for task in job.tasks
        ]


def _is_plain(task: Mapping[str, Any]) -> bool:
    return bool(task.get("plain")) and not (task.get("yaml") or task.get("dataset_path"))


def evaluate(
    job: Job, *, keep: bool = False, line: Callable[[str], object] = lambda text: None
) -> list[Path]:
    """Make every output of the job that is not there yet; return the folders of all outputs.

    `line` gets a line per finished checkpoint. With `keep` what the job before has asked is not
    read again, as jobs of one study ask the same. Raises InputError for bad input.
    """
    job.output.mkdir(parents=True, exist_ok=True)
    folders = [
        output.folder for checkpoint in job.checkpoints for output in checkpoint.outputs.values()
    ]
    if all(folder.exists() for folder in folders):
        return folders
    asked = questions_of(job, keep=keep)
    progress = _Progress(job.output / "progress.json")
    evaluator = _Evaluator(job, asked, progress)
    for checkpoint in job.checkpoints:
        outputs = {
            name: output
            for name, output in checkpoint.outputs.items()
            if not output.folder.exists()
        }
        if outputs:
            line(evaluator(checkpoint, outputs))
    progress.begin(0)
    return folders


class _Evaluator:
    """Evaluate checkpoints; a shortage of memory halves all later batches
    (`Questions.batch_tokens`)."""

    def __init__(self, job: Job, questions: Questions, progress: _Progress) -> None:
        self._job, self._questions, self._progress = job, questions, progress

    def __call__(self, checkpoint: Checkpoint, outputs: Mapping[str, Output]) -> str:
        """Write the rows of one checkpoint, benchmark by benchmark; return a line about them."""
        models = self._load(checkpoint)
        depths = models[0].model.config.other_depths(self._job.depths)
        questions = self._questions
        parts = split_evaluation(checkpoint, models, questions.tasks, questions.sample, depths)
        self._progress.begin(sum(part.requests for name in outputs for part in parts[name]))
        values = []
        for name, output in outputs.items():
            with _claimed(output.folder) as mine:
                if mine:
                    rows = join([self._score(part, models) for part in parts[name]])
                    write_rows(output.folder, rows, output.configuration)
                    values += rows["evaluations"].to_pylist() if "evaluations" in rows else []
        words = ", ".join(f"{row['task']} {row['metric']} {row['value']:.3f}" for row in values)
        return (
            f"{checkpoint.run_id} {checkpoint.tokens:,}: {self._progress.rate:,.0f} requests/s:"
            f" {words}"
        )

    def _score(self, part: Part, models: Sequence[LanguageModel]) -> dict[str, object]:
        """Compute the rows of a part, with smaller batches where memory is short."""
        before = self._progress.done
        while True:
            try:
                return part.rows()
            except torch.OutOfMemoryError:
                if models[0].batch_tokens <= models[0].model.config.sequence_length:
                    raise
            # Outside of the handler, whose traceback keeps the tensors alive.
            self._progress.done = before
            self._questions.batch_tokens = models[0].batch_tokens // 2
            for model in models:
                model.batch_tokens = self._questions.batch_tokens
            torch.cuda.empty_cache()

    def _load(self, checkpoint: Checkpoint) -> list[LanguageModel]:
        """Load the weights to evaluate: the main ones, then the raw ones where both are asked for
        and differ."""
        asked = ("averaged", "raw") if self._job.weights == "both" else (self._job.weights,)
        return [
            load_language_model(
                checkpoint.path,
                self._questions.tokenizer,
                self._job.device,
                weights,
                trust_code=self._job.trust_code,
                batch_tokens=self._questions.batch_tokens or self._job.batch_tokens,
                finished=self._progress.add,
            )
            for weights in dict.fromkeys(weights_in(checkpoint.path, wanted) for wanted in asked)
        ]


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Lock an output for this process; yield whether the output is still to be made, after waiting
    for another process.

    Locks end with their process.
    """
    path = folder.with_name(f"{folder.name}.lock")
    with hold(path, partial(print, file=sys.stderr, flush=True)):
        yield not folder.exists()
        path.unlink(missing_ok=True)


class _Progress:
    """Write `progress.json`: requests answered and in all, their rate, seconds left, of the
    checkpoint in hand.

    A request counts at every depth and with all weights that it is asked of.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.begin(0)

    def begin(self, requests: int) -> None:
        """Begin a checkpoint that is asked so many requests."""
        self._total, self.done = requests, 0.0
        self._began = time.monotonic()
        self.tell()

    def add(self, requests: float) -> None:
        """Count answered requests."""
        self.done += requests
        if time.monotonic() - self._told >= TELL_SECONDS:
            self.tell()

    @property
    def rate(self) -> float:
        """Requests per second of the checkpoint in hand."""
        return self.done / max(1e-9, time.monotonic() - self._began)

    def tell(self) -> None:
        """Rewrite `progress.json`."""
        self._told, rate = time.monotonic(), self.rate
        values = {
            "done": round(self.done),
            "total": self._total,
            "requests_per_second": rate,
            "seconds_left": (self._total - self.done) / rate if rate else None,
            "process": os.getpid(),
            "machine": socket.gethostname(),
        }
        write_text_atomically(self._path, json.dumps(values), shared=True, durable=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m dreamer_study.model.evaluate",
        description="Evaluate the checkpoints of a job.",
    )
    parser.add_argument(
        "job", type=Path, help="a job file: checkpoints, tokenizer, tasks, output, ..."
    )
    options = parser.parse_args(arguments)
    prepare_staying()
    try:
        evaluate(read_job(options.job), keep=True, line=lambda text: print(text, flush=True))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print(
            f"{options.job}: the device's free memory is too small for one of these models and one"
            " sequence; end other programs on the device, or evaluate on a device with more"
            " memory",
            file=sys.stderr,
        )
        return HOPELESS
    except OSError as error:
        print(f"{options.job}: {error}", file=sys.stderr)
        return HOPELESS if error.errno in DISK_FULL else 1
    return 0


def prepare_staying() -> None:
    """Set the process up for evaluation: libraries stay offline, one core is used, SIGTERM raises
    SystemExit."""
    # Data are local, so the libraries must not look for newer ones; they read these variables on
    # import.
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    use_one_core()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


if __name__ == "__main__":
    sys.exit(main())
