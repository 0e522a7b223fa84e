"""Record a run while it trains, on its first rank: log, progress, and when the run is saved.

`progress.json` in the run's folder is rewritten every second; whoever watches the run reads it:

    {"tokens": 1572864, "target": 4000000, "loss": 1.8431, "tokens_per_second": 34094.9,
     "seconds_left": 71.2, "ranks": 1, "step": 3072, "state": "running", "note": "",
     "process": 26445, "machine": "node-3"}

"state" is "starting", "running", "complete", "stopped" or "failed"; "note" says how a shortage of
memory was met, if there was one, and from where a branch starts that is being trained. While it is,
"tokens" stay those at its start.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import torch

from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.module_config import training_flops
from dreamer_study.model.ops.device import device_name, peak_flops
from dreamer_study.model.ops.native.library import available
from dreamer_study.model.training.computers import change_in_words, devices_in_words
from dreamer_study.model.training.config import read_run
from dreamer_study.model.training.step_log import StepLog
from dreamer_study.model.training.trainer import Trainer
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import write_text_atomically

FLUSH_SECONDS = 1.0
LINE_SECONDS = 5.0
PAUSE = 50
"""Shortest time between two saves, as a multiple of what the first of them took.

So at most a fiftieth of the time goes into saving.
"""


class Recorder:
    """Record a run.

    `line` gets a line of progress every few seconds, `notice` what happens once.
    """

    def __init__(
        self,
        trainer: Trainer,
        goal: int,
        line: Callable[[str], object],
        notice: Callable[[str], object],
    ) -> None:
        """`goal` is the token count at which this call of the training ends."""
        self.trainer = trainer
        self.goal = goal
        self.line = line
        self.notice = notice
        run = trainer.run
        self.log = StepLog(run.folder / "steps.csv", trainer.log_bytes, trainer.log_sum)
        peak = peak_flops(device_name(trainer.device), trainer.precision)
        # the share of a second of all devices' peak that a token takes; None: no peak is known
        self.flops_share: float | None = None
        if peak:
            stream = trainer.stream
            flops = training_flops(run.model, stream.document_length, stream.target_share)
            if flops:
                self.flops_share = flops / (peak * trainer.ranks.count)
        # times and tokens that the rate is taken over
        self.past: deque[tuple[float, int]] = deque(maxlen=20)
        self.noticed = trainer.halved
        self.without_engine = _without_engine(trainer)
        self.flushed = time.monotonic()
        self.told = 0.0
        # seconds and tokens at the end of this process's first step, which may compile the model
        self.compiled: tuple[float, int] | None = None
        self.saved: int | None = None  # the step of the newest save
        self.next_save = self.flushed + trainer.config.save_every_seconds
        self.tell("starting")

    def record_step(self, loss: float, learning_rate: float, norm: float) -> None:
        """Log one optimiser step; flush, save and report progress where they are due."""
        trainer = self.trainer
        now = time.monotonic()
        self.log.add(
            trainer.step, trainer.tokens, loss, learning_rate, norm, round(trainer.seconds, 3)
        )
        self.compiled = self.compiled or (trainer.seconds, trainer.tokens)
        if trainer.halved != self.noticed:
            self.noticed = trainer.halved
            self.notice(f"{trainer.run.run_id}: {_halving(trainer)}")
        if trainer.due or not trainer.config.save_every_seconds or now >= self.next_save:
            self.save()
        if now - self.flushed >= FLUSH_SECONDS:
            self.log.flush()
            self.tell("running")
            self.flushed = now
            self._read_points()

    def _read_points(self) -> None:
        """Add the checkpoints that another study may have asked for by now."""
        trainer = self.trainer
        if trainer.run.branch_of:
            return  # a branch has a checkpoint at its end only
        with suppress(InputError, OSError):
            trainer.points |= {*read_run(trainer.run.folder).training.checkpoints}

    def end(self, status: str) -> None:
        """Save the run as 'complete' or 'stopped'."""
        if self.saved != self.trainer.step:
            self.save()
        self.tell("running" if self.trainer.run.branch_of else status)

    def fail(self) -> None:
        """Write the progress of a training that has failed; its newest state stays."""
        with suppress(OSError):  # a full disk may be what the training has failed by
            self.tell("failed")

    def close(self) -> None:
        """Close the log."""
        self.log.close()

    def save(self) -> None:
        """Save the state, with what is recorded so far, and the checkpoint if one is due."""
        trainer = self.trainer
        begun = time.monotonic()
        rate = self._rate()
        # model FLOPs utilisation
        mfu = rate * self.flops_share if rate and self.flops_share else None
        recorded = {
            "device": devices_in_words(trainer.computers),
            "tokens_per_second": rate,
            "mfu": mfu,
            "ranks": trainer.ranks.count,
        }
        trainer.save({**recorded, **self.log.sync()})
        self.saved = trainer.step
        ended = time.monotonic()
        self.next_save = ended + max(trainer.config.save_every_seconds, PAUSE * (ended - begun))

    def _rate(self) -> float | None:
        """Compute the tokens per second of this process's steps after its first one.

        Where that is the only one, of all seconds: a step that compiles may take a minute.
        """
        trainer = self.trainer
        seconds, tokens = self.compiled or (0.0, 0)
        if trainer.seconds > seconds:
            return (trainer.tokens - tokens) / (trainer.seconds - seconds)
        return trainer.tokens / trainer.seconds if trainer.seconds else None

    def tell(self, state: str) -> None:
        """Rewrite `progress.json`, and every few seconds send the line."""
        trainer = self.trainer
        run = trainer.run
        now = time.monotonic()
        self.past.append((now, trainer.tokens))
        then, tokens_then = self.past[0]
        tokens_left = max(0, self.goal - trainer.tokens)
        rate = (trainer.tokens - tokens_then) / (now - then) if now > then else None
        loss = trainer.losses[-1] if trainer.losses else None
        notes = [
            self.without_engine,
            change_in_words(trainer.computers),
            _halving(trainer),
            _branch(trainer),
        ]
        values = {
            "tokens": run.branched_at if run.branch_of else trainer.tokens,
            "target": self.goal,
            "loss": loss,
            "tokens_per_second": rate,
            "seconds_left": tokens_left / rate if rate else None,
            "ranks": trainer.ranks.count,
            "step": trainer.step,
            "state": state,
            "note": "; ".join(filter(None, notes)),
            "process": os.getpid(),
            "machine": socket.gethostname(),
        }
        write_text_atomically(run.home / "progress.json", json.dumps(values), durable=False)
        if state in ("complete", "stopped") or now - self.told >= LINE_SECONDS:
            loss_text = "" if loss is None else f"loss {loss:.3f}, "
            self.line(
                f"{run.run_id}: {_branch(trainer) or state}, step {trainer.step:,},"
                f" {trainer.tokens:,} tokens, {loss_text}{rate or 0:,.0f} tokens/s"
            )
            self.told = now


def _without_engine(trainer: Trainer) -> str:
    """Say that torch computes what the C engine would; "" where it does not."""
    is_ours = isinstance(trainer.run.model, DreamerConfig) and trainer.device.type == "cpu"
    if not is_ours or available(torch.float32):
        return ""
    return "no C engine: the numbers differ by rounding from those of a machine that has one"


def _branch(trainer: Trainer) -> str:
    """Say from where a branch starts; "" for a run."""
    run = trainer.run
    return f"branch from {run.branched_at:,} tokens" if run.branch_of else ""


def _halving(trainer: Trainer) -> str:
    """Describe how a shortage of memory was met; empty where there was none."""
    if not trainer.halved:
        return ""
    tokens = trainer.micro_rows * trainer.stream.sequence_length
    return (
        f"out of memory at step {trainer.halved['step']}: micro-batch of {tokens} tokens instead of"
        f" {trainer.halved['from']}"
    )
