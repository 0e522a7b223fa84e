"""The seven tasks of the flow `full-study`: each does the work that its name says.

Prefect has the state of each step, its log, its tries, and the steps that it was made of. A task
that is called directly starts and ends without a request to Prefect's server, so a server that is
lost or hangs ends no work (`tests/flows/prefect/test_tasks.py`). What needs the server are
artifacts, the begin and the end of the flow run, and the look for a pause or a cancellation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

from prefect import Task, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.exceptions import MissingContextError
from prefect.states import Cancelled, Completed

from dreamer_study.flows.jobs import Job, Jobs, Stopped, Work
from dreamer_study.flows.jobs.retries import may_pass, retries_of, said_again, with_retries
from dreamer_study.flows.prefect.artifacts import Artifacts
from dreamer_study.flows.prefect.run_states import RunStates
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.running.job_progress import training_words
from dreamer_study.flows.running.steps import Kind, Result, Steps
from dreamer_study.flows.study.configuration import Study
from dreamer_study.reports.data import StudyData

JOBS = ("training", "evaluation")
TELL_SECONDS = 5.0  # between two lines, and two updates of the artifact, of a training's progress


class Made:
    """What a step has made, by name.

    Prefect knows by this very object which task's result is handed to another task.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Outcome:
    """The work of a step, and what it has returned or raised.

    Kept here, since a state of Prefect's would wrap the value, and a task must return `Made`.
    """

    def __init__(self, work: Callable[[], Any], makes: str) -> None:
        self._work = work
        self._makes = makes
        self.value: Any = None
        self.error: BaseException | None = None
        self.made: Made | None = None

    def __call__(self) -> Made:
        """Do the work, once for each try. Raises what the work raises."""
        self.error = None
        try:
            self.value = self._work()
        except BaseException as error:
            self.error = error
            raise
        self.made = Made(self._makes)
        return self.made


def another_try_may_help(step: Task[..., Any], run: TaskRun, state: State) -> bool:
    """Tell Prefect's engine what `jobs.retries` says of the error of a task.

    The engine asks only where a try is left, and tries again at once.
    """
    error = state.data
    if not may_pass(error):
        return False
    write_line(said_again(error, run.run_count, step.retries))
    return True


# The store and the plan decide what is done, by digests: Prefect keeps no second record of that.
OPTIONS: dict[str, Any] = {
    "task_run_name": "{name}",
    "cache_policy": NO_CACHE,
    "persist_result": False,
    "retry_condition_fn": another_try_may_help,
}


@task(name="download", **OPTIONS)
def download(name: str, work: Outcome, made_of: tuple[Made, ...] = (), done: bool = False) -> Any:
    """Fetch a data set from the hub."""
    return shown(work, done)


@task(name="data", **OPTIONS)
def data(name: str, work: Outcome, made_of: tuple[Made, ...] = (), done: bool = False) -> Any:
    """Make one output of curation: read, strip, clean, sign, deduplicate, decontaminate, pack."""
    return shown(work, done)


@task(name="match", **OPTIONS)
def match(name: str, work: Outcome, made_of: tuple[Made, ...] = (), done: bool = False) -> Any:
    """Match the models in FLOPs and parameters."""
    return shown(work, done)


@task(name="training", **OPTIONS)
def training(name: str, work: Outcome, made_of: tuple[Made, ...] = (), done: bool = False) -> Any:
    """Train one model with one seed to its goal; another try resumes from its newest state."""
    return shown(work, done)


@task(name="evaluation", **OPTIONS)
def evaluation(name: str, work: Outcome, made_of: tuple[Made, ...] = (), done: bool = False) -> Any:
    """Evaluate one checkpoint on the benchmarks on which it has not been evaluated yet."""
    return shown(work, done)


@task(name="statistics", **OPTIONS)
def statistics(name: str, work: Outcome, made_of: tuple[Made, ...] = (), done: bool = False) -> Any:
    """Enter all rows into the results, and compute ratios with their intervals."""
    return shown(work, done)


@task(name="report", **OPTIONS)
def report(name: str, work: Outcome, made_of: tuple[Made, ...] = (), done: bool = False) -> Any:
    """Write the report."""
    return shown(work, done)


TASKS = {
    step.name: step for step in (download, data, match, training, evaluation, statistics, report)
}


def shown(work: Outcome, done: bool) -> Made | State[Any]:
    """Do the work of a task; what the store held already is shown as `Cached`.

    A step that was stopped is shown as cancelled: Prefect would call any error a failure.
    """
    try:
        made = work()
    except Stopped as error:
        return Cancelled(message=f"stopped: {error}")
    if done:
        return Completed(name="Cached", message="the store holds it", data=made)
    return made


class PrefectSteps(Steps):
    """Do the steps of a study as tasks of the flow run that is under way, in any thread."""

    def __init__(self, study: Study) -> None:
        super().__init__(study.compute)
        self._context = copy_context()  # that of the flow run, for threads
        self._made: dict[str, Made] = {}
        self._states = RunStates(study, self._context)
        self._artifacts = Artifacts(study, self._context, self._states.note_loss)

    def call(
        self,
        kind: Kind,
        name: str,
        work: Callable[[], Result],
        *,
        made_of: Sequence[str] = (),
        makes: str = "",
        done: bool = False,
    ) -> Result:
        """Do one step inside its task (see `Steps.call`).

        Waits while the flow run is paused, but for jobs, which pause by themselves. Raises Stopped
        where the flow run was cancelled in Prefect, and Prefect's Pause where it was suspended: the
        run ends then, and Prefect starts it again.
        """
        if kind not in JOBS:
            self._states.heed()
        retries = retries_of(kind, self.compute)
        step = TASKS[kind].with_options(
            retries=retries.count, retry_delay_seconds=list(retries.delays) or None
        )
        inputs = tuple(self._made[part] for part in made_of if part in self._made)
        outcome = Outcome(work, makes or name)
        try:
            self._context.copy().run(step, name, outcome, made_of=inputs, done=done)
        except Exception as error:
            if outcome.error is None:  # of Prefect's engine, on which no result depends
                self._states.note_loss(error)
        if outcome.error is not None:
            raise outcome.error
        if outcome.made is None:  # no task has done the work
            return with_retries(work, retries, write_line)
        self._made[outcome.made.name] = outcome.made
        return outcome.value

    def do_job(self, job: Job, work: Work) -> None:
        """Do the work of a job inside its task, whose log has the lines of the job's own."""
        lines = LogTail(job.log)
        told = 0.0

        def tick() -> None:
            nonlocal told
            for line in lines.new():
                self.log(line)
            if job.kind == "training" and time.monotonic() - told >= TELL_SECONDS:
                told = time.monotonic()
                fraction, words = training_words(job)
                self.log(words)
                self._artifacts.progress(job, 100 * fraction, words)

        self.call(job.kind, job.name, partial(work, tick), made_of=job.made_of)
        if job.kind == "training":
            self._artifacts.progress(job, 100.0, training_words(job)[1])

    def log(self, text: str) -> None:
        """Write a line into the log of the task that this thread does, else of the flow run."""
        try:
            get_run_logger().info(text)
        except MissingContextError:  # a thread of ours that does no step
            self._context.copy().run(lambda: get_run_logger().info(text))

    @contextmanager
    def control(self, jobs: Jobs) -> Iterator[None]:
        """Let tasks do these jobs during the block; pause, stop and resume them with the run."""
        with super().control(jobs), self._states.control(jobs):
            yield

    def show_results(self, data: StudyData) -> None:
        """Show the results as artifacts of the flow run."""
        self._artifacts.results(data)

    def close(self) -> None:
        """End the threads of this object, without waiting for a server that is lost."""
        self._states.close()
        if not self._states.lost:
            self._artifacts.close()


class LogTail:
    """Read what is appended to a file, line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        with suppress(OSError):  # not there yet
            self._position = path.stat().st_size

    def new(self) -> list[str]:
        """Return the whole lines that have come since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                text = file.read()
        except OSError:  # not there yet, removed with its folder, or on a disk that hangs
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        return whole.decode(errors="replace").splitlines()
