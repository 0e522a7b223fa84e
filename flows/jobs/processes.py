"""Start processes that are always ended: one for each command, or processes that stay for the next command.

Every process has a session of its own, does not take modules from the current folder, and gets SIGTERM from the kernel
when its parent dies.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from flows.jobs import BAD_INPUT, Failed, Job, Stopped
from flows.jobs.private import compiled_libraries
from model.training.ranks.bound import Child
from pipeline.errors import InputError


def started(program: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str], **options: Any) -> Child:
    """Start `python -m program arguments`; the output is appended to `log`. `options` are those of `Child`."""
    return Child(program, *arguments, log=log, environment={**compiled_libraries(), **environment}, **options)


def check_status(child: Child, status: int, job: Job) -> None:
    """Raise what an exit status other than 0 means: InputError, or Failed."""
    line = child.last_line() if status else ""
    if status == BAD_INPUT:
        raise InputError(line)
    if status:
        reason = line if status > 0 else f"killed by signal {-status}, its last line was: {line}"
        raise Failed(f"{job.name}: python -m {job.program} ended with status {status}; see {child.log}: {line}", reason)


class Staying:
    """Keep processes `python -m model.staying program`, each of which does one job after another, until `close`.

    There are as many processes as jobs have run at once. `alive` opens the block in which a process lives.
    """

    def __init__(self, alive: Callable[[Child], AbstractContextManager[Child]], folder: Path) -> None:
        """Put `folder`, the study's, among each process's arguments: a list of processes then says whose they are."""
        self._alive, self._folder = alive, folder
        self._idle: list[tuple[str, Mapping[str, str], Child]] = []
        self._living: dict[Child, ExitStack] = {}
        self._closed = False
        self._lock = threading.Lock()  # a process is either known to `close`, or ended by its starter
        self._starter = ThreadPoolExecutor(1)  # processes get SIGTERM when the thread that has started them ends

    def ask(self, job: Job, tick: Callable[[], object]) -> None:
        """Run a job in an idle process of the job's program and environment, or else in a new process.

        Calls `tick` every second meanwhile. Raises what `check_status` raises when the process ends instead, and
        Stopped after `close`. A process that does not end well is ended.
        """
        process = self._take(job)
        try:
            answer = process.ask(json.dumps({"arguments": job.arguments, "log": str(job.log)}), tick)
            if not answer:
                status = process.finish() or 1  # a process that has ended without an answer has failed
                check_status(process, status, job)
        except BaseException:
            self._end(process)
            raise
        with self._lock:
            self._idle.append((job.program, job.environment, process))

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            self._starter.shutdown(wait=False)
        for process in list(self._living):
            self._end(process)

    def _take(self, job: Job) -> Child:
        while process := self._idle_one(job):
            if process.poll() is None:
                process.log = job.log
                return process
            self._end(process)  # killed while it was idle
        with self._lock:
            if self._closed:
                raise Stopped(job.name)
            starting = self._starter.submit(self._start, job)
        return starting.result()

    def _idle_one(self, job: Job) -> Child | None:
        with self._lock:
            for place, (program, environment, process) in enumerate(self._idle):
                if (program, environment) == (job.program, job.environment):
                    del self._idle[place]
                    return process
        return None

    def _start(self, job: Job) -> Child:
        held = ExitStack()
        arguments = [job.program, str(self._folder)]
        process = started("model.staying", arguments, job.log, job.environment, asked=True)
        held.enter_context(self._alive(process))
        with self._lock:
            if not self._closed:
                self._living[process] = held
                return process
        held.close()
        raise Stopped(job.name)

    def _end(self, process: Child) -> None:
        if held := self._living.pop(process, None):
            held.close()
