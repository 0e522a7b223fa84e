"""Child processes that never outlive us and can always be stopped: training and evaluation run in them.

`stop_all` ends every living child (`model.training.launch.stop`). It is called from the main thread, where signals and
Prefect's cancellation arrive, while worker threads wait for the children.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from model.training.launch import GRACE_SECONDS, ProcessGroup, stop
from pipeline.errors import InputError

BAD_INPUT = 2
_living: set[ProcessGroup] = set()
_lock = threading.Lock()
_stopping = threading.Event()


class Failed(RuntimeError):
    """A child ended with an error of its own; the text says which, and where its log is."""


class Stopped(RuntimeError):
    """A child ended because we were told to stop."""


def run_module(
    module: str,
    arguments: Sequence[str],
    *,
    log: Path,
    tick: Callable[[], None] = lambda: None,
    environment: Mapping[str, str] | None = None,
    ranks: int = 1,
) -> None:
    """Run `python -m module arguments` to its end, calling `tick` about twice a second; its output goes to `log`.

    With `ranks`, so many processes of it that know of each other, as torchrun would start them; where one of them
    fails, the others are given the time to notice it, and then killed. Raises InputError with the last line said when
    the status is 2, Failed for any other failure.
    """
    refuse_when_stopping()
    group = ProcessGroup(module, *arguments, log=log, environment=environment, ranks=ranks)
    with _lock:
        _living.add(group)
    try:
        while (status := group.poll()) is None:
            tick()
            time.sleep(0.3)
        tick()
    finally:
        group.kill()
        with _lock:
            _living.discard(group)
    if _stopping.is_set() and status:
        raise Stopped(module)
    if status == BAD_INPUT:
        raise InputError(group.last_line())
    if status:
        raise Failed(f"{module} {' '.join(arguments)} ended with status {status}; see {log}: {group.last_line()}")


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def refuse_when_stopping() -> None:
    """Raise Stopped once `stop_all` has been called: nothing new is begun."""
    if _stopping.is_set():
        raise Stopped("the study is being stopped")


def stop_all(grace: float = GRACE_SECONDS) -> None:
    """End every living child and its whole tree, and let no new one start until `stopping` is over."""
    _stopping.set()
    with _lock:
        groups = list(_living)
    stop(groups, grace)


@contextmanager
def stopped_on_exit() -> Iterator[None]:
    """Whatever ends the block (an error, Ctrl-C, SIGTERM, a Prefect cancellation), no child is left behind."""
    _stopping.clear()

    def terminate(*_: Any) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    main = threading.current_thread() is threading.main_thread()
    # Prefect's engine installs its own handler where it can cancel a run: leave that one alone.
    ours = main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except BaseException:
        stop_all()
        raise
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def free_devices(names: Sequence[str], wanted: int = 1) -> Iterator[list[str]]:
    """Wait for and hold `wanted` of this machine's accelerators, all at once: their names.

    The locks are the operating system's, on a file for each device: they need no server, and a dead holder frees
    them. What is not enough is let go, so that two who wait for several never wait for each other.
    """
    folder = Path(tempfile.gettempdir()) / f"dreamer-devices-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    while True:
        with ExitStack() as held:
            found: list[str] = []
            for name in names:
                if len(found) < wanted and _hold(folder / name, held):
                    found.append(name)
            if len(found) == wanted:
                yield found
                return
        if _stopping.wait(0.5):
            raise Stopped("waiting for a device")


def _hold(path: Path, held: ExitStack) -> bool:
    """Lock a file until `held` ends, unless another process or thread has it."""
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return False
    held.enter_context(file)
    return True


def read_progress(path: Path) -> dict[str, Any]:
    """What a child last wrote of its progress; empty when it has not, or is just writing."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
