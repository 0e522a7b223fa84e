"""Divide this machine among processes: how many run at once, and which GPUs each of them sees."""

from __future__ import annotations

import itertools
import os
import re
import threading
from bisect import insort
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from flows.running.private import open_private, private_folder
from flows.running.processes import wait_unless_stopping, wakes_to_stop
from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.storage.locks import try_lock

POLL_SECONDS = 0.5
DEVICE = re.compile(r"\d+|(GPU|MIG)-[0-9A-Za-z-]+(/\d+)*")


def cores() -> int:
    """Count the CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus(study: Study) -> int:
    """Count the CUDA devices that the study may use on this machine."""
    if study.training.device == "cpu":
        return 0
    import torch  # seconds, which a study on CPUs saves

    return torch.cuda.device_count()


def concurrency(study: Study) -> int:
    """Count the processes that run at once: the study's `workers`, else one for each GPU, else one for each core."""
    return study.workers or gpus(study) or cores()


def check_devices(study: Study) -> None:
    """Raise InputError if the study names CUDA as its device and torch sees none here, before any work."""
    if study.training.device == "cuda" and not gpus(study):
        raise InputError("training.device is 'cuda', but torch sees no CUDA device here; say 'cpu' or 'auto'")


def share_ranks(study: Study, runs: int, found: int | None = None) -> list[int]:
    """Divide `found` GPUs (default: those of this machine) among `runs` runs: count the ranks that train each of them.

    A run gets `training.ranks`, else an equal share, and the last runs, the slowest, get one of the remainder: 8 GPUs
    and 3 runs give [2, 3, 3]. At least one, at most one for each row of a batch, and one on a CPU. Raises InputError if
    the study wants more GPUs for one run than the machine has.
    """
    found = gpus(study) if found is None else found
    wanted, training = study.training.ranks, study.training
    if wanted and found and wanted > found:
        raise InputError(f"training.ranks is {wanted}, but this machine has {found} GPUs")
    if wanted or not found:
        return [wanted or 1] * runs
    rows = training.batch_tokens // training.sequence_length
    share, rest = divmod(min(found, study.workers or found), runs)
    return [max(1, min(share + (run >= runs - rest), rows)) for run in range(runs)]


class Slots:
    """Run at most `count` processes at once, the most urgent first; each GPU belongs to one process at a time."""

    def __init__(self, study: Study) -> None:
        self.gpus, self.count = gpus(study), concurrency(study)
        self._free, self._changed = self.count, threading.Condition()
        self._arrivals = itertools.count()
        self._waiting: list[tuple[tuple[int, ...], int]] = []  # in order: how urgent, then by arrival
        wakes_to_stop(self._changed)

    @contextmanager
    def take(self, wanted: int = 1, urgency: tuple[int, ...] = ()) -> Iterator[dict[str, str]]:
        """Wait for `wanted` slots; a smaller `urgency` goes first, and nobody overtakes who waits for several slots.

        Yields the environment variables that show processes only their own GPUs.
        """
        taken, own = min(wanted, self.count), (urgency, next(self._arrivals))
        with self._changed:
            insort(self._waiting, own)
            try:
                while self._waiting[0] != own or self._free < taken:
                    wait_unless_stopping(0)
                    self._changed.wait()
                self._free -= taken
            finally:
                self._waiting.remove(own)
                self._changed.notify_all()
        try:
            if not self.gpus:
                yield {}
                return
            with lock_gpus(_visible_gpus(self.gpus), wanted) as names:
                yield {"CUDA_VISIBLE_DEVICES": ",".join(names)}
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()


_shared: dict[tuple[Path, int, int], Slots] = {}


def shared_slots(study: Study) -> Slots:
    """Return the slots of a study, the same for all stages in this process: training and evaluation share them."""
    return _shared.setdefault((study.folder.resolve(), concurrency(study), gpus(study)), Slots(study))


@contextmanager
def lock_gpus(names: Sequence[str], wanted: int = 1) -> Iterator[list[str]]:
    """Wait for `wanted` of the named GPUs, all at once, and lock them. Yields their names.

    The locks are the operating system's, on one file for each GPU: a killed holder frees them at once. A process that
    finds too few GPUs frees what it has, so that two waiting processes never wait for each other.
    """
    folder = private_folder("devices")
    while True:
        with ExitStack() as held:
            found: list[str] = []
            for name in names:
                if len(found) < wanted:
                    file = held.enter_context(open_private(folder / name.replace("/", "-")))
                    found += [name] if try_lock(file) else []
            if len(found) == wanted:
                yield found
                return
        wait_unless_stopping(POLL_SECONDS)


def _visible_gpus(count: int) -> list[str]:
    """List the names by which CUDA_VISIBLE_DEVICES knows the `count` GPUs that this process sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not visible:
        return [str(number) for number in range(count)]
    names = [name.strip() for name in visible.split(",")][:count]
    for name in names:
        if not DEVICE.fullmatch(name):
            raise InputError(f"CUDA_VISIBLE_DEVICES holds {name!r}, which names no device: give numbers or UUIDs")
    return names
