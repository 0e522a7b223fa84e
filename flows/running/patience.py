"""Wait for a results file that another program holds: rows wait, training goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flows.running import progress
from flows.running.processes import wait_unless_stopping
from sql.results import Busy

LABEL = "results file"
POLL_SECONDS = 1.0

Result = TypeVar("Result")


def patiently(action: Callable[[], Result]) -> Result:
    """Call `action`, again while another program holds the results file, and report which. Raises Stopped."""
    held = False
    while True:
        try:
            result = action()
            break
        except Busy as busy:
            held = True
            progress.report(LABEL, 0.0, str(busy))
            wait_unless_stopping(POLL_SECONDS)
    if held:
        progress.report(LABEL, 1.0, "free again")
    return result
