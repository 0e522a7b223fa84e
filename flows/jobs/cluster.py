"""Run jobs on the workers of a Dask scheduler (`compute.cluster`), which decides who works where,
and in which order.

Workers see the study's folder and store under equal paths. A worker that dies has its jobs started
again elsewhere.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dreamer_study.flows.jobs import Event, Failed, Job, Jobs, Stopped, teller
from dreamer_study.flows.jobs.devices import cores, lock_gpus, share_ranks, visible_gpus
from dreamer_study.flows.jobs.local import LocalJobs, check_status, started
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.processes import GRACE_SECONDS, TICK_SECONDS, stop
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.locks import try_lock
from dreamer_study.pipeline.storage.parallel import LOST, scheduler

if TYPE_CHECKING:
    from distributed import Client, Future

WORKERS_SECONDS = 30  # for the first worker to come
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
    path = study.store_folder.absolute() / f".jobs-{uuid4().hex}"
    try:
        with path.open("w") as file:
            try_lock(file)
            yield DaskJobs(study, client, path)
    finally:
        path.unlink(missing_ok=True)


class DaskJobs(Jobs):
    """Jobs on the workers of a Dask scheduler (see `Jobs`). A job goes on while `alive` is there,
    and locked."""

    def __init__(self, study: Study, client: Client, alive: Path) -> None:
        super().__init__()
        self._client, self._alive = client, alive
        self._jobs: dict[str, Job] = {}  # that have not ended
        self._futures: dict[str, Future] = {}  # Dask forgets a task whose future nobody holds
        self._told: dict[str, Callable[[], None]] = {}  # of the jobs that have started
        self._per_gpu = study.compute.per_gpu
        self.gpus = self._check_workers(study)
        client.subscribe_topic(alive.name, lambda event: self._note_start(event[1]))
        threading.Thread(target=self._tick, daemon=True).start()

    def _check_workers(self, study: Study) -> tuple[int, ...]:
        """Return the GPUs of each worker, for a study that may use them. Raises InputError for
        unfit workers."""
        address = study.compute.cluster
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except TimeoutError:
            raise InputError(
                f"compute.cluster: no worker has come to {address} within {WORKERS_SECONDS} s"
            ) from None
        for place in (self._alive, study.folder.absolute()):
            seen = self._client.run(os.path.exists, str(place))
            if blind := [worker for worker, sees in seen.items() if not sees]:
                raise InputError(
                    f"compute.cluster: worker {blind[0]} does not see {place}; a study's folder and"
                    " store must be on a file system that all workers share, under the same path"
                )
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        gpus = tuple(n for worker in workers if (n := int(worker["resources"].get("GPU", 0))))
        if study.training.device == "cuda" and not gpus:
            raise InputError(
                f"training.device is 'cuda', but no worker of {address} offers GPUs; start workers"
                " with `dask worker ... --nthreads 8 --resources GPU=8` on a machine with 8, or"
                " say 'cpu'"
            )
        gpus = () if study.training.device == "cpu" else gpus
        share_ranks(study, 1, gpus)
        return gpus

    def _take(self, job: Job) -> None:
        key = f"{job.kind}-{uuid4().hex}"
        per_gpu = self._per_gpu if self.gpus else 0
        self._jobs[key] = job
        self._futures[key] = self._client.submit(
            partial(do, per_gpu=per_gpu),
            job,
            str(self._alive),
            key,
            key=key,
            priority=-sum(part * 1000.0**-place for place, part in enumerate(job.priority)),
            resources={"GPU": job.devices if job.devices > 1 else 1 / per_gpu} if per_gpu else None,
        )
        self._futures[key].add_done_callback(partial(self._end, key))

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        self._stopping.set()
        self._alive.unlink(missing_ok=True)  # workers look at this file every second
        deadline = time.monotonic() + grace + 10
        while self._jobs and time.monotonic() < deadline:
            time.sleep(0.05)

    def _note_start(self, key: str) -> None:
        """Tell of a job's first start; another start, after the job's worker has died, is no
        event."""
        if (job := self._jobs.get(key)) and key not in self._told:
            self._events.put(Event(job, "started"))
            self._told[key] = teller(job, self._events.put)

    def _end(self, key: str, future: Future) -> None:
        """Tell how a job has ended."""
        job = self._jobs.pop(key)
        if tell := self._told.pop(key, None):
            tell()
        error: Any = None
        if self._stopping.is_set():
            error = Stopped(job.name)
        elif future.cancelled():
            error = ConnectionError(LOST)
        elif raised := future.exception():
            error = Failed(f"{job.name}: {' '.join(str(raised).split())}")
        else:
            error = future.result()
        self._events.put(Event(job, "failed", error) if error else Event(job, "finished"))

    def _tick(self) -> None:
        """Tell of progress every second."""
        while self._alive.exists():
            time.sleep(TICK_SECONDS)
            for tell in list(self._told.values()):
                tell()


def do(job: Job, alive: str, key: str, *, per_gpu: int) -> Failed | InputError | Stopped | None:
    """Run the command of a job while the file `alive` is there, and locked by the process that
    wants the job done.

    Up to `per_gpu` jobs share a GPU; 0 stands for a CPU. Logs the start to the topic that is named
    after the file. Returns why the job has not been done: for a raised error Dask's worker would
    print a traceback.
    """
    from distributed import get_worker

    def look(seconds: float = 0) -> None:
        time.sleep(seconds)
        try:
            with open(alive) as file:
                if try_lock(file, shared=True):
                    raise Stopped(job.name)
        except FileNotFoundError:
            raise Stopped(job.name) from None

    try:
        look()
        worker, environment = get_worker(), {"CUDA_VISIBLE_DEVICES": "", **job.environment}
        with ExitStack() as held:
            if per_gpu:
                names = visible_gpus(int(worker.state.total_resources["GPU"]))
                names = held.enter_context(lock_gpus(names, job.devices, look, per_gpu))
                environment["CUDA_VISIBLE_DEVICES"] = ",".join(names)
            logger.info(job.name)
            worker.log_event(Path(alive).name, key)
            start = partial(
                started, job.program, job.arguments, job.log, environment, ranks=job.devices
            )
            child = _starter.submit(start).result()
            try:
                status = child.wait(look)
            except BaseException:
                stop([child])
                raise
            finally:
                child.kill()
        check_status(child, status, job)
    except (Failed, InputError, Stopped) as error:
        return error
    return None
