"""Do a job of a study on a worker of a Dask cluster: nothing here, nor what is imported, knows Prefect."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from distributed import get_worker

from flows.jobs import Failed, Job, Stopped
from flows.jobs.devices import lock_gpus, visible_gpus
from flows.jobs.processes import check_status, started
from model.training.ranks.bound import stop
from pipeline.errors import InputError
from pipeline.storage.locks import try_lock

logger = logging.getLogger("distributed.dreamer")  # which a worker prints
_starter = ThreadPoolExecutor(1)  # lives as long as the worker: processes get SIGTERM when their thread ends


def do(job: Job, alive: str, key: str, *, per_gpu: int) -> Failed | InputError | Stopped | None:
    """Run the command of a job while the file `alive` is there, and locked by the process that wants the job done.

    Up to `per_gpu` jobs share a GPU; 0 is a CPU. Tells the topic of the file's name of the start. Returns why the
    job has not been done; of an error that is raised Dask's worker would print a traceback.
    """

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
            start = partial(started, job.program, job.arguments, job.log, environment, ranks=job.devices)
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
