"""Show results while models are trained, at little cost: enter rows, and write the report again.

Where another program holds the results file, rows wait in the store and the study continues; only
the end of the study waits for the file. A mark in the study's folder says that the report is final.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_fixed

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress import reports
from dreamer_study.flows.running.result_rows import (
    compute_intervals,
    enter_evaluations,
    enter_origins,
    enter_runs,
    enter_study,
    forget_wrong,
    status_of,
)
from dreamer_study.flows.running.trackers import Tracker
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.storage.digests import digest, file_digest
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.reports.data import StudyData, read_study
from dreamer_study.sql.names import UNDER_WAY
from dreamer_study.sql.results import Busy, ask

ENTER_SECONDS = 20.0  # between two entries of rows, at least
REPORT_SECONDS = 60.0  # between two reports, at least
REST = 99  # times as long as the work took: showing a study takes at most a hundredth of its time
# resamples of the items, at most, for intervals of results that are not final: a third of the time
REPLICATES = 200
POLL_SECONDS = 1.0

Result = TypeVar("Result")


class Results:
    """The rows and the report of a study that runs.

    `drawn` is called with the data of every report that is written.
    """

    def __init__(
        self, plan: Plan, drawn: Callable[[StudyData], object] = lambda data: None
    ) -> None:
        self._plan = plan
        self._tell = drawn
        self._tracker = Tracker(plan)
        self._entered: set[str] = set()  # outputs, by their names in the ledger
        self._study_entered = False
        self._changed = False  # whether there are rows to be entered
        self._drawn = False  # whether the report shows all that was entered
        self._enter_at = 0.0  # the earliest time of the next entry
        self._report_at = 0.0
        report_mark(plan.study).unlink(missing_ok=True)

    def update(self, *, changed: bool) -> None:
        """Enter what is new, and draw the report, if enough time has passed since the last time.

        `changed` says that there are rows to be entered. Neither takes more than its share of the
        time (`REST`).
        """
        self._changed |= changed
        now = time.monotonic()
        if self._changed and now >= self._enter_at:
            self._enter_at = max(self._spend(self.enter), now + ENTER_SECONDS)
        if self._entered and not self._drawn and now >= self._report_at:
            self._report_at = max(self._spend(self._draw), now + REPORT_SECONDS)

    def enter(self) -> None:
        """Enter all rows that have not been entered.

        Raises Busy where another program holds the results file.
        """
        if not self._study_entered:
            self._entered = forget_wrong(self._plan)
            enter_study(self._plan)
            enter_origins(self._plan)
            self._study_entered = True
        evaluations = [
            evaluation
            for run in self._plan.runs
            if not run.failure
            for evaluation in self._plan.evaluations(run)
        ]
        new = [
            evaluation
            for evaluation in evaluations
            if f"evaluations/{evaluation.key}" not in self._entered and evaluation.done
        ]
        enter_evaluations(self._plan, new)
        enter_runs(self._plan)
        self._entered.update(f"evaluations/{evaluation.key}" for evaluation in new)
        self._changed = False
        self._drawn = self._drawn and not new
        self._tracker.update()

    def finish(self) -> None:
        """Enter all rows, and compute the intervals; wait for a file that another program holds."""
        reports.report("statistics", 0.0, "ratios and their intervals")
        patiently(self.enter)
        patiently(lambda: compute_intervals(self._plan))
        patiently(lambda: self._tracker.update(last=True))
        reports.report("statistics", 1.0, "done")

    def write_report(self) -> Path:
        """Write the final report."""
        # seconds, for which no training waits
        from dreamer_study.reports.page.report import write_data

        study = self._plan.study
        reports.report("write report", 0.0, "figures and tables")
        data = patiently(lambda: read_study(study.database, study.study_id))
        path = write_data(data, study.report.parent)
        write_text_atomically(report_mark(study), report_digest(self._plan))
        self._tell(data)
        reports.report("write report", 1.0, str(path))
        return path

    def _spend(self, work: Callable[[], None]) -> float:
        """Do some work, and return the time at which the work may be done again.

        No error ends the study here: either another program holds the file, or it is a defect,
        which the end of the study tells.
        """
        began = time.monotonic()
        try:
            work()
        except Exception as error:
            if "Query interrupted" in str(error):  # by a signal, of which DuckDB makes this error
                raise KeyboardInterrupt from error
            reports.report("live results", 0.0, f"later: {error}")
        return time.monotonic() + REST * (time.monotonic() - began)

    def _draw(self) -> None:
        """Write the report of what is there."""
        from dreamer_study.reports.page.report import write_data

        plan = self._plan
        study = plan.study
        if not {status_of(plan, run) for run in plan.runs} & set(UNDER_WAY):
            return  # the final report follows at once
        compute_intervals(plan, most_replicates=REPLICATES)
        data = read_study(study.database, study.study_id)
        write_data(data, study.report.parent, papers=False)
        self._drawn = True
        self._tell(data)


def report_mark(study: Study) -> Path:
    """Return the file that marks the report as final.

    The file holds a digest of the report, and of the results that the report shows.
    """
    return study.folder / ".report-final"


def report_digest(plan: Plan) -> str:
    """Hash the files of the report, together with the study's rows of the table `ingested`."""
    folder = plan.study.report.parent
    files: dict[str, str | int] = {}
    for path in folder.rglob("*"):
        if path.is_file():
            # a PDF has the time in it at which it was written
            content = path.stat().st_size if path.suffix == ".pdf" else file_digest(path)
            files[str(path.relative_to(folder))] = content
    rows = patiently(lambda: ask(plan.study.database, "ingested", study=plan.study.study_id))
    return digest([files, rows.to_dict("list")])


def patiently(action: Callable[[], Result]) -> Result:
    """Call `action` until no other program holds the results file, and report which one does."""

    def report(state: RetryCallState) -> None:
        reports.report("results file", 0.0, str(state.outcome.exception()))

    retrying = Retrying(
        retry=retry_if_exception_type(Busy), wait=wait_fixed(POLL_SECONDS), before_sleep=report
    )
    result = retrying(action)
    if retrying.statistics["attempt_number"] > 1:
        reports.report("results file", 1.0, "free again")
    return result
