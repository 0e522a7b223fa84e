"""Wait for events, not for seconds: a busy machine is slow, and a quiet one need not wait."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 900
"""More than anything in these tests takes on a machine with much other work; only what hangs waits
so long."""


def until(
    condition: Callable[[], object],
    process: subprocess.Popen | None = None,
    log: Path | None = None,
    pause: float = 0.05,
) -> None:
    """Wait until something is so, while the process runs; an error shows the log."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        said = log.read_text() if log else "not so yet"
        assert process is None or process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(pause)
