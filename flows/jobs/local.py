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
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dreamer_study.flows.jobs import BAD_INPUT, Event, Failed, Job, Jobs, Paused, Tick, teller
from dreamer_study.flows.jobs.devices import (
    concurrency,
    gpus,
    lock_gpus,
    machine_memory,
    visible_gpus,
)
from dreamer_study.flows.jobs.private_files import compiled_libraries
from dreamer_study.flows.jobs.silence import silence_watch
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.processes import BAD_INPUT as SAYS_BAD_INPUT
from dreamer_study.model.processes import GRACE_SECONDS, HOPELESS, Child, stop
from dreamer_study.pipeline.errors import InputError

# bytes for lm-eval, torch and a model: memory can be shorter than cores
EVALUATION_MEMORY = 2 * 10**9


class LocalJobs(Jobs):
    """Jobs as processes of this machine (see `Jobs`)."""

    def __init__(self, study: Study) -> None:
        super().__init__()
        self._gpus = gpus(study)
        self._per_gpu = study.compute.per_gpu
        self._silence = study.compute.silence
        self.gpus = (self._gpus,) if self._gpus else ()
        # Places for processes: on GPUs only a limit, as `lock_gpus` says which GPU is free.
        self._most = concurrency(study)
        self._free = self._most
        # Who names `workers` knows the machine's memory; else evaluations are as many as fit it.
        evaluations = self._most
        if not study.workers:
            evaluations = max(1, min(self._most, machine_memory() // EVALUATION_MEMORY))
        # how many more of a kind may start
        self._room = {"training": self._most, "evaluation": evaluations}
        self._waiting: list[tuple[tuple[int, ...], int, Job]] = []
        self._arrivals = itertools.count()
        self._lock = threading.Lock()
        # Linux ends a process with the thread that started it, so threads live until `close`: one
        # for each place.
        self._threads = ThreadPoolExecutor(self._most)
        self._living: set[Child] = set()
        # Who has stayed, by program and environment.
        self._idle: dict[tuple[str, frozenset[tuple[str, str]]], list[Child]] = defaultdict(list)
        self._folder = study.folder

    def _take(self, job: Job) -> None:
        with self._lock:
            heapq.heappush(self._waiting, (job.priority, next(self._arrivals), job))
        self._start_what_fits()

    def pause(self, grace: float = GRACE_SECONDS) -> None:
        self._paused.set()
        with self._lock:
            living = list(self._living)
        stop(living, grace)
        deadline = time.monotonic() + grace
        while self._free < self._most and time.monotonic() < deadline:
            time.sleep(0.05)  # until each thread has heard of the end of its process

    def resume(self) -> None:
        self._paused.clear()
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
        """Start the most urgent jobs that fit the free places.

        Where memory has no room for an evaluation, trainings go past it. No job goes past one that
        waits for several places, which would wait for ever.
        """
        with self._lock:
            passed_over = []
            while self._waiting and not self._held_back:
                job = self._waiting[0][2]
                if not self._room[job.kind]:
                    passed_over.append(heapq.heappop(self._waiting))
                    continue
                taken = min(job.devices, self._most)
                if taken > self._free:
                    break
                heapq.heappop(self._waiting)
                self._free -= taken
                self._room[job.kind] -= 1
                self._threads.submit(self._context.copy().run, self._follow, job, taken)
            for waiting in passed_over:
                heapq.heappush(self._waiting, waiting)

    @property
    def _held_back(self) -> bool:
        return self._stopping.is_set() or self._paused.is_set()

    def _follow(self, job: Job, taken: int) -> None:
        """Run one job to its end, in a thread, and tell what happens to it."""
        error: BaseException | None = None
        try:
            with self._devices(job) as environment:
                self._events.put(Event(job, "started"))
                tell = teller(job, self._events.put)
                self.do(job, partial(self._run, job, environment, tell))
        except BaseException as raised:  # each end must become an event, or its reader waits
            error = raised
        # Places are free before the end is told: the reader may submit jobs that want them.
        with self._lock:
            self._free += taken
            self._room[job.kind] += 1
            if isinstance(error, Paused):
                heapq.heappush(self._waiting, (job.priority, next(self._arrivals), job))
        if isinstance(error, Paused):
            self._events.put(Event(job, "paused"))
        elif error:
            self._events.put(Event(job, "failed", error))
        else:
            self._events.put(Event(job, "finished"))
        self._start_what_fits()

    @contextmanager
    def _devices(self, job: Job) -> Iterator[dict[str, str]]:
        """Hold the GPUs of a job; yields the environment of its process, which names them."""
        environment = dict(job.environment)
        if not self._gpus:
            yield environment
            return
        names = visible_gpus(self._gpus)
        wait = partial(self._wait, job)
        with lock_gpus(names, job.devices, wait, self._per_gpu) as locked:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(locked)
            yield environment

    def _run(self, job: Job, environment: Mapping[str, str], tell: Tick, listen: Tick) -> None:
        """Run the command of a job; called again, it runs the command again.

        Raises Failed, InputError (exit status 2), Stopped or Paused.
        """
        check_silence = silence_watch(job, self._silence)

        def tick() -> None:
            tell()
            listen()
            check_silence()

        try:
            self._check_not_stopped(job)
            self._run_once(job, environment, tick)
        except BaseException:
            # While jobs are being stopped or paused, every end is by that.
            self._check_not_stopped(job)
            raise

    def _run_once(self, job: Job, environment: Mapping[str, str], tick: Tick) -> None:
        """Have the command of a job run by a process that has stayed, or by a new one."""
        stays = job.devices == 1 and (not self._gpus or job.kind == "evaluation")
        idle = []
        if stays:
            # The environment names the GPU: a process serves only jobs of its own GPU.
            idle = self._idle[job.program, frozenset(environment.items())]
        process = self._living_one(idle) or self._start(job, environment, stays=stays)
        with ExitStack() as ended:
            ended.callback(self._end, process)  # unless it has answered well: then it stays
            if not stays:
                check_status(process, process.wait(tick), job)
                return
            process.log = job.log
            request = json.dumps({"arguments": job.arguments, "log": str(job.log)})
            if not process.ask(request, tick):
                # An end without an answer is a failure, even with status 0.
                check_status(process, process.finish() or 1, job)
            ended.pop_all()
            idle.append(process)

    def _living_one(self, idle: list[Child]) -> Child | None:
        """Take a process that has stayed; None where all are at work."""
        with self._lock:
            while idle:
                process = idle.pop()
                if process.poll() is None:
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
        # A stop or a pause that came before the last line has not seen the process.
        if self._held_back:
            self._end(process)
            self._check_not_stopped(job)
        return process

    def _end(self, process: Child) -> None:
        process.kill()
        with self._lock:
            self._living.discard(process)

    def _wait(self, job: Job, seconds: float) -> None:
        """Wait for `seconds`. Raises Stopped or Paused when jobs are being stopped or paused."""
        self._stopping.wait(seconds)
        self._check_not_stopped(job)


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
    """Raise what an exit status other than 0 means: InputError, or Failed.

    Bad input is said in words too, as the user's code may end a process with the same status.
    """
    if not status:
        return
    line = child.last_line()
    if status == BAD_INPUT and line.startswith(SAYS_BAD_INPUT):
        raise InputError(line.removeprefix(SAYS_BAD_INPUT))
    reason = line
    if status < 0:
        reason = f"killed by signal {-status}, its last line was: {line}"
    raise Failed(
        f"{job.name}: python -m {job.program} ended with status {status}; see {child.log}: {line}",
        reason,
        may_pass=status != HOPELESS,
    )
