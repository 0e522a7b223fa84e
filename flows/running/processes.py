"""Run child processes that can always be stopped and never outlive this process: training and evaluation.

Every child has a session of its own and gets SIGTERM from the kernel when its parent dies. `stop_all` ends all living
children: SIGTERM, a grace period to save state in, SIGKILL for the rest of the tree. Signals and Prefect's
cancellation reach the main thread, so the main thread calls `stop_all` while worker threads wait for the children.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from flows.running.private import compiled_libraries
from model.training.ranks.launch import GRACE_SECONDS, TICK_SECONDS, ProcessGroup, stop
from pipeline.errors import InputError
from pipeline.storage.store import Missing

BAD_INPUT = 2
_living: set[ProcessGroup] = set()
_waited_for: WeakSet[threading.Condition] = WeakSet()
_lock = threading.Lock()
_stopping = threading.Event()
_blocks = 0  # of `stopped_on_exit`, that have not ended

T = TypeVar("T")
R = TypeVar("R")


class Failed(RuntimeError):
    """A child process failed; the text names the child and its log, `reason` is what the child said last."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason or text


class Stopped(RuntimeError):
    """A child process ended, or was not started, because the study is being stopped."""


def run_module(
    module: str,
    arguments: Sequence[str],
    *,
    log: Path,
    tick: Callable[[], None] = lambda: None,
    environment: Mapping[str, str] | None = None,
    ranks: int = 1,
) -> None:
    """Run `python -m module arguments` to its end, append its output to `log`, call `tick` every second.

    Starts `ranks` processes that form one process group, as torchrun does. When one rank fails, the others get a grace
    period to notice, and are then killed. Raises InputError with the log's last line when the exit status is 2, Failed
    for any other failure, Stopped after `stop_all`.
    """
    with child_process(module, arguments, log=log, environment=environment, ranks=ranks) as child:
        while (status := child.poll()) is None:
            tick()
            child.wait(TICK_SECONDS)
        tick()
    check_status(child, status, " ".join([module, *arguments]))


@contextmanager
def child_process(
    module: str, arguments: Sequence[str] = (), *, environment: Mapping[str, str] | None = None, **options: Any
) -> Iterator[ProcessGroup]:
    """Start `python -m module arguments` as a ProcessGroup with `options`, which does not outlive the block."""
    wait_unless_stopping(0)
    child = ProcessGroup(module, *arguments, environment={**compiled_libraries(), **(environment or {})}, **options)
    with _lock:
        _living.add(child)
    try:
        wait_unless_stopping(0)  # a stop that came between the start and this line has not seen the child
        yield child
    finally:
        child.kill()
        with _lock:
            _living.discard(child)


def check_status(child: ProcessGroup, status: int, command: str) -> None:
    """Raise what an exit status other than 0 means: InputError, Failed, or Stopped after `stop_all`."""
    if _stopping.is_set() and status:
        raise Stopped(command)
    if status == BAD_INPUT:
        raise InputError(child.last_line())
    if status:
        line = child.last_line()
        reason = line if status > 0 else f"killed by signal {-status}, its last line was: {line}"
        raise Failed(f"{command} ended with status {status}; see {child.log}: {line}", reason)


def wait_unless_stopping(seconds: float) -> None:
    """Wait so many seconds. Raises Stopped as soon as `stop_all` has been called: nothing new starts from then on."""
    if _stopping.wait(seconds):
        raise Stopped("the study is being stopped")


def wakes_to_stop(condition: threading.Condition) -> None:
    """Register a condition whose waiting threads `stop_all` wakes; each thread then calls `wait_unless_stopping`."""
    with _lock:
        _waited_for.add(condition)


def stop_all(grace: float = GRACE_SECONDS) -> None:
    """End every living child with its whole tree, and let no new child start until `stopped_on_exit` ends."""
    _stopping.set()
    with _lock:
        groups, conditions = list(_living), list(_waited_for)
    for condition in conditions:
        with condition:
            condition.notify_all()
    stop(groups, grace)


@contextmanager
def stopped_on_exit() -> Iterator[None]:
    """Stop all children when the block ends by an error, Ctrl-C, SIGTERM or a cancellation by Prefect.

    Blocks may lie within one another, and in several threads: what one of them stops stays stopped until the outermost
    block ends.
    """
    global _blocks
    with _lock:
        if not _blocks:
            _stopping.clear()
        _blocks += 1

    def terminate(*_: Any) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    main = threading.current_thread() is threading.main_thread()
    # Prefect's engine installs its own handler where it can cancel a run: leave that one alone.
    ours = main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except Missing:  # only asked what is there: nothing was started
        raise
    except BaseException:
        stop_all()
        raise
    finally:
        with _lock:
            _blocks -= 1
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def side_by_side(jobs: Sequence[T], work: Callable[[T], R], *, tick: Callable[[], object] = lambda: None) -> list[R]:
    """Call `work` on all jobs, each in a thread of its own; the first error ends all.

    The calling thread only waits, so that signals and cancellations reach it at once, and calls `tick` every second.
    """
    if not jobs:
        return []
    pool = ThreadPoolExecutor(len(jobs))
    futures = [pool.submit(work, job) for job in jobs]
    try:
        while wait(futures, TICK_SECONDS, FIRST_EXCEPTION).not_done and not _failed(futures):
            tick()
        for future in futures:
            if future.done():
                future.result()
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _failed(futures: Sequence[Future[R]]) -> bool:
    return any(future.done() and future.exception() for future in futures)


def read_progress(path: Path) -> dict[str, Any]:
    """Read the progress file of a child; an empty dictionary where none is there yet, or none that is whole."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
