"""Report the progress of each training and evaluation from the events of their jobs."""

from __future__ import annotations

import math
import time
from collections import Counter

from dreamer_study.flows.jobs import Event, Job
from dreamer_study.flows.plan.study_plan import Plan, Run
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.reports import FAILURE, read_progress, silence
from dreamer_study.reports.text.numbers import counted

TIME_LEFT = " s left"


class Followed:
    """Report the progress of jobs, and name processes that have written nothing for too long."""

    def __init__(self, plan: Plan) -> None:
        self._evaluated = Counter(
            {f"evaluate {run.name}": _evaluated(plan, run) for run in plan.runs}
        )
        self._started: dict[Job, float] = {}
        self._failed: dict[str, str] = {}  # the first failure of each run's evaluations

    def tell(self, event: Event) -> None:
        """Report the progress after an event of a job."""
        job = event.job
        if event.kind == "started":
            self._started[job] = time.time()
        silent = ""
        if event.ends:
            self._started.pop(job, None)
        else:
            silent = self._silence(job)
        if job.kind == "training":
            self._training(event, silent)
        else:
            self._evaluation(event, silent)

    def _silence(self, job: Job) -> str:
        """Return a note where the process of a job has written nothing for too long, else ""."""
        # a job whose start was not seen is not silent
        started = self._started.get(job, math.inf)
        silent = silence(job.folder / "progress.json", job.kind, started)
        return f", {silent}" if silent else ""

    def _training(self, event: Event, silent: str) -> None:
        job = event.job
        if event.kind == "failed":
            reports.report(job.name, 0.0, f"{FAILURE}{event.error}")
        elif event.ends:
            reports.report(job.name, 1.0, "done")
        else:
            fraction, progress = training_words(job)
            reports.report(job.name, fraction, f"{progress}{silent}")

    def _evaluation(self, event: Event, silent: str) -> None:
        job = event.job
        key = job.name.partition(" at ")[0]  # of all evaluations of a run
        if event.kind == "finished":
            self._evaluated[key] += 1
        if event.kind == "failed":
            self._failed.setdefault(key, f"{FAILURE}{event.error}")
        done = self._evaluated[key]
        progress = f"{done} of {counted(job.goal, 'checkpoint')}"
        state = read_progress(job.folder / "progress.json")
        if not event.ends and "requests_per_second" in state:
            progress += f", {state['requests_per_second']:,.0f} requests/s"
        failure = self._failed.get(key)
        reports.report(key, done / job.goal, failure or f"{progress}{silent}")


def training_words(job: Job) -> tuple[float, str]:
    """Return the progress of a training as a fraction of its goal, and in words.

    The words are loss, rate, tokens, and the seconds that are left.
    """
    state = read_progress(job.folder / "progress.json")
    tokens = state.get("tokens")
    if not tokens:
        return 0.0, "starting"
    loss = state.get("loss")
    rate = state.get("tokens_per_second")
    parts = []
    if loss is not None:
        parts.append(f"loss {loss:.3f}")
    if rate:
        parts.append(f"{rate:,.0f} tokens/s")
    parts.append(counted(tokens, "token"))
    if rate:
        parts.append(f"{max(job.goal - tokens, 0) / rate:,.0f}{TIME_LEFT}")
    if state.get("note"):
        parts.append(state["note"])
    return min(tokens / job.goal, reports.MOST_UNDONE), ", ".join(parts)


def without_time_left(words: str) -> str:
    """Leave out of the words of a training the time that is left."""
    return ", ".join(part for part in words.split(", ") if not part.endswith(TIME_LEFT))


def _evaluated(plan: Plan, run: Run) -> int:
    """Count the checkpoints of a run that have been evaluated on everything."""
    if run.status != "chosen":
        return 0
    return sum(
        all(evaluation.done for evaluation in plan.evaluations_of(run, checkpoint))
        for checkpoint in run.written
    )
