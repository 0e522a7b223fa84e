"""Train one run, or resume it: `python -m dreamer_study.model.train <folder> [--stop-at TOKENS]`.

The process reads and writes files only; `training/config.py` shows `run.json`. `--profile STEPS`
traces that many steps instead.

Training tokens are counted exactly: real tokens, no padding, by the optimiser step that consumed
them. A run that is stopped or killed at any moment resumes from its newest saved state, on a CPU by
the same engine to the same bits; another engine is named in the run's row. A run that other code
has started resumes with `--accept-code-change` only.

Several processes (ranks) train one run with `torchrun --nproc-per-node N -m
dreamer_study.model.train <folder>`. N may change when a run is resumed: the token stream stays the
same, and the result differs by rounding.

Exit status: 0 done (or at --stop-at), 1 the training failed, 2 bad input, 3 it failed and would
fail again (a full disk, memory short twice, a loss that is not finite, a model whose own code
fails), 143 stopped by SIGTERM, 130 by SIGINT, 129 by SIGHUP, 138 by SIGUSR1. Where one of several
ranks gets such a signal, all stop, the others with 143.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from dreamer_study.model.architectures.code import ModelFailed
from dreamer_study.model.ops.gpu import on_gpu, slow_products
from dreamer_study.model.processes import (
    BAD_INPUT,
    HOPELESS,
    open_standard_streams,
    stopping_signals,
)
from dreamer_study.model.training.branches import branch_of, is_branched, remove_unfinished
from dreamer_study.model.training.config import read_run
from dreamer_study.model.training.provenance import record_code_change, source_digests
from dreamer_study.model.training.ranks import (
    OtherRankFailed,
    Ranks,
    TrainingFailed,
    failure_status,
    process_group,
)
from dreamer_study.model.training.recorder import Recorder
from dreamer_study.model.training.trainer import Trainer
from dreamer_study.pipeline.errors import InputError, is_full_disk
from dreamer_study.pipeline.storage.locks import holder, open_lock, sign, try_lock

LOOK_SECONDS = 1.0  # between two looks whether another process still trains a run
BRANCHING = "branching"  # why a part of a training has ended: the branch of a checkpoint is next
WARM_UP = 2  # steps before the traced ones: the first steps allocate and compile


def train(
    folder: Path | str,
    *,
    stop_at: int | None = None,
    accept_code_change: bool = False,
    trust_code: bool = False,
    wait: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    line: Callable[[str], object] = lambda text: None,
    notice: Callable[[str], object] = lambda text: None,
) -> str:
    """Train the run in `folder` to its target, or to the first step at or above `stop_at` tokens.

    Returns 'complete' (the target is reached), 'stopped' (at `stop_at`) or 'interrupted'
    (`stopped`, called after every step, was true on a rank). `line` gets a line of progress every
    few seconds, `notice` what happens once. Another call resumes the run, also on a copy of the
    folder. With `accept_code_change` a run that other code has started resumes, and the change is
    recorded in its folder (`code_changes.json`). A model in a file of the user's needs
    `trust_code`. With `wait` the call waits while another process trains the run. Raises InputError
    for bad input; TrainingFailed when loss or gradients are not finite, or memory is short;
    OtherRankFailed in one of several ranks, when another rank says what is wrong.
    """
    # Three blocks, as no rank may wait for another within a block: only the lock waits.
    with process_group() as ranks, ExitStack() as held:
        with ranks.failing_together():
            if stop_at is not None and stop_at < 1:
                raise InputError(f"--stop-at is {stop_at}, but it must be at least 1")
            if not (Path(folder) / "run.json").exists():
                raise InputError(f"no run in {folder}: run.json is missing")
        with ranks.failing_together():
            held.enter_context(_alone(Path(folder), ranks, wait, stopped))
        options = _Options(stop_at, accept_code_change, trust_code, stopped, line, notice)
        while True:
            # Each part has a trainer of its own: a run continues after a branch as after a kill.
            status, tokens = _train_part(folder, None, ranks, options)
            if status != BRANCHING:
                return status
            ended, _ = _train_part(folder, tokens, ranks, options)
            if ended == "interrupted":
                return ended


@dataclass(frozen=True)
class _Options:
    """What `train` was called with, besides the folder."""

    stop_at: int | None
    accept_code_change: bool
    trust_code: bool
    stopped: Callable[[], bool]
    line: Callable[[str], object]
    notice: Callable[[str], object]


def _train_part(
    folder: Path | str, branched_at: int | None, ranks: Ranks, options: _Options
) -> tuple[str, int]:
    """Train a run up to its next branch or its goal, or the branch from `branched_at` tokens.

    Returns a status as `train` does, or BRANCHING where a branch is next, with the tokens so far.
    """
    gc.collect()  # the trainer of the part before
    with ranks.failing_together():
        run = read_run(folder)
        of_all = min(run.training.tokens, options.stop_at or run.training.tokens)
        goal = of_all
        if branched_at is not None:
            run = branch_of(run, branched_at)
            goal = run.training.tokens
            run.folder.mkdir(parents=True, exist_ok=True)
        try:
            trainer = Trainer(
                run,
                ranks,
                accept_code_change=options.accept_code_change,
                trust_code=options.trust_code,
            )
        except torch.OutOfMemoryError as error:
            raise TrainingFailed(
                "out of memory before the first step, for the weights, their average and"
                " AdamW's moments; end other programs on the device, or train a smaller model"
            ) from error
        recorder = None
        if ranks.is_first:
            if branched_at is None:
                remove_unfinished(run)
                _tell_at_start(trainer, options.notice)
            recorder = Recorder(trainer, of_all, options.line, options.notice)
    trainer.synchronize()
    return _train(trainer, goal, options.stopped, recorder), trainer.tokens


def _tell_at_start(trainer: Trainer, notice: Callable[[str], object]) -> None:
    """Record and tell an accepted change of the code, and tell of a GPU's slow products."""
    run = trainer.run
    change = trainer.code_change
    if change:
        record_code_change(run.folder, change)
        notice(
            f"{run.run_id}: continues from {change['tokens']:,} tokens; code {change['before']} is"
            f" now {change['after']}"
        )
    if on_gpu(trainer.device):
        slow = slow_products(trainer.device, trainer.precision)
        if slow:
            notice(f"{run.run_id}: {slow}")


def _train(
    trainer: Trainer, goal: int, stopped: Callable[[], bool], recorder: Recorder | None
) -> str:
    """Take optimiser steps up to `goal` tokens.

    Only the first rank has a recorder; all ranks stop at the same step.
    """
    started = time.monotonic() - trainer.seconds  # as if earlier parts had just been trained
    try:
        # a checkpoint at 0 tokens, or one that a kill prevented
        if trainer.due and recorder:
            recorder.save()
        if _branch_is_next(trainer):
            return BRANCHING
        while trainer.tokens < goal and not trainer.ranks.any(stopped()):
            loss, learning_rate, norm = trainer.train_step()
            trainer.seconds = time.monotonic() - started
            if recorder:
                recorder.record_step(loss, learning_rate, norm)
            if _branch_is_next(trainer):
                return BRANCHING
        status = "complete" if trainer.tokens >= trainer.config.tokens else "stopped"
        if recorder:
            recorder.end(status)
        return status if trainer.tokens >= goal else "interrupted"
    except (Exception, SystemExit) as error:
        if recorder:
            recorder.fail()
        said = _said(error, trainer)
        raise said from (None if said is error else error)
    finally:
        if recorder:
            recorder.close()


def _branch_is_next(trainer: Trainer) -> bool:
    """Tell whether a run is at a checkpoint whose branch is not finished.

    The first rank says that, which alone knows of checkpoints that were asked for meanwhile.
    """
    run = trainer.run
    if not run.training.branches:
        return False
    is_next = trainer.due and not is_branched(run, trainer.tokens)
    return trainer.ranks.any(trainer.ranks.is_first and is_next)


def _said(error: BaseException, trainer: Trainer) -> BaseException:
    """Return the error that says in a line why the training has ended."""
    if isinstance(error, torch.OutOfMemoryError):  # outside a batch, where nothing is halved
        return TrainingFailed(
            f"step {trainer.step + 1}: out of memory on {trainer.device} outside of the passes"
            " of the batch; training stopped; end other programs on the device, or train a smaller"
            " model"
        )
    if isinstance(error, InputError | TrainingFailed | OSError):
        return error
    return trainer.model.failed(f"step {trainer.step + 1}", error)  # such as in a backward pass


@contextmanager
def _alone(folder: Path, ranks: Ranks, wait: bool, stopped: Callable[[], bool]) -> Iterator[None]:
    """Lock the folder by the first rank, for which all wait: so all then read the same.

    The lock ends with its process. Raises InputError if another process trains there; with `wait`
    only when this one is stopped before the other ends.
    """
    path = folder / ".lock"
    with open_lock(path) as file:
        while ranks.any(ranks.is_first and not try_lock(file)):
            if ranks.any(not wait or stopped()):
                raise InputError(
                    f"{folder} is being trained by {holder(path)}; wait for this process or stop it"
                )
            time.sleep(LOOK_SECONDS)
        if ranks.is_first:
            sign(file)
        yield


def write_trace(trainer: Trainer, steps: int) -> Path:
    """Take `steps` steps, and write their trace to `trace.json` in the run's folder.

    By torch's own profiler, for chrome://tracing or ui.perfetto.dev. No state is saved: the run
    stays where it was.
    """
    for _ in range(WARM_UP):
        trainer.train_step()
    device = [ProfilerActivity.CUDA] if trainer.device.type == "cuda" else []
    with profile(activities=[ProfilerActivity.CPU, *device]) as recorded:
        for _ in range(steps):
            trainer.train_step()
        if device:
            torch.cuda.synchronize()
    path = trainer.run.folder / "trace.json"
    recorded.export_chrome_trace(str(path))
    return path


def prepare_staying() -> None:
    """Note the code of this program as it was imported: its files may change while it stays."""
    source_digests(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m dreamer_study.model.train",
        description="Train or resume the run in a folder.",
    )
    parser.add_argument("folder", type=Path, help="a folder with run.json")
    parser.add_argument(
        "--stop-at",
        type=int,
        metavar="TOKENS",
        help="stop at the first step that reaches them",
    )
    parser.add_argument(
        "--accept-code-change",
        action="store_true",
        help="resume a run that other code has started, and record that",
    )
    parser.add_argument(
        "--trust-code", action="store_true", help="let a model in a file of the user's run"
    )
    parser.add_argument(
        "--wait", action="store_true", help="wait while another process trains the run"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print progress also where there is no terminal"
    )
    parser.add_argument(
        "--profile", type=int, metavar="STEPS", help="save nothing: trace STEPS steps (1 or more)"
    )
    options = parser.parse_args(arguments)

    open_standard_streams()
    received: list[int] = []
    for number in stopping_signals():
        signal.signal(number, lambda number, frame: received.append(number))
    shows_progress = options.verbose or sys.stdout.isatty()
    try:
        if options.profile:
            trainer = Trainer(
                read_run(options.folder),
                accept_code_change=options.accept_code_change,
                trust_code=options.trust_code,
            )
            print(write_trace(trainer, options.profile))
            return 0
        status = train(
            options.folder,
            stop_at=options.stop_at,
            accept_code_change=options.accept_code_change,
            trust_code=options.trust_code,
            wait=options.wait,
            stopped=lambda: bool(received),
            line=_print_line if shows_progress else (lambda text: None),
            notice=lambda text: print(text, file=sys.stderr, flush=True),
        )
    except OtherRankFailed as error:
        return error.status
    except ModelFailed as error:  # of this run alone, and the same at another try
        print(error, file=sys.stderr)
        return HOPELESS
    except InputError as error:
        print(f"{BAD_INPUT}{error}", file=sys.stderr)
        return 2
    except TrainingFailed as error:
        print(f"{options.folder}: {error}", file=sys.stderr)
        return failure_status(error)
    except OSError as error:
        print(f"{options.folder}: {error}", file=sys.stderr)
        return HOPELESS if is_full_disk(error) else 1
    if status == "interrupted":
        # a rank that no signal has reached stops with the one that got it
        number = received[0] if received else signal.SIGTERM
        return 128 + number
    return 0


def _print_line(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
