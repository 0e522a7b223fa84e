"""The steps of a study, each a call that does what its name says.

    steps.call("data", "clean sheets", work, made_of=("traces/5c0e...",), makes="clean/91ab...")

`flows/prefect/tasks.py` does each step inside a task of Prefect's, which shows its state, its log,
its tries and what it was made of. Here a step is a plain call. No result depends on the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal, TypeVar

from dreamer_study.flows.jobs import Job, Jobs, Work
from dreamer_study.flows.jobs.retries import retries_of, with_retries
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.study.configuration import Compute
from dreamer_study.reports.data import StudyData

Kind = Literal["download", "data", "match", "training", "evaluation", "statistics", "report"]
Result = TypeVar("Result")

MODELS = "models"  # what the step `match` makes
STATISTICS = "statistics"  # what the step of that name makes


class Steps:
    """Do the steps of a study here, each again where another try may help (`jobs/retries.py`)."""

    def __init__(self, compute: Compute | None = None) -> None:
        self.compute = compute or Compute()

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
        """Do one step, and return what `work()` returns. Raises what `work` raises.

        `made_of` names the results of other steps that `work` reads, `makes` the result of this
        one (default: its name). `done` says that the store holds the result already: `work` then
        only checks that. Threads may call this side by side.
        """
        return with_retries(work, retries_of(kind, self.compute), write_line)

    def do_job(self, job: Job, work: Work) -> None:
        """Do the work of a job, in its thread and on its devices."""
        self.call(job.kind, job.name, partial(work, lambda: None), made_of=job.made_of)

    def log(self, text: str) -> None:
        """Write a line into the log of the step that this thread is doing."""

    @contextmanager
    def control(self, jobs: Jobs) -> Iterator[None]:
        """Do these jobs as steps during the block; a pause or a cancellation reaches them."""
        jobs.do = self.do_job
        yield

    def show_results(self, data: StudyData) -> None:
        """Show the data of a report that has just been written."""
