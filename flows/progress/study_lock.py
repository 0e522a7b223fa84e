"""Run a study in one process at a time: a second start says who runs the study, and since when."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.locks import holder, open_lock, sign, try_lock

LOCK = ".running.lock"
LOOKS = 5  # tries before a lock counts as held


@contextmanager
def only_run(study: Study) -> Iterator[None]:
    """Hold the lock of a study's folder.

    The lock is the operating system's, so a killed holder frees the lock at once. Raises InputError
    where another process runs the study.
    """
    path = study.folder.resolve() / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_lock(path) as file:
        for _ in range(LOOKS):
            locked = try_lock(file)
            if locked:
                break
            time.sleep(0.1)  # `status` may be looking at the lock
        if not locked:
            raise InputError(
                f"{study.name} is running already ({holder(path)}); `dreamer status"
                f" {study.arguments}` shows how far, with --watch until its end"
            )
        sign(file)
        yield


def runs_elsewhere(study: Study) -> str:
    """Describe the process that runs the study now; "" when none does."""
    path = study.folder / LOCK
    if not path.exists():
        return ""
    with path.open() as file:
        # shared, as NFS gives an exclusive lock only to who may write
        if try_lock(file, shared=True):
            return ""
        return holder(path)


def running_since(study: Study) -> float | None:
    """Return when the process that now runs the study began, by the file system's clock."""
    if not runs_elsewhere(study):
        return None
    return (study.folder / LOCK).stat().st_mtime
