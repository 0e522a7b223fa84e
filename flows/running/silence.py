"""Notice a training or an evaluation that lives and does nothing: a stopped process, a file system that hangs."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from flows.running import progress
from flows.running.processes import read_progress

SILENT_SECONDS = 60  # of a training, which tells of every step
SHARED_SILENT_SECONDS = 600  # of an evaluation, which tells of every batch of answers
KEY_END = ": no progress"  # of the key of a report, behind the work that is silent


def silence(path: Path, started: float = 0.0, *, shared: bool = False) -> str:
    """Say since when nothing was written to the progress file of a living process, and which process that is.

    `started` is the time at which the process was started, where that is known: an older file is of another process.
    A file that is `shared` by processes names none. Returns "" where something was written within SILENT_SECONDS
    (SHARED_SILENT_SECONDS), or where there is neither a file nor a start.
    """
    try:
        written = path.stat().st_mtime
    except OSError:
        written = 0.0
    last = max(written, started)
    if not last or time.time() - last < (SHARED_SILENT_SECONDS if shared else SILENT_SECONDS):
        return ""
    since = f"silent since {datetime.fromtimestamp(last):%F %T}"
    if shared:
        return since
    state = read_progress(path) if written >= started else {}
    process = f"process {state['process']} on {state['machine']}" if "process" in state else "process unknown"
    return f"{since}, {process}"


class Watch:
    """Report when the process that writes a progress file falls silent, and when the process goes on.

    `shared`: several processes write the file, as the evaluations of a run do. None of them is named, since the last
    one that wrote may long be at other work.
    """

    def __init__(self, label: str, path: Path, *, shared: bool = False) -> None:
        self._key, self._path, self._shared = f"{label}{KEY_END}", path, shared
        self._started, self._silent = 0.0, False

    def look(self, *, at_work: bool = True) -> None:
        """Look at the file. Only what is at work can be silent; its time begins when it is seen at work."""
        self._started = (self._started or time.time()) if at_work else 0.0
        words = silence(self._path, self._started, shared=self._shared) if at_work else ""
        if bool(words) != self._silent:
            self._silent = bool(words)
            progress.report(self._key, 0.0 if words else 1.0, words or ("goes on" if at_work else "has ended"))
