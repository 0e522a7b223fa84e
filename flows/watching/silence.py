"""Notice a training or an evaluation that lives and does nothing: a stopped process, a file system that hangs."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from flows.watching.looks import written_at
from flows.watching.progress import read_progress

SILENT_SECONDS = {"training": 60, "evaluation": 600}  # these tell of every step, and of every batch of answers


def silence(path: Path, kind: str, started: float = 0.0) -> str:
    """Say since when nothing was written to the progress file of a living process, and which process that is.

    `started` is the time at which the process was started, where that is known: an older file is of another process.
    Returns "" where something was written a short time ago, or where there is neither a file nor a start.
    """
    written = written_at(path) or 0.0
    last = max(written, started)
    if not last or time.time() - last < SILENT_SECONDS[kind]:
        return ""
    state = read_progress(path) if written >= started else {}
    process = f"process {state['process']} on {state['machine']}" if "process" in state else "process unknown"
    return f"stalled since {datetime.fromtimestamp(last):%F %T}, {process}"
