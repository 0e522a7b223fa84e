"""Turn what happens to jobs into progress: how far each training is, and how many checkpoints are
evaluated."""

from __future__ import annotations

import math
import time
from collections import Counter

from dreamer_study.flows.jobs import Event, Job
from dreamer_study.flows.plan.study_plan import Plan, Run
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.reports import FAILURE, read_progress, silence


class Followed:
    """Report the progress of jobs, and name processes that have written nothing for too long."""

    def __init__(self, plan: Plan) -> None:
        self._evaluated = Counter(
            {f"evaluate {run.name}": _evaluated(plan, run) for run in plan.runs}
        )
        self._started: dict[Job, float] = {}
        self._failed: dict[str, str] = {}  # the first failure of each run's evaluations

    def tell(self, event: Event) -> None:
        """Report the progress that an event of a job tells."""
        job = event.job
        if event.kind == "started":
            self._started[job] = time.time()
        started = (
            self._started.pop(job, math.inf) if event.ends else self._started.get(job, math.inf)
        )
        silent = "" if event.ends else silence(job.folder / "progress.json", job.kind, started)
        (self._training if job.kind == "training" else self._evaluation)(
            event, f", {silent}" if silent else ""
        )

    def _training(self, event: Event, silent: str) -> None:
        job = event.job
        if event.kind == "failed":
            reports.report(job.name, 0.0, f"{FAILURE}{event.error}")
            return
        fraction, words = training_words(job)
        reports.report(job.name, *((1.0, "done") if event.ends else (fraction, f"{words}{silent}")))

    def _evaluation(self, event: Event, silent: str) -> None:
        key = event.job.name.partition(" at ")[0]
        self._evaluated[key] += event.kind == "finished"
        done, state = self._evaluated[key], read_progress(event.job.folder / "progress.json")
        told = not event.ends and "requests_per_second" in state
        rate = f", {state['requests_per_second']:,.0f} requests/s" if told else ""
        if event.kind == "failed":
            self._failed.setdefault(key, f"{FAILURE}{event.error}")
        words = self._failed.get(key, f"{done} of {event.job.goal} checkpoints{rate}{silent}")
        reports.report(key, done / event.job.goal, words)


def training_words(job: Job) -> tuple[float, str]:
    """Return how far a training is, as a fraction of its goal and in words: loss, rate, tokens,
    seconds left."""
    state = read_progress(job.folder / "progress.json")
    if not (tokens := state.get("tokens")):
        return 0.0, "starting"
    loss, rate = state.get("loss"), state.get("tokens_per_second")
    words = (
        "" if loss is None else f"loss {loss:.3f}",
        f"{rate:,.0f} tokens/s" if rate else "",
        f"{tokens:,} tokens",
        f"{max(job.goal - tokens, 0) / rate:,.0f} s left" if rate else "",
        state.get("note"),
    )
    return min(tokens / job.goal, reports.MOST_UNDONE), ", ".join(filter(None, words))


def _evaluated(plan: Plan, run: Run) -> int:
    """Count the checkpoints of a run that have been evaluated on everything."""
    if run.status != "chosen":
        return 0
    return sum(
        all(one.done for one in plan.evaluations_of(run, checkpoint)) for checkpoint in run.written
    )
