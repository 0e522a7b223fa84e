"""Throttle work that only shows a study: a hundredth of the time in the first minutes, then less."""

from __future__ import annotations

import time

FIRST_SHARE = 0.01
FIRST_SECONDS = 600.0
LAST_SHARE = 0.002  # from fifty minutes on, when nobody waits for the next drawing


class Throttle:
    """Compute how long to rest after each piece of work that recurs, for `share` since this object was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def rest(self, spent: float) -> float:
        """Return the seconds to rest after `spent` seconds of work, so that the work takes no more than its share."""
        return spent * (1 / share(time.monotonic() - self._began) - 1)


def share(elapsed: float) -> float:
    """Return the share of the time that one kind of work may take, `elapsed` seconds after its start."""
    return max(LAST_SHARE, FIRST_SHARE / max(1.0, elapsed / FIRST_SECONDS))
