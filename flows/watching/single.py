"""Run a study in one process at a time: the second start says at once who runs the study, and since when.

Studies that `make up` starts run one after another, also beside one that a killed `make up` has left behind.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO

from flows.jobs.private import open_private
from flows.study.configuration import Study
from flows.watching import progress
from pipeline.errors import InputError
from pipeline.storage.locks import try_lock

LOCK = ".running.lock"
TURN = "DREAMER_TURN"  # an environment variable: the file that the study of `make up` whose turn it is locks
WAITS_FOR_TURN = "turn"  # what a study that waits for its turn reports
POLL_SECONDS = 1.0
LOOKS = 5  # tries before a lock counts as held
_held: set[Path] = set()


@contextmanager
def only_run(study: Study, *, follow: bool = False) -> Iterator[None]:
    """Hold the lock of a study's folder; within one process the block may be entered again.

    The lock is the operating system's, so a killed holder frees the lock at once. Raises InputError where another
    process runs the study; with `follow`, waits for the end of that process.
    """
    path = (study.folder / LOCK).resolve()
    if path in _held:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        patience = LOOKS
        while not try_lock(file):
            if not follow and patience:  # `status` may be looking at the lock
                patience -= 1
                time.sleep(0.1)
                continue
            if not follow:
                raise InputError(
                    f"{study.name} is running already ({_holder(path)}); `dreamer status {study.arguments}` shows how "
                    "far, --follow waits for its end"
                )
            progress.report("follow", 0.0, _holder(path))
            time.sleep(POLL_SECONDS)
        _sign(file)
        _held.add(path)
        try:
            yield
        finally:
            _held.discard(path)


@contextmanager
def in_turn() -> Iterator[None]:
    """Wait until no other study of `make up` runs, and let others wait during the block; no wait without `make up`.

    Prefect's runner limits what the runner itself has started: a killed `make up`'s study goes on, unknown to the next.
    """
    if not (place := os.environ.get(TURN)):
        yield
        return
    with open_private(Path(place)) as file:
        waited = False
        while not try_lock(file):
            waited = True
            progress.report(WAITS_FOR_TURN, 0.0, f"waits for {_holder(Path(place))}")
            time.sleep(POLL_SECONDS)
        if waited:
            progress.report(WAITS_FOR_TURN, 1.0)
        _sign(file)
        yield


def runs_elsewhere(study: Study) -> str:
    """Describe the process that runs the study now; "" when none does."""
    path = study.folder / LOCK
    if not path.exists():
        return ""
    with path.open() as file:
        return "" if try_lock(file, shared=True) else _holder(path)  # NFS: an exclusive one wants to write


def running_since(study: Study) -> float | None:
    """Return the time, by the clock of the file system, at which the process that now runs the study began."""
    return (study.folder / LOCK).stat().st_mtime if runs_elsewhere(study) else None


def _sign(file: TextIO) -> None:
    """Write into a locked file which process holds the lock."""
    file.truncate(0)
    values = {"process": os.getpid(), "machine": socket.gethostname(), "since": f"{datetime.now():%F %T}"}
    file.write(json.dumps(values))
    file.flush()


def _holder(path: Path) -> str:
    """Say which process holds the lock, on which machine, and since when."""
    try:
        holder = json.loads(path.read_text())
        return f"process {holder['process']} on {holder['machine']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # written this moment
        return "process unknown"
