"""Start and follow the processes of a study: trainings and evaluations. No other module starts such
processes.

`local.py` runs `Jobs` as processes of this machine, on its free cores or GPUs; `cluster.py` runs
them on the workers of a Dask scheduler, which start the processes.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

BAD_INPUT = 2  # the exit status of a process that was given bad input


class Failed(RuntimeError):
    """A process failed; the text names the process and its log, `reason` is what the process said
    last."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason or text


class Stopped(RuntimeError):
    """A job ended, or did not start, because the study is being stopped."""


@dataclass(frozen=True, eq=False)
class Job:
    """A command over a folder: `python -m program arguments`.

    The process writes `folder/progress.json`, and a training its checkpoints to
    `folder/checkpoints`. What the process prints is appended to `log`. The job with the smallest
    `priority` starts next; it takes `devices` GPUs, or cores.
    `goal` is the token count to which a training goes, or the number of checkpoints of the run that
    is evaluated.
    """

    kind: Literal["training", "evaluation"]
    name: str
    program: str
    arguments: tuple[str, ...]
    folder: Path
    log: Path
    priority: tuple[int, ...] = ()
    devices: int = 1
    goal: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """Something that happened to a job.

    'started'; 'progress', every second; 'checkpoint', a training has written another one;
    'finished'; 'failed', with the error: Failed where the others can go on, else InputError (the
    job was refused) or a defect.
    """

    job: Job
    kind: Literal["started", "progress", "checkpoint", "finished", "failed"]
    error: BaseException | None = None

    @property
    def ends(self) -> bool:
        """Whether the job has ended."""
        return self.kind in ("finished", "failed")


class Jobs(ABC):
    """Run jobs, and tell what happens to them to the one thread that submits jobs and reads the
    events."""

    gpus: Sequence[int] = ()
    """The numbers of GPUs that jobs may use, machine by machine; none where jobs run on CPUs."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._left = 0  # jobs that have not ended, as far as the reader of the events knows
        self._stopping = threading.Event()

    def submit(self, job: Job) -> None:
        """Take a job, which starts when cores or GPUs are free and no other job is more urgent."""
        self._left += 1
        self._take(job)

    def events(self) -> Iterator[Event]:
        """Yield what happens, until every job that has been submitted has ended; jobs may be
        submitted meanwhile."""
        while self._left:
            event = self._events.get()
            self._left -= event.ends
            yield event

    @abstractmethod
    def _take(self, job: Job) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """End all jobs: trainings save their states in a grace period, then nothing of them is
        left."""


def teller(job: Job, put: Callable[[Event], object]) -> Callable[[], None]:
    """Return a function that tells of the progress of a job, and of checkpoints that have come."""
    known = set(_checkpoints(job))

    def tell() -> None:
        if new := set(_checkpoints(job)) - known:
            known.update(new)
            put(Event(job, "checkpoint"))
        put(Event(job, "progress"))

    return tell


def _checkpoints(job: Job) -> list[str]:
    """List the names of the finished checkpoints of a training."""
    try:
        return [name for name in os.listdir(job.folder / "checkpoints") if name.isdecimal()]
    except OSError:  # not there yet, or a file system that hangs
        return []
