"""End a process that lives and does nothing: it has written neither its log nor its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from dreamer_study.flows.jobs import Failed, Job


def silence_watch(job: Job, most: float | None) -> Callable[[], None]:
    """Watch a try of a job that begins now; the returned function is called every second.

    It raises Failed where nothing was written for `most` seconds; None stands for no limit.
    """
    began = time.time()

    def check() -> None:
        if most is None:
            return
        newest = max(began, _written(job.log), _written(job.folder / "progress.json"))
        silent = time.time() - newest
        if silent > most:
            raise Failed(
                f"{job.name}: its process wrote nothing for {silent:.0f} s, which is more than"
                f" compute.silence ({most:g} s), and was ended; see {job.log}",
                f"silent for {silent:.0f} s",
                may_pass=True,
            )

    return check


def _written(path: Path) -> float:
    """Return when a file was written; 0 where it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
