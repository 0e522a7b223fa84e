"""Evaluate the checkpoints of a job: `python -m dreamer_study.model.evaluate <job.json>`.

The process reads and writes files only; `evaluation/job.py` shows a job file. Imports, tasks,
prompts and data are loaded once; then each checkpoint is evaluated benchmark by benchmark. The rows
of a benchmark appear at once, as a folder of Parquet files: a killed process loses the benchmark in
hand, and a new one continues from there.

Exit status: 0 done, 1 failed, 2 bad input, 3 it failed and would fail again (a full disk, short
memory, a model whose own code fails), 143 stopped by SIGTERM.
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

from dreamer_study.model.architectures.check_contract import check_trained
from dreamer_study.model.architectures.code import FOLDER as CODE
from dreamer_study.model.architectures.code import ModelFailed, naming_line
from dreamer_study.model.checkpoints.models import check_model_code, load_model, weights_in
from dreamer_study.model.evaluation.benchmark_rows import (
    EvaluationPart,
    Task,
    join,
    split_evaluation,
    write_rows,
)
from dreamer_study.model.evaluation.held_out import HeldOutTask, is_held_out
from dreamer_study.model.evaluation.job import (
    EvaluatedCheckpoint,
    EvaluationJob,
    EvaluationOutput,
    read_job,
)
from dreamer_study.model.evaluation.language_model import LanguageModel, load_language_model
from dreamer_study.model.evaluation.observe import Sample, sample_of_stream
from dreamer_study.model.evaluation.tokenizer import Tokenizer, load_tokenizer
from dreamer_study.model.module_config import ModuleConfig
from dreamer_study.model.ops.device import choose_device, use_one_core
from dreamer_study.model.processes import (
    BAD_INPUT,
    HOPELESS,
    open_standard_streams,
    stopping_signals,
)
from dreamer_study.pipeline.errors import InputError, is_full_disk
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.pipeline.storage.locks import hold

TELL_SECONDS = 1.0


@dataclass
class Questions:
    """What a job asks: its tasks, its tokenizer, and the rows on which attention is observed.

    Without `sample` attention is not observed. `batch_tokens` is set by a shortage of memory, for
    all that is asked from then on; None: there was no shortage.
    """

    tasks: list[Task]
    tokenizer: Tokenizer
    sample: Sample | None
    batch_tokens: int | None = None


_kept: dict[str, Questions] = {}
"""The questions of the newest job of this process, by what it asks."""


def questions_of(job: EvaluationJob, *, keep: bool) -> Questions:
    """Build the questions of a job.

    With `keep`, return those of the previous job where it named equal tasks.
    """
    asked = repr(
        (job.tokenizer, job.tasks, job.limit, job.max_new_tokens, job.trust_code, job.observe)
    )
    if not keep or asked not in _kept:
        _kept.clear()
        sample = sample_of_stream(job.observe) if job.observe else None
        _kept[asked] = Questions(build_tasks(job), load_tokenizer(job.tokenizer), sample)
    return _kept[asked]


def build_tasks(job: EvaluationJob) -> list[Task]:
    """Build the tasks of a job with their prompts: lm-eval's, and held-out documents."""
    if all(map(is_held_out, job.tasks)):  # importing lm-eval takes seconds
        return [HeldOutTask(task, limit=job.limit) for task in job.tasks]
    from dreamer_study.model.evaluation.lm_eval_definitions import tune_libraries
    from dreamer_study.model.evaluation.lm_eval_tasks import LmEvalTask

    options: dict[str, Any] = {"limit": job.limit, "trust_code": job.trust_code}
    if job.max_new_tokens is not None:
        options["max_new_tokens"] = job.max_new_tokens
    tune_libraries()
    tasks: list[Task] = []
    # The datasets library recognises files by date, and would take an earlier copy for the present
    # data.
    with TemporaryDirectory(prefix=".datasets-", dir=job.output) as cache:
        for task in job.tasks:
            if is_held_out(task):
                tasks.append(HeldOutTask(task, limit=job.limit))
            else:
                tasks.append(LmEvalTask(task, cache=cache, **options))
    return tasks


def evaluate(
    job: EvaluationJob, *, keep: bool = False, line: Callable[[str], object] = lambda text: None
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
    questions = questions_of(job, keep=keep)
    progress = _Progress(job.output / "progress.json")
    evaluator = _Evaluator(job, questions, progress)
    for checkpoint in job.checkpoints:
        missing = {
            benchmark: output
            for benchmark, output in checkpoint.outputs.items()
            if not output.folder.exists()
        }
        if missing:
            line(evaluator(checkpoint, missing))
    progress.begin(0)
    return folders


class _Evaluator:
    """Evaluate checkpoints, one after the other.

    A shortage of memory halves all later batches (`Questions.batch_tokens`).
    """

    def __init__(self, job: EvaluationJob, questions: Questions, progress: _Progress) -> None:
        self._job = job
        self._questions = questions
        self._progress = progress

    def __call__(
        self, checkpoint: EvaluatedCheckpoint, outputs: Mapping[str, EvaluationOutput]
    ) -> str:
        """Write the rows of one checkpoint, benchmark by benchmark; return a line about them."""
        models = self._load(checkpoint)
        depths = models[0].model.config.other_depths(self._job.depths)
        questions = self._questions
        parts = split_evaluation(checkpoint, models, questions.tasks, questions.sample, depths)
        requests = sum(part.requests for benchmark in outputs for part in parts[benchmark])
        self._progress.begin(requests)
        scores: list[dict[str, Any]] = []
        for benchmark, output in outputs.items():
            with _claimed(output.folder) as mine:
                if not mine:  # another process has made it meanwhile
                    continue
                rows = join([self._score(part, models) for part in parts[benchmark]])
                write_rows(output.folder, rows, output.configuration)
                if "evaluations" in rows:
                    scores += rows["evaluations"].to_pylist()
        said = ", ".join(f"{row['task']} {row['metric']} {row['value']:.3f}" for row in scores)
        return (
            f"{checkpoint.run_id} {checkpoint.tokens:,}: {self._progress.rate:,.0f} requests/s:"
            f" {said}"
        )

    def _score(self, part: EvaluationPart, models: Sequence[LanguageModel]) -> Mapping[str, Any]:
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

    def _load(self, checkpoint: EvaluatedCheckpoint) -> list[LanguageModel]:
        """Load the weights to evaluate.

        The first are the main ones; raw ones follow where both are asked for and differ. A model
        that is no Dreamer is checked with each of them, in a copy of its own.
        """
        if self._job.trust_code:
            check_model_code(checkpoint.path, checkpoint.code)
        asked = ("averaged", "raw") if self._job.weights == "both" else (self._job.weights,)
        there = dict.fromkeys(weights_in(checkpoint.path, wanted) for wanted in asked)
        models = [
            load_language_model(
                checkpoint.path,
                self._questions.tokenizer,
                self._job.device,
                weights,
                trust_code=self._job.trust_code,
                batch_tokens=self._questions.batch_tokens or self._job.batch_tokens,
                finished=self._progress.add,
            )
            for weights in there
        ]
        if self._job.weights == "branches":
            (models[0].weights,) = asked  # the only ones of such a folder, after a decay
        if isinstance(models[0].model.config, ModuleConfig):
            for weights in there:
                self._check(checkpoint.path, weights)
        return models

    def _check(self, path: Path, weights: str) -> None:
        """Raise ModelFailed for a model of the user's that looks ahead since it was trained."""
        trust_code = self._job.trust_code
        model = load_model(path, choose_device(self._job.device), weights, trust_code=trust_code)
        config = model.config
        assert isinstance(config, ModuleConfig), "the bundled model needs no check"
        with naming_line(config, path / CODE, trust_code=trust_code):
            check_trained(model)


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Lock an output for this process; yield whether the output is still to be made.

    Where another process holds the lock, this one waits. Locks end with their process.
    """
    path = folder.with_name(f"{folder.name}.lock")
    with hold(path, partial(print, file=sys.stderr, flush=True)):
        yield not folder.exists()
        path.unlink(missing_ok=True)


class _Progress:
    """Write `progress.json`, about the requests of the checkpoint in hand:

        {"done": 1200, "total": 4000, "requests_per_second": 310.5, "seconds_left": 9.02,
         "process": 4711, "machine": "node-3"}

    A request counts at every depth and with all weights that it is asked of.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.begin(0)

    def begin(self, requests: int) -> None:
        """Begin a checkpoint that is asked `requests` requests."""
        self._total = requests
        self.done = 0.0
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
        self._told = time.monotonic()
        rate = self.rate
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
    open_standard_streams()
    prepare_staying()
    try:
        evaluate(read_job(options.job), keep=True, line=lambda text: print(text, flush=True))
    except ModelFailed as error:  # of this run alone, and the same at another try
        print(error, file=sys.stderr)
        return HOPELESS
    except InputError as error:
        print(f"{BAD_INPUT}{error}", file=sys.stderr)
        return 2
    except torch.OutOfMemoryError:
        print(
            f"{options.job}: the device has too little free memory for one model and one sequence;"
            " end other programs on the device, or evaluate on a device with more memory",
            file=sys.stderr,
        )
        return HOPELESS
    except OSError as error:
        print(f"{options.job}: {error}", file=sys.stderr)
        return HOPELESS if is_full_disk(error) else 1
    return 0


def prepare_staying() -> None:
    """Set the process up for evaluation: libraries offline, one core, signals as SystemExit."""
    # Data are local, so the libraries must not look for newer ones. They read these variables when
    # they are imported.
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    use_one_core()
    for number in stopping_signals():
        if number != signal.SIGINT:  # which is a KeyboardInterrupt
            signal.signal(number, lambda number, frame: sys.exit(128 + number))


if __name__ == "__main__":
    sys.exit(main())
