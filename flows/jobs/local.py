"""Run jobs as processes of this machine: as many as it has cores or GPUs, the most urgent first.

A process stays for the next job of its kind (`model/worker.py`), since imports take seconds. On
GPUs only evaluators stay, each on its device, of whose memory each keeps half a gigabyte; a
training ends, and frees its devices. Up to `compute.per_gpu` processes share a GPU, which small
models leave idle most of the time.
"""

from __future__ import annotations

import heapq
import itertools
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dreamer_study.flows.jobs import BAD_INPUT, Event, Failed, Job, Jobs, Stopped, teller
from dreamer_study.flows.jobs.devices import (
    concurrency,
    gpus,
    lock_gpus,
    machine_memory,
    visible_gpus,
)
from dreamer_study.flows.jobs.private_files import compiled_libraries
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.processes import GRACE_SECONDS, Child, stop
from dreamer_study.pipeline.errors import InputError

# bytes for lm-eval, torch and a model: memory can be shorter than cores
EVALUATION_MEMORY = 2 * 10**9


class LocalJobs(Jobs):
    """Jobs as processes of this machine (see `Jobs`)."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self._free, self._gpus, self._per_gpu = (
            concurrency(study),
            gpus(study),
            study.compute.per_gpu,
        )
        self.gpus = (self._gpus,) if self._gpus else ()
        self._most = self._free
        by_memory = self._free if study.workers else max(1, machine_memory() // EVALUATION_MEMORY)
        # how many more may start
        self._room = {"training": self._free, "evaluation": min(self._free, by_memory)}
        self._waiting: list[tuple[tuple[int, ...], int, Job]] = []
        self._arrivals = itertools.count()
        self._lock = threading.Lock()
        # a process gets SIGTERM when the thread that started it ends
        self._threads = ThreadPoolExecutor(self._most)
        self._living: set[Child] = set()
        # Who has stayed, by program and environment.
        self._idle: dict[tuple[str, frozenset[tuple[str, str]]], list[Child]] = defaultdict(list)
        self._folder = study.folder

    def _take(self, job: Job) -> None:
        with self._lock:
            heapq.heappush(self._waiting, (job.priority, next(self._arrivals), job))
        self._start_what_fits()

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        self._stopping.set()
        with self._lock:
            self._waiting.clear()
            living = list(self._living)
        stop(living, grace)

    def close(self) -> None:
        """End the processes that have stayed, when no job is left."""
        for process in list(self._living):
            self._end(process)
        self._threads.shutdown(wait=False)

    def _start_what_fits(self) -> None:
        """Start the most urgent jobs that fit the free cores or GPUs; no job overtakes one that
        waits for several."""
        with self._lock:
            passed = []
            while self._waiting and not self._stopping.is_set():
                job = self._waiting[0][2]
                if not self._room[job.kind]:
                    passed.append(heapq.heappop(self._waiting))
                    continue
                if self._free < (taken := min(job.devices, self._most)):
                    break
                heapq.heappop(self._waiting)
                self._free -= taken
                self._room[job.kind] -= 1
                self._threads.submit(self._follow, job, taken)
            for one in passed:
                heapq.heappush(self._waiting, one)

    def _follow(self, job: Job, taken: int) -> None:
        """Run one job to its end, in a thread, and tell what happens to it."""
        error: BaseException | None = None
        try:
            with ExitStack() as held:
                environment = dict(job.environment)
                if self._gpus:
                    lock = lock_gpus(
                        visible_gpus(self._gpus), job.devices, self._wait, self._per_gpu
                    )
                    names = held.enter_context(lock)
                    environment["CUDA_VISIBLE_DEVICES"] = ",".join(names)
                self._events.put(Event(job, "started"))
                self._run(job, environment, teller(job, self._events.put))
        except BaseException as raised:  # while the jobs are being stopped every end is by the stop
            error = Stopped(job.name) if self._stopping.is_set() else raised
        with self._lock:
            self._free += taken
            self._room[job.kind] += 1
        self._events.put(Event(job, "failed", error) if error else Event(job, "finished"))
        self._start_what_fits()

    def _run(self, job: Job, environment: Mapping[str, str], tick: Callable[[], None]) -> None:
        """Run the command of a job. Raises Failed, or InputError (exit status 2)."""
        stays = job.devices == 1 and (not self._gpus or job.kind == "evaluation")
        idle = self._idle[job.program, frozenset(environment.items())] if stays else []
        process = self._living_one(idle) or self._start(job, environment, stays=stays)
        with ExitStack() as ended:
            ended.callback(self._end, process)
            if not stays:
                check_status(process, process.wait(tick), job)
                return
            process.log = job.log
            if not process.ask(json.dumps({"arguments": job.arguments, "log": str(job.log)}), tick):
                # an end without an answer is a failure
                check_status(process, process.finish() or 1, job)
            ended.pop_all()
            idle.append(process)

    def _living_one(self, idle: list[Child]) -> Child | None:
        """Take a process that has stayed; None where all are at work."""
        with self._lock:
            while idle:
                if (process := idle.pop()).poll() is None:
                    return process
                self._living.discard(process)  # killed while it was idle
        return None

    def _start(self, job: Job, environment: Mapping[str, str], *, stays: bool) -> Child:
        """Start a process for a job; the study's folder tells in a list of processes whose one that
        stays is."""
        staying = ("dreamer_study.model.worker", job.program, str(self._folder))
        program, *arguments = staying if stays else (job.program, *job.arguments)
        process = started(program, arguments, job.log, environment, ranks=job.devices, asked=stays)
        with self._lock:
            self._living.add(process)
        # a stop that came before the last line has not seen the process
        if self._stopping.is_set():
            self._end(process)
            raise Stopped(job.name)
        return process

    def _end(self, process: Child) -> None:
        process.kill()
        with self._lock:
            self._living.discard(process)

    def _wait(self, seconds: float) -> None:
        """Wait so many seconds. Raises Stopped when the jobs are being stopped."""
        if self._stopping.wait(seconds):
            raise Stopped("the study is being stopped")


def started(
    program: str,
    arguments: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    **options: Any,
) -> Child:
    """Start `python -m program arguments`; the output is appended to `log`. `options` are those of
    `Child`.

    The process has a session of its own, takes no modules from the current folder, and gets SIGTERM
    when its parent dies.
    """
    return Child(
        program, *arguments, log=log, environment={**compiled_libraries(), **environment}, **options
    )


def check_status(child: Child, status: int, job: Job) -> None:
    """Raise what an exit status other than 0 means: InputError, or Failed."""
    line = child.last_line() if status else ""
    if status == BAD_INPUT:
        raise InputError(line)
    if status:
        reason = line if status > 0 else f"killed by signal {-status}, its last line was: {line}"
        raise Failed(
            f"{job.name}: python -m {job.program} ended with status {status}; see {child.log}:"
            f" {line}",
            reason,
        )
