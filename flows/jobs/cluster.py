"""Run jobs on the workers of a Dask scheduler (`compute.cluster`).

The scheduler decides who works where, and in which order. Workers see the study's folder and store
under equal paths. A worker that dies has its jobs started again elsewhere.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from dreamer_study.flows.jobs import Event, Failed, Job, Jobs, Paused, Stopped, Tick, teller
from dreamer_study.flows.jobs.devices import cores, lock_gpus, share_ranks, visible_gpus
from dreamer_study.flows.jobs.local import LocalJobs, check_status, started
from dreamer_study.flows.jobs.silence import silence_watch
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.processes import GRACE_SECONDS, TICK_SECONDS, stop
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.locks import try_lock
from dreamer_study.pipeline.storage.parallel import LOST, scheduler

if TYPE_CHECKING:
    from distributed import Client, Future

WORKERS_SECONDS = 30  # for the first worker to come
NOTICE_SECONDS = 10  # for workers to see that a file is gone, and to tell how jobs have ended
logger = logging.getLogger("distributed.dreamer")  # a worker prints its lines
# lives as long as the worker: processes get SIGTERM when their thread ends
_starter = ThreadPoolExecutor(1)


@contextmanager
def open_jobs(study: Study) -> Iterator[tuple[Study, Jobs]]:
    """Open what runs a study's jobs: this machine, or the cluster that the study names.

    Yields the study, with the address of the scheduler in the place of `local`, and the jobs.
    Raises InputError where no scheduler answers, or its workers cannot do the study's work.
    """
    address = study.compute.cluster
    with ExitStack() as held:
        if not address:
            yield study, held.enter_context(closing(LocalJobs(study)))
            return
        if address == "local":
            from distributed import LocalCluster

            here = LocalCluster(
                n_workers=study.workers or cores(), threads_per_worker=1, dashboard_address=None
            )
            address = held.enter_context(here).scheduler_address
            study = study.model_copy(
                update={"compute": study.compute.model_copy(update={"cluster": address})}
            )
        client = held.enter_context(scheduler(address))
        yield study, held.enter_context(_opened(study, client))


@contextmanager
def _opened(study: Study, client: Client) -> Iterator[DaskJobs]:
    """Let jobs run on workers while this process holds the lock of a file that all workers see."""
    for folder in (study.folder, study.store_folder):
        folder.mkdir(parents=True, exist_ok=True)
    jobs = DaskJobs(study, client)
    try:
        yield jobs
    finally:
        jobs.alive.close()


class Alive:
    """A locked file that all workers see: jobs run while the file is there, and locked.

    The lock ends with this process, however that ends.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder.absolute() / f".jobs-{uuid4().hex}"
        self._file = self.path.open("w")
        try_lock(self._file)

    def close(self) -> None:
        """Let no job run any more; workers look every second."""
        self.path.unlink(missing_ok=True)
        self._file.close()


class DaskJobs(Jobs):
    """Jobs on the workers of a Dask scheduler (see `Jobs`).

    Dask decides which job starts next. When a worker says that a job has started, a thread of this
    process does the job: the thread waits for the end of Dask's task.
    """

    def __init__(self, study: Study, client: Client) -> None:
        super().__init__()
        self._client = client
        self._folder = study.store_folder
        self._silence = study.compute.silence
        self._per_gpu = study.compute.per_gpu
        self._waiting: dict[str, Job] = {}  # submitted and not yet started, by Dask's key
        self._futures: dict[str, Future] = {}  # Dask forgets a task whose future nobody holds
        self._sent_under: dict[str, Path] = {}  # the file while which is there a task may run
        self._at_work: set[Job] = set()
        self._held: list[Job] = []  # until the study is resumed
        self._lock = threading.Lock()
        self._places: dict[Job, str] = {}  # the worker on which a job has started
        self.alive = Alive(self._folder)
        self._topic = self.alive.path.name
        try:
            self.gpus = self._check_workers(study)
        except BaseException:
            self.alive.close()
            raise
        client.subscribe_topic(self._topic, lambda event: self._begin(*event[1]))

    def _check_workers(self, study: Study) -> tuple[int, ...]:
        """Return the GPUs of each worker, for a study that may use them.

        Raises InputError for unfit workers.
        """
        address = study.compute.cluster
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except TimeoutError:
            raise InputError(
                f"compute.cluster: no worker has come to {address} within {WORKERS_SECONDS} s"
            ) from None
        for shared in (self.alive.path, study.folder.absolute()):
            seen = self._client.run(os.path.exists, str(shared))
            blind = [worker for worker, sees in seen.items() if not sees]
            if blind:
                raise InputError(
                    f"compute.cluster: worker {blind[0]} does not see {shared}; a study's folder"
                    " and store must be on a file system that all workers share, under one path"
                )
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        offered = (int(worker["resources"].get("GPU", 0)) for worker in workers)
        gpus = tuple(count for count in offered if count)
        if study.training.device == "cuda" and not gpus:
            raise InputError(
                f"training.device is 'cuda', but no worker of {address} offers GPUs; start workers"
                " with `dask worker ... --nthreads 8 --resources GPU=8` on a machine with 8, or say"
                " 'cpu'"
            )
        if study.training.device == "cpu":
            gpus = ()
        share_ranks(study, 1, gpus)  # raises where `training.ranks` is more than a worker has
        return gpus

    def _take(self, job: Job) -> None:
        with self._lock:
            if self._paused.is_set():
                self._held.append(job)
                return
        key = f"{job.kind}-{uuid4().hex}"
        self._waiting[key] = job
        future = self._send(job, key)
        # Dask tells of a start by an event, which may be lost or late: an end tells too.
        future.add_done_callback(lambda _: self._begin(key))

    def _send(self, job: Job, key: str) -> Future:
        """Give a job to Dask, which starts the job on a free worker."""
        per_gpu = self._per_gpu if self.gpus else 0
        work = partial(do, per_gpu=per_gpu, silence=self._silence)
        place = self._places.get(job)  # another try stays where the first one was
        future = self._client.submit(
            work,
            job,
            str(self.alive.path),
            self._topic,
            key,
            key=key,
            priority=dask_priority(job),
            resources=gpu_share(job, per_gpu),
            workers=[place] if place else None,
            allow_other_workers=bool(place),
        )
        self._futures[key] = future
        self._sent_under[key] = self.alive.path
        return future

    def _begin(self, key: str, place: str = "") -> None:
        """Do a job that has started on a worker, in a thread; another start is no news."""
        with self._lock:
            job = self._waiting.pop(key, None)
            if job is None:
                return
            self._at_work.add(job)
            self._places[job] = place
        follow = partial(self._context.copy().run, self._follow, job, key)
        threading.Thread(target=follow, daemon=True).start()

    def _follow(self, job: Job, key: str) -> None:
        """Wait for the end of one job, and tell what happens to it."""
        error: BaseException | None = None
        keys = [key]
        try:
            self._check_not_stopped(job)
            self._events.put(Event(job, "started"))
            self.do(job, partial(self._wait, job, keys, teller(job, self._events.put)))
        except BaseException as raised:
            error = raised
        with self._lock:
            is_over = not self._paused.is_set()  # the pause: it may have been a short one
            if isinstance(error, Paused) and not is_over:
                self._held.append(job)
            self._at_work.discard(job)
        if isinstance(error, Paused):
            self._events.put(Event(job, "paused"))
            if is_over:
                self._take(job)
        elif error:
            self._events.put(Event(job, "failed", error))
        else:
            self._events.put(Event(job, "finished"))

    def _wait(self, job: Job, keys: list[str], tell: Tick, listen: Tick) -> None:
        """Wait for the task of Dask's that runs a job; called again, give the job to Dask again.

        `keys` holds the key of the task that was not waited for yet.
        """
        key = keys.pop() if keys else f"{job.kind}-{uuid4().hex}"
        future = self._futures.get(key) or self._send(job, key)
        ended = threading.Event()
        future.add_done_callback(lambda _: ended.set())
        while not ended.wait(TICK_SECONDS):
            tell()
            listen()
        tell()
        listen()
        del self._futures[key]
        sent_under = self._sent_under.pop(key)
        # While jobs are being stopped or paused, every end is by that.
        self._check_not_stopped(job)
        if future.cancelled():
            raise ConnectionError(LOST)
        raised = future.exception()
        if raised:
            raise Failed(f"{job.name}: {' '.join(str(raised).split())}")
        error = future.result()
        if isinstance(error, Stopped) and sent_under != self.alive.path:
            # It was stopped by a pause that is over: no worker had taken the task in time.
            self._wait(job, [], tell, listen)
            return
        if error:
            raise error

    def pause(self) -> None:
        self._paused.set()
        self.alive.close()
        self._await_end(GRACE_SECONDS + NOTICE_SECONDS)

    def resume(self) -> None:
        if self._stopping.is_set():
            return
        self.alive = Alive(self._folder)
        with self._lock:
            self._paused.clear()
            held = list(self._held)
            self._held.clear()
        for job in held:
            self._take(job)

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        self._stopping.set()
        self.alive.close()
        self._await_end(grace + NOTICE_SECONDS)

    def _await_end(self, seconds: float) -> None:
        """Wait until no job is at work; those that wait end as soon as a worker has them."""
        deadline = time.monotonic() + seconds
        while (self._at_work or self._waiting) and time.monotonic() < deadline:
            time.sleep(0.05)


def dask_priority(job: Job) -> float:
    """Return Dask's priority of a job: the larger starts first; ours is a tuple, the smaller first.

    Example: (0,) gives 0.0, and (1, 2) gives -1.002.
    """
    return -sum(part * 1000.0**-position for position, part in enumerate(job.priority))


def gpu_share(job: Job, per_gpu: int) -> dict[str, float] | None:
    """Return what a job takes of the resource GPU of a worker; nothing on CPUs.

    Up to `per_gpu` jobs share a GPU; a job of several ranks has each of its GPUs alone.
    """
    if not per_gpu:
        return None
    return {"GPU": job.devices if job.devices > 1 else 1 / per_gpu}


def do(
    job: Job, alive: str, topic: str, key: str, *, per_gpu: int, silence: float | None
) -> Failed | InputError | Stopped | None:
    """Run the command of a job, on a worker, while the file `alive` is there, and locked.

    The lock is of the process that wants the job done. Up to `per_gpu` jobs share a GPU; 0 stands
    for a CPU. Logs the start to `topic`. Returns why the job has not been done: for a raised error
    Dask's worker would print a traceback.
    """
    from distributed import get_worker

    def look(seconds: float = 0) -> None:
        """Raise Stopped once the lock can be had: its holder, who wants the job, is gone."""
        time.sleep(seconds)
        try:
            with open(alive) as file:
                # shared, as workers look at the same moment, and NFS gives readers no other lock
                if try_lock(file, shared=True):
                    raise Stopped(job.name)
        except FileNotFoundError:
            raise Stopped(job.name) from None

    try:
        look()
        worker = get_worker()
        environment = {"CUDA_VISIBLE_DEVICES": "", **job.environment}
        with ExitStack() as held:
            if per_gpu:
                names = visible_gpus(int(worker.state.total_resources["GPU"]))
                locked = held.enter_context(lock_gpus(names, job.devices, look, per_gpu))
                environment["CUDA_VISIBLE_DEVICES"] = ",".join(locked)
            logger.info(job.name)
            worker.log_event(topic, [key, worker.address])
            start = partial(
                started, job.program, job.arguments, job.log, environment, ranks=job.devices
            )
            child = _starter.submit(start).result()
            check_silence = silence_watch(job, silence)

            def tick() -> None:
                look()
                check_silence()

            try:
                status = child.wait(tick)
            except BaseException:
                stop([child])
                raise
            finally:
                child.kill()
        check_status(child, status, job)
    except (Failed, InputError, Stopped) as error:
        return error
    return None
