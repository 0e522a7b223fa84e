"""Start and follow the processes of a study: its trainings and evaluations.

`local.py` runs `Jobs` as processes of this machine, on its free cores or GPUs; `cluster.py` runs
them on the workers of a Dask scheduler, which start the processes. `retries.py` says which job is
tried again.

    submit(job) -> waits by priority -> starts: `do(job, work)` -> ends
                                            |                       |
    events():                            started, progress, ...  finished | failed
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from dreamer_study.model.checkpoints.checksums import BRANCHES
from dreamer_study.pipeline.storage.files import PARTIAL

BAD_INPUT = 2  # the exit status of a process that was given bad input


class Failed(RuntimeError):
    """A training or an evaluation failed.

    The text of the error names the process and its log file. `reason` is the last message of the
    process. `may_pass` is whether another attempt may succeed.
    """

    def __init__(self, text: str, reason: str = "", *, may_pass: bool = False) -> None:
        super().__init__(text)
        self.reason = reason or text
        self.may_pass = may_pass

    def __reduce__(self) -> tuple[Callable[..., Failed], tuple[str, str, bool]]:
        """Let the error travel from a worker of a cluster with all that it says."""
        return _failed, (str(self), self.reason, self.may_pass)


def _failed(text: str, reason: str, may_pass: bool) -> Failed:
    return Failed(text, reason, may_pass=may_pass)


class Stopped(RuntimeError):
    """A job ended, or did not start, because the study is being stopped."""


class Paused(Stopped):
    """A job ended at its newest state, or did not start, because the study is being paused."""


@dataclass(frozen=True, eq=False)
class Job:
    """A command over a folder: `python -m program arguments`.

    The process writes `folder/progress.json`, and a training its checkpoints to
    `folder/checkpoints`. What the process prints is appended to `log`. The job with the smallest
    `priority` starts next; it takes `devices` GPUs, or cores. `goal` is the token count to which a
    training goes, or the number of checkpoints of the run that is evaluated. `made_of` names the
    steps whose results the job reads: outputs of the store, other jobs.
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
    made_of: tuple[str, ...] = ()


Tick = Callable[[], None]
"""Called every second while a job runs, and once at its end."""

Work = Callable[[Tick], None]
"""The work of a job, at its place and on its devices; called again it resumes."""


def do_here(job: Job, work: Work) -> None:
    """Do a job once, and show it nowhere."""
    work(lambda: None)


@dataclass(frozen=True)
class Event:
    """Something that happened to a job.

    'started'; 'progress', every second; 'checkpoint', a training has written another one; 'paused',
    it starts again when the study is resumed; 'finished'; 'failed', with the error: Failed where
    the others can continue, else InputError (the job was refused) or a defect.
    """

    job: Job
    kind: Literal["started", "progress", "checkpoint", "paused", "finished", "failed"]
    error: BaseException | None = None

    @property
    def ends(self) -> bool:
        """Whether the job has ended."""
        return self.kind in ("finished", "failed")


class Jobs(ABC):
    """Run jobs, and tell what happens to them to the one thread that reads the events.

    `do(job, work)` is called in a thread when a job has its cores or GPUs; it calls `work`, again
    where another try may help. The thread is in the context in which these jobs were opened.
    """

    gpus: Sequence[int] = ()
    """The numbers of GPUs that jobs may use, machine by machine; none where jobs run on CPUs."""

    def __init__(self) -> None:
        self.do: Callable[[Job, Work], None] = do_here
        self._context = copy_context()
        self._events: SimpleQueue[Event | BaseException] = SimpleQueue()
        self._left = 0  # jobs that have not ended, as far as the reader of the events knows
        self._stopping = threading.Event()
        self._paused = threading.Event()

    def submit(self, job: Job) -> None:
        """Take a job, which starts when cores or GPUs are free and no other job is more urgent."""
        self._left += 1
        self._take(job)

    def events(self) -> Iterator[Event]:
        """Yield what happens, until every job that has been submitted has ended.

        Jobs may be submitted meanwhile. Raises what `interrupt` was given.
        """
        while self._left:
            event = self._events.get()
            if isinstance(event, BaseException):
                raise event
            if event.ends:
                self._left -= 1
            yield event

    def interrupt(self, error: BaseException) -> None:
        """Raise an error in the thread that reads the events; any thread may call this."""
        self._events.put(error)

    @abstractmethod
    def _take(self, job: Job) -> None: ...

    @abstractmethod
    def pause(self) -> None:
        """Let no job start; end those that run at their newest states, and free their devices."""

    @abstractmethod
    def resume(self) -> None:
        """Start again what was paused, and what waits."""

    @abstractmethod
    def stop(self) -> None:
        """End all jobs.

        Trainings save their states in a grace period, then nothing of them is left.
        """

    def _check_not_stopped(self, job: Job) -> None:
        """Raise Stopped or Paused where no job may run any more."""
        if self._stopping.is_set():
            raise Stopped(job.name)
        if self._paused.is_set():
            raise Paused(job.name)


def teller(job: Job, put: Callable[[Event], object]) -> Tick:
    """Return a function that tells of the progress of a job, and of checkpoints that have come."""
    told = set(_checkpoints(job))

    def tell() -> None:
        new = set(_checkpoints(job)) - told
        if new:
            told.update(new)
            put(Event(job, "checkpoint"))
        put(Event(job, "progress"))

    return tell


def _checkpoints(job: Job) -> list[str]:
    """List the names of the finished checkpoints of a training, and of its branches."""
    names: list[str] = []
    for folder in ("checkpoints", BRANCHES):
        with suppress(OSError):  # not there yet, or a file system that hangs
            names += os.listdir(job.folder / folder)
    return [name for name in names if not name.endswith(PARTIAL)]
