"""Save a run while its training goes on: tensors are copied to host memory, and one thread writes them to the disk.

`torch.distributed.checkpoint` is not used (docs/decisions.md): the ranks hold equal states, so nothing is sharded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from model.architectures.code import FOLDER as CODE
from model.checkpoint import State, save_state, save_weights
from model.training.config import Run

PAUSE = 50
"""Shortest time between two saves, as a multiple of what the first of the two took."""


class StateWriter:
    """Write one state at a time in a thread of its own; the copies of all states share the same host memory.

    Errors of the thread, such as OSError on a full disk, are raised by `check`, `wait` and `copy`.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "state-writer")
        self._writing: Future[None] | None = None
        self._copies: dict[str, Tensor] = {}
        self._begun = self._ended = time.monotonic()

    def is_due(self, interval: float) -> bool:
        """Tell whether to save now: after every step with `interval` 0, else `interval` seconds behind the last save.

        At most a fiftieth of the time goes into saving: a save that takes long is followed by a longer pause.
        """
        if not interval:
            return True
        if self._writing and not self._writing.done():
            return False
        return time.monotonic() - self._ended >= max(interval, PAUSE * (self._ended - self._begun))

    def copy(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copy tensors to host memory, pinned if they are on a GPU. Waits for the writing of earlier copies."""
        self.wait()
        self._begun = time.monotonic()
        for name, tensor in tensors.items():
            if name not in self._copies:
                self._copies[name] = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
            self._copies[name].copy_(tensor, non_blocking=True)
        if any(tensor.is_cuda for tensor in tensors.values()):
            torch.cuda.current_stream().synchronize()
        return {name: self._copies[name] for name in tensors}

    def start(self, write: Callable[[], None]) -> None:
        """Call `write`, which writes what `copy` has returned, in the thread."""

        def timed() -> None:
            write()
            self._ended = time.monotonic()

        self._writing = self._pool.submit(timed)

    def check(self) -> None:
        """Raise the error of the thread, if there is one; returns at once."""
        if self._writing and self._writing.done():
            self._writing.result()

    def wait(self) -> None:
        """Wait until everything is on the disk."""
        if self._writing:
            self._writing.result()

    def close(self) -> None:
        """Wait for the thread's end, whatever its result: for a training that ends by another error."""
        self._pool.shutdown()


def write_state(run: Run, state: State) -> None:
    """Write a run's state, then its checkpoint if one is due at the state's step and not there yet."""
    values = state.values
    (run.folder / "state").mkdir(exist_ok=True)  # without parents: a run whose folder was moved fails here
    save_state(run.folder / "state", values["step"], state, run.training.keep)
    folder = run.folder / "checkpoints" / f"{values['tokens']:015d}"
    if not values["due"] or folder.exists():
        return
    losses = values["losses"]
    extra = {
        "run_id": run.run_id,
        "loss": sum(losses) / len(losses) if losses else None,
        **{name: values[name] for name in ("tokens", "step", "epoch", "seconds", "stream_hash")},
    }
    raw, average = part_of(state, "model."), part_of(state, "average.")
    keep_raw = run.training.raw_checkpoints or not average
    save_weights(folder, run.model, raw, extra, average, keep_raw=keep_raw, code=run.folder / CODE)


def part_of(state: State, prefix: str) -> dict[str, Tensor]:
    """Select the tensors whose names begin with `prefix`, named without the prefix."""
    return {n.removeprefix(prefix): tensor for n, tensor in state.tensors.items() if n.startswith(prefix)}
