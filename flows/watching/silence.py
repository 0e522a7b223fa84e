"""Notice a training or an evaluation that lives and does nothing: a stopped process, a file system that hangs."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from flows.watching import progress
from flows.watching.progress import read_progress

SILENT_SECONDS = 60  # of a training, which tells of every step
EVALUATION_SILENT_SECONDS = 600  # of an evaluation, which tells of every batch of answers
KEY_END = ": no progress"  # of the key of a report, behind the work that is silent


def silence(path: Path, started: float = 0.0, seconds: float = SILENT_SECONDS) -> str:
    """Say since when nothing was written to the progress file of a living process, and which process that is.

    `started` is the time at which the process was started, where that is known: an older file is of another process.
    Returns "" where something was written within so many seconds, or where there is neither a file nor a start.
    """
    try:
        written = path.stat().st_mtime
    except OSError:
        written = 0.0
    last = max(written, started)
    if not last or time.time() - last < seconds:
        return ""
    state = read_progress(path) if written >= started else {}
    process = f"process {state['process']} on {state['machine']}" if "process" in state else "process unknown"
    return f"silent since {datetime.fromtimestamp(last):%F %T}, {process}"


class Watch:
    """Report when the process that writes a progress file falls silent, and when the process goes on."""

    def __init__(self, label: str, path: Path, seconds: float) -> None:
        self._key, self._path, self._seconds = f"{label}{KEY_END}", path, seconds
        self._started, self._silent = time.time(), False

    def look(self) -> None:
        """Look at the file."""
        words = silence(self._path, self._started, self._seconds)
        if bool(words) != self._silent:
            self._silent = bool(words)
            progress.report(self._key, 0.0 if words else 1.0, words or "goes on")
