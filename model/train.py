"""Train one run: `python -m model.train <folder> [--stop-at TOKENS]`, from files alone and to files alone.

The x-axis of everything this project says is the number of training tokens, so they are counted exactly: real tokens,
by the optimiser step that consumed them. A run that is stopped or killed at any moment goes on from its last saved
state, on a CPU to the same bits.

Exit status: 0 done (or at --stop-at), 1 the training failed, 2 bad input, 143 stopped by SIGTERM, 130 by SIGINT.
"""

from __future__ import annotations

import argparse
import fcntl
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from model.accounting import flops_per_token
from model.device import device_name, peak_flops
from model.records import Progress, StepLog, write_run_table
from model.run import TrainingConfig, read_run
from model.trainer import Trainer, TrainingFailed
from pipeline.errors import InputError

__all__ = ["TrainingConfig", "main", "train"]

FLUSH_SECONDS = 1.0
LINE_SECONDS = 5.0


def train(
    folder: Path | str,
    *,
    stop_at: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    line: Callable[[str], object] = lambda text: None,
) -> str:
    """Train the run in `folder` to its target, or to the first step at or above `stop_at` tokens.

    Returns 'complete' (the target is reached) or 'stopped'. `stopped` is asked after every step, `line` gets a line of
    progress every few seconds. However it ends, the run can be continued by calling this again, also on a copy of the
    folder. Raises InputError for bad input and TrainingFailed when loss or gradients are not finite or memory is short.
    """
    run = read_run(folder)
    if stop_at is not None and stop_at < 1:
        raise InputError(f"--stop-at is {stop_at}, but it must be at least 1")
    with _alone(run.folder):
        session = _Session(Trainer(run), min(run.training.tokens, stop_at or run.training.tokens), line)
        return session.run(stopped)


class _Session:
    """One process's work on a run: the loop over steps, and when to save, log and tell."""

    def __init__(self, trainer: Trainer, goal: int, line: Callable[[str], object]) -> None:
        self.trainer, self.goal, self.line = trainer, goal, line
        run = trainer.run
        self.rows = run.folder / "rows"
        self.log = StepLog(run.folder / "steps.csv", trainer.log_bytes)
        self.progress = Progress(run.folder / "progress.json", run.run_id, goal)
        peak = peak_flops(device_name(trainer.device), trainer.precision)
        # A backward pass costs two forward ones; what is recomputed to save memory does not count.
        flops = 3 * flops_per_token(run.model, trainer.stream.document_length) if peak else None
        self.flops_share = flops / peak if flops and peak else None
        self.told = 0.0
        self.tell("starting")

    def run(self, stopped: Callable[[], bool]) -> str:
        trainer, config = self.trainer, self.trainer.config
        started = time.monotonic() - trainer.seconds
        saved = flushed = time.monotonic()
        try:
            if trainer.due:
                self.save("stopped")
            while trainer.tokens < self.goal and not stopped():
                loss, learning_rate, norm = trainer.train_step()
                now = time.monotonic()
                trainer.seconds = now - started
                if trainer.step % config.log_every == 0:
                    seconds = round(trainer.seconds, 3)
                    self.log.add(trainer.step, trainer.tokens, loss, learning_rate, norm, seconds)
                if trainer.due or now - saved >= config.save_every_seconds:
                    self.save("stopped")
                    saved = time.monotonic()
                if now - flushed >= FLUSH_SECONDS:
                    self.log.flush()
                    self.tell("running")
                    flushed = now
            status = "complete" if trainer.tokens >= config.tokens else "stopped"
            self.save(status)
            self.tell(status)
            return status
        except TrainingFailed:
            self.write_tables("stopped")
            self.tell("failed")
            raise
        finally:
            self.log.close()

    def save(self, status: str) -> None:
        """State, due checkpoint and tables. Until a run is complete, what is on disk calls it stopped."""
        self.trainer.save(self.log.sync())
        self.write_tables(status)

    def write_tables(self, status: str) -> None:
        trainer = self.trainer
        rate = trainer.tokens / trainer.seconds if trainer.seconds else None
        row = {
            "run_id": trainer.run.run_id,
            "seed": trainer.config.seed,
            "status": status,
            "tokens": trainer.tokens,
            "seconds": trainer.seconds,
            "device": device_name(trainer.device),
            "tokens_per_second": rate,
            "mfu": rate * self.flops_share if rate and self.flops_share else None,
            "stream_hash": trainer.stream_hash,
        }
        self.log.write_table(trainer.run.run_id, self.rows / "steps.parquet")
        write_run_table(row, self.rows / "runs.parquet")

    def tell(self, state: str) -> None:
        trainer, now = self.trainer, time.monotonic()
        loss = trainer.losses[-1] if trainer.losses else None
        text = self.progress.write(state, now, trainer.step, trainer.tokens, loss, self.flops_share)
        if state in ("complete", "stopped") or now - self.told >= LINE_SECONDS:
            self.line(text)
            self.told = now


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which a dead holder frees at once. Raises InputError if another process trains there."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{folder} is being trained by another process; wait for it or stop it") from error
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m model.train", description="Train, or continue, the run in a folder."
    )
    parser.add_argument("folder", type=Path, help="a folder with run.json")
    parser.add_argument("--stop-at", type=int, metavar="TOKENS", help="stop early, at the first step at or above")
    parser.add_argument("--verbose", action="store_true", help="print progress also where there is no terminal")
    options = parser.parse_args(arguments)

    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: received.append(number))
    talks = options.verbose or sys.stdout.isatty()
    try:
        status = train(
            options.folder,
            stop_at=options.stop_at,
            stopped=lambda: bool(received),
            line=(lambda text: print(text, flush=True)) if talks else (lambda text: None),
        )
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except (TrainingFailed, OSError) as error:
        print(f"{options.folder}: {error}", file=sys.stderr)
        return 1
    return 128 + received[0] if received and status != "complete" else 0


if __name__ == "__main__":
    sys.exit(main())
