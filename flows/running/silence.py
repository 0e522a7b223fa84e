"""Notice a training that lives and does nothing: a stopped process, a file system that hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from flows.running import progress
from flows.running.processes import read_progress

SILENT_SECONDS = 60


def silence(path: Path, started: float = 0.0) -> str:
    """Say since when nothing was written to the progress file of a living process, and which process that is.

    `started` is the time at which the process was started, where that is known: an older file is of another process.
    Returns "" where something was written within SILENT_SECONDS, or where there is neither a file nor a start.
    """
    try:
        written = path.stat().st_mtime
    except OSError:
        written = 0.0
    last = max(written, started)
    if not last or time.time() - last < SILENT_SECONDS:
        return ""
    state = read_progress(path) if written >= started else {}
    process = f"process {state['process']} on {state['machine']}" if "process" in state else "process unknown"
    return f"silent since {datetime.fromtimestamp(last):%F %T}, {process}"


def watched(label: str, path: Path, tick: Callable[[], None]) -> Callable[[], None]:
    """Return a `tick` that also reports when the process of a progress file falls silent, and when it goes on."""
    key, started, silent = f"{label}: no progress", 0.0, False

    def look() -> None:
        nonlocal started, silent
        tick()
        started = started or time.time()
        words = silence(path, started)
        if bool(words) != silent:
            silent = bool(words)
            progress.report(key, 0.0 if silent else 1.0, words or "goes on")

    return look
