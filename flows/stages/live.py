"""Show results while models are trained: enter rows as they come, and write the report again, at little cost."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from flows.running import progress
from flows.running.processes import Stopped, wait_unless_stopping
from flows.running.throttle import Throttle
from flows.stages.evaluate import follow_runs
from flows.stages.ingest import ENTERING, compute_intervals, ingest_evaluation_rows, ingest_runs, not_ingested
from flows.stages.models import PlannedModel
from flows.stages.outputs import Evaluated, Prepared, Run, Trained, checkpoint_folders, read_finished, report_mark
from flows.stages.train import lookouts
from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL
from pipeline.storage.store import Store
from reports.data import StudyData, read_study
from reports.page.report import write_data
from sql.names import UNDER_WAY

ENTER_SECONDS = 20.0  # between two looks for what is to be entered, at least
REPORT_SECONDS = 60.0  # between two reports, at least
LAST_WORD_SECONDS = 0.1  # between two looks whether the trainings have ended, when all is evaluated
REPLICATES = 200  # of the items, at most, for intervals of results that are not final: they take a third of the time


def evaluate_live(
    study: Study,
    store: Store,
    prepared: Prepared,
    planned: Sequence[PlannedModel],
    *,
    trust_code: bool = False,
    drawn: Callable[[StudyData], object] = lambda data: None,
) -> tuple[Trained, Evaluated]:
    """Evaluate every checkpoint of a study that is being trained as soon as a slot is free, and show the results.

    `drawn` is called with the data of the report whenever the report was written. Returns when everything is trained
    and evaluated. The trainings do not end because an evaluation fails.
    """
    looks = lookouts(study, store, prepared.packed, planned)
    results = LiveResults(study, planned, looks, drawn)
    try:
        evaluated = follow_runs(
            study,
            store,
            prepared,
            looks,
            partial(trained_now, study),
            trust_code=trust_code,
            note=results.add,
            tick=results.update,
        )
    except InputError as error:
        progress.report("evaluate", 0.0, f"ended, the trainings go on: {error}")
        raise
    while not (trained := trained_now(study)):  # all may be evaluated before the trainings' last word is written
        wait_unless_stopping(LAST_WORD_SECONDS)
    return trained, evaluated


def trained_now(study: Study) -> Trained | None:
    """Read what the runs of a study have become; None while they are trained."""
    try:
        return read_finished(study, Trained)
    except InputError:
        return None


class LiveResults:
    """The results of a study under way: `add` notes an evaluated checkpoint, `update` enters what was added.

    What is entered is not final: marks in the study's folder say that the stages have to ingest their rows.
    """

    def __init__(
        self,
        study: Study,
        planned: Sequence[PlannedModel],
        looks: Sequence[Callable[[], Run]],
        drawn: Callable[[StudyData], object] = lambda data: None,
    ) -> None:
        self._study, self._planned, self._looks, self._tell = study, planned, looks, drawn
        self._added: list[Path] = []
        self._evaluated: dict[str, set[str]] = defaultdict(set)  # checkpoints of each run
        self._status: dict[str, str] = {}  # of each run, as entered
        self._enter_at = self._report_at = 0.0
        self._throttle = Throttle()
        self._drawn = True

    def add(self, run: Run, rows: Path) -> None:
        """Note the rows of an evaluated checkpoint, by their place in the finished evaluation."""
        self._evaluated[run.run_id].add(rows.parent.name)
        self._added.append(rows)

    def update(self) -> None:
        """Enter what is new and draw the report, unless one of these would take more than its share (`Throttle`)."""
        if time.monotonic() >= self._enter_at:
            self._enter_at = max(self._spend(self._enter), time.monotonic() + ENTER_SECONDS)
        # When nothing is under way any more, the report stage follows at once.
        if not self._drawn and set(UNDER_WAY) & set(self._status.values()) and time.monotonic() >= self._report_at:
            self._report_at = max(self._spend(self._draw), time.monotonic() + REPORT_SECONDS)

    def _spend(self, work: Callable[[], None]) -> float:
        """Do some work, and return the time at which the work may be done again."""
        began = time.monotonic()
        with ENTERING:
            try:
                work()
            except (InputError, FileNotFoundError) as error:  # another program reads, or a stage moves its folder
                progress.report("live results", 0.0, f"later: {error}")
        ended = time.monotonic()
        return ended + self._throttle.rest(ended - began)

    def _enter(self) -> None:
        """Enter rows of new evaluations; then, or where a run has another status, of the runs that have got further."""
        runs = [self._stated(look()) for look in self._looks]
        status, added = {run.run_id: run.status for run in runs}, list(self._added)
        if status == self._status and not added:
            return
        further = [run for run in runs if run.status == "training" or self._status.get(run.run_id) != run.status]
        for stage in ("trained", "evaluated"):
            not_ingested(self._study, stage).touch()
        report_mark(self._study).touch()
        ingest_runs(
            self._study, self._planned, Trained(self._study.study_id, self._study.store_folder, "", tuple(further))
        )
        ingest_evaluation_rows(self._study, [_present(rows) for rows in added])
        self._status, self._drawn = status, self._drawn and not added
        del self._added[: len(added)]

    def _draw(self) -> None:
        """Write the report of what is there. What goes wrong in showing results ends no evaluation."""
        self._drawn = True
        try:
            compute_intervals(self._study, most_replicates=REPLICATES)
            data = read_study(self._study.database, self._study.study_id)
            write_data(data, self._study.report.parent, papers=False)
            self._tell(data)
        except (InputError, Stopped):
            self._drawn = False
            raise
        except Exception as error:  # the stage of the report will say it of all rows
            progress.report("live results", 0.0, f"the report could not be written: {error!r}")

    def _stated(self, run: Run) -> Run:
        """Return a run with the status 'evaluating' while some of its checkpoints are not evaluated."""
        behind = run.status == "complete" and len(self._evaluated[run.run_id]) < len(checkpoint_folders(run))
        return replace(run, status="evaluating") if behind else run


def _present(rows: Path) -> Path:
    """Return where rows of an evaluation are now: in its finished folder, or in the unfinished one."""
    output = rows.parents[3]
    return rows if rows.exists() else output.with_name(output.name + PARTIAL) / rows.relative_to(output)
