"""Hold back evaluations of a run until one succeeds, and after two have failed alike.

A process starts for each evaluation, in seconds; a run whose evaluations fail would take them all.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from dreamer_study.flows.jobs import Event, Failed

UNPROVEN = 2  # evaluations of a run at once, and equal failures of them, before one has ended well
PROVEN = 32  # at once, after that


class Evaluations:
    """What has happened to the evaluations of each run since the study was started."""

    def __init__(self) -> None:
        self._at_work: Counter[str] = Counter()
        self._proven: set[str] = set()  # runs of which the newest evaluation to end has ended well
        self._failures: dict[str, Counter[str]] = defaultdict(Counter)  # by run and reason

    def may_start(self, name: str) -> bool:
        """Tell whether a job may be submitted now, and count it as submitted if so."""
        run = _run_of(name)
        if run is None:
            return True
        alike = max(self._failures[run].values(), default=0)
        if alike >= UNPROVEN:
            return False
        most = PROVEN if run in self._proven else UNPROVEN - alike
        if self._at_work[run] >= most:
            return False
        self._at_work[run] += 1
        return True

    def note(self, event: Event) -> None:
        """Note how a job has ended."""
        run = _run_of(event.job.name)
        if run is None or not event.ends:
            return
        self._at_work[run] -= 1
        if event.kind == "finished":
            self._proven.add(run)
            return
        self._proven.discard(run)
        assert isinstance(event.error, Failed), "any other error has ended the study"
        # numbers differ from checkpoint to checkpoint, such as by how much a logit changes
        self._failures[run][re.sub(r"\d[\d.e+-]*", "", event.error.reason)] += 1


def _run_of(name: str) -> str | None:
    """Name the run of an evaluation by the name of its job; None for another job."""
    kind, _, rest = name.partition(" ")
    return rest.rpartition(" at ")[0] if kind == "evaluate" else None
