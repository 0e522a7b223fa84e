"""Run independent parts of a stage: here, in processes of this machine, or on a Dask cluster.

Data stay in files and results are small. The workers of a cluster need this package and a shared
file system, with folders under equal names. Workers end when their parent is gone.
"""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import copy_context
from multiprocessing import get_context, parent_process
from threading import Lock
from types import ModuleType
from typing import Any

from pydantic import ByteSize, TypeAdapter, ValidationError

from dreamer_study.pipeline.errors import InputError

# Called with a function of a module and with the arguments of each call: yields the results in the
# order of the arguments, whoever does the work.
Workers = Callable[[Callable[..., Any], Iterable[tuple]], Iterator[Any]]
# Called by stages with the fraction done (0 to 1) and a few words.
Progress = Callable[[float, str], None]

CONNECT_SECONDS = 10
# of the schedulers of `local_scheduler`, by their addresses
_keys: dict[str, Any] = {}
_starting = Lock()
LOST = "Dask's scheduler is lost; when it runs again, the same command continues from here"


def quiet(fraction: float, words: str) -> None:
    """Report progress to nobody."""


def serial(work: Callable[..., Any], arguments: Iterable[tuple]) -> Iterator[Any]:
    """Do the work here, one after the other."""
    return (work(*values) for values in arguments)


@contextmanager
def workers(processes: int, cluster: str | None = None) -> Iterator[Workers]:
    """Yield a function `run(work, arguments)` that yields `work(*values)` for each, in order.

    With one process, the work is done here. More processes are spawned (threads of libraries do not
    survive a fork), with one thread each; `work` has to be a function of a module. `cluster` is the
    address of a Dask scheduler. Raises InputError when no scheduler answers, or processes are
    killed, ConnectionError when the scheduler is lost.
    """
    if cluster:
        with scheduler(cluster) as client:
            yield _on(client)
        return
    if processes <= 1:
        yield serial
        return
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_begin
    ) as pool:

        def run(work: Callable[..., Any], arguments: Iterable[tuple]) -> Iterator[Any]:
            with _without_script():  # which starts the processes
                return pool.map(work, *zip(*arguments, strict=True))

        try:
            yield run
        except BrokenProcessPool as error:
            raise InputError(
                f"one of {processes} processes of a data stage was killed, most likely for lack of"
                " memory: lower data.memory, which limits how many there are, and run again; what"
                " is finished is kept"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _without_script() -> Iterator[None]:
    """Let processes start that do not import the script of this program.

    A script that runs a study would begin again in each of them, unless its author guards it by
    `if __name__ == "__main__"`. The processes need nothing of it: their work is of a module.
    """
    with _starting:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


def at_once(work: Callable[[Any], Any], things: Sequence[Any], threads: int) -> list[Any]:
    """Do `work` for each thing in `threads` threads, for work that itself waits for `Workers`.

    After an error in one thread no other work starts; those that run end when the workers do.
    """
    if threads <= 1:
        return [work(thing) for thing in things]
    context = copy_context()  # progress is told to whoever listens in this one

    def in_context(thing: Any) -> Any:
        return context.copy().run(work, thing)

    pool = ThreadPoolExecutor(threads)
    try:
        return list(pool.map(in_context, things))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def local_scheduler(processes: int) -> Iterator[str]:
    """Run a Dask scheduler and its workers on this machine during the block; yields the address.

    Only clients of this process reach them: Dask runs the code that it is sent, so it asks for keys
    that were made for this block. Other users of the machine have none.
    """
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=processes,
        threads_per_worker=1,
        dashboard_address=None,
        security=True,
        preload=[__name__],  # calls `dask_setup` in each worker
    ) as here:
        address = str(here.scheduler_address)
        _keys[address] = here.security
        try:
            yield address
        finally:
            del _keys[address]


@contextmanager
def scheduler(address: str) -> Iterator[Any]:
    """Connect to a Dask scheduler; yields the client. Raises InputError where none answers."""
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_SECONDS, security=_keys.get(address))
    except (OSError, ValueError, TypeError) as error:  # TypeError: no keys for a tls:// address
        # Its client closes when it is collected, which waits forever while the next client starts.
        traceback.clear_frames(error.__traceback__)
        gc.collect()
        raise InputError(f"cluster {address}: no Dask scheduler answers there ({error})") from error
    # We report a lost scheduler, once; Dask's client would repeat itself.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    with client:
        yield client


def _on(client: Any) -> Workers:
    from distributed import KilledWorker

    def run(work: Callable[..., Any], arguments: Iterable[tuple]) -> Iterator[Any]:
        # `pure=False`: two equal calls are two pieces of work.
        futures = client.map(
            lambda values: work(*values), list(arguments), pure=False, key=work.__name__
        )
        try:
            for future in futures:
                yield future.result()
        except CancelledError:
            raise ConnectionError(LOST) from None
        except KilledWorker as error:
            raise InputError(
                f"workers of the cluster died one after another ({error}), most likely of too"
                " little memory: raise it"
            ) from None
        finally:  # after an error nobody needs the other parts
            client.cancel(futures)

    return run


def _begin() -> None:
    """Prepare a worker process: one thread for computing, and an end with its parent's end."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["OMP_NUM_THREADS"] = "1"
    _end_with_parent()


def dask_setup(worker: Any) -> None:
    """Prepare a worker process of `local_scheduler`: Dask calls this function by its name."""
    if parent_process() is not None:  # else the preloading is that of another process
        _end_with_parent()


def _end_with_parent() -> None:
    """Let the kernel end this process when the pipe from its parent closes.

    A thread that waits for the parent would need Python's lock, which code in C may hold for hours.
    So the closing pipe sends SIGIO, whose default is to end the process. PR_SET_PDEATHSIG would act
    on the end of the thread that has started this process, and threads end before pools do.
    """
    parent = parent_process()
    assert parent is not None
    pipe = parent.sentinel
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    parent_is_gone, _, _ = select.select([pipe], [], [], 0)
    if parent_is_gone:  # before the pipe would tell
        os._exit(1)


def memory_bytes(memory: str) -> int:
    """Convert `4GB` or `512 MiB` to bytes. Raises InputError for anything else."""
    try:
        return TypeAdapter(ByteSize).validate_python(memory.strip())
    except ValidationError:
        raise InputError(f"memory: {memory!r} is no size: write it like 4GB or 512MiB") from None
