"""Results of a study under way: rows and reports are written while models train, and end no
study."""

from __future__ import annotations

import html
import re
import signal
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import duckdb
import pytest

from dreamer_study.flows.jobs import Event
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress import reports
from dreamer_study.flows.running import live_results, result_rows
from dreamer_study.flows.running.live_results import Results, report_mark
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.running.result_rows import compute_intervals, enter_evaluations
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.running.study import run_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import connect, query
from tests.flows.by_hand import Heard, JobsByHand, Planned, tiny
from tests.sql.processes import shell

TWO = {"models": {"variants": ["LA", "DR"]}, "evaluation": {"introspect": False}}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """So short a study would end before its second look at the rows."""
    monkeypatch.setattr(live_results, "ENTER_SECONDS", 0.0)
    monkeypatch.setattr(live_results, "REST", 0)


class Looks(Steps):
    """Looks at the results whenever something has happened."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.study, self.drawings = plan.study, list[str]()
        self.statuses: list[tuple[str, ...]] = []

    @contextmanager
    def control(self, jobs: Any) -> Iterator[None]:
        events = jobs.events

        def looked_at() -> Iterator[Event]:
            for event in events():
                self.look()
                yield event

        jobs.events = looked_at
        yield

    def look(self) -> None:
        if self.study.database.exists():
            found = query(self.study.database, "select status from runs order by run_id desc")[
                "status"
            ]
            self.statuses.append(tuple(found))

    def show_results(self, data: Any) -> None:
        assert report_mark(self.study).exists() == bool(self.drawings)
        words = html.unescape(re.sub("<[^>]*>", " ", self.study.report.read_text())).split()
        self.drawings.append(" ".join(words))


@pytest.mark.slow
@pytest.mark.usefixtures("empty_figures")
def test_rows_are_entered_and_the_report_is_written_while_models_train(prepared: Planned) -> None:
    plan = prepared(**TWO)
    looks = Looks(plan)
    run_study(plan, JobsByHand(), looks)
    first, last = looks.drawings
    assert "Not complete: 2 runs of 2." in first
    assert "Not complete" not in last
    assert looks.statuses[0] == ("waiting", "waiting")
    assert ("complete", "evaluating") in looks.statuses or (
        "evaluating",
        "complete",
    ) in looks.statuses
    assert set(query(plan.study.database, "select status from runs")["status"]) == {"complete"}
    assert report_mark(plan.study).exists()


@pytest.mark.slow
def test_an_error_in_showing_results_ends_no_study(
    prepared: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[int] = []
    monkeypatch.setattr(
        "dreamer_study.reports.page.report.write_data", lambda *_, **__: broken.append(1) or 1 / 0
    )
    plan = prepared(**TWO)
    run_study(plan, JobsByHand(), Steps(), Options(until="evaluate"))
    assert broken
    assert plan.evaluated


def test_the_error_that_duckdb_makes_of_a_signal_is_not_swallowed(
    prepared: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter(_: Results) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(Results, "enter", enter)
    with pytest.raises(KeyboardInterrupt):
        Results(prepared(**TWO)).update(changed=True)


@pytest.mark.slow
def test_a_signal_in_a_query_is_not_swallowed(
    prepared: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Results,
        "enter",
        lambda _: duckdb.sql("select sum(range) from range(1_000_000_000)").show(),
    )
    results = Results(prepared(**TWO))
    # Tests that a shell has started in the background ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    Timer(0.5, interrupt_main).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            results.update(changed=True)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_rows_wait_for_a_reader_and_the_study_goes_on(
    prepared: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = prepared(**TWO)
    connect(plan.study.database).close()
    monkeypatch.setattr(result_rows, "PATIENCE", 0.1)
    results = Results(plan)
    with reports.listening(Heard()) as heard:
        with shell(plan.study.database, "read-only") as reader:
            results.update(changed=True)
            assert f"PID {reader.pid})" in heard.words[-1]
            assert query(plan.study.database, "from studies").empty  # readers go on as well
        results.finish()
    assert list(query(plan.study.database, "from studies")["study_id"]) == [plan.study.study_id]
    assert list(query(plan.study.database, "from sources")["licence"]) == ["Apache-2.0"]


def test_a_folder_that_was_moved_away_is_not_made_anew(tmp_path: Path) -> None:
    plan = Plan(tiny(tmp_path / "moved"))
    for enter in (lambda: enter_evaluations(plan, []), lambda: compute_intervals(plan)):
        with pytest.raises(InputError, match="was it moved"):
            enter()
    assert not plan.study.folder.exists()
