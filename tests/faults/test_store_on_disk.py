"""A store that is moved, also while its study runs, and a clock that jumps."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.results import query
from tests.faults.processes import start, started_for, trains
from tests.flows.prepared import with_both
from tests.flows.small_study import small_study
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

YEAR = 365 * 86400


def prepare(root: Path) -> tuple[Plan, list[str]]:
    """Prepare the data of a small study; returns the plan with the names of the outputs that were
    made."""
    plan, made = Plan(load_study(small_study(root.parent), root=root)), []

    class Noted(Steps):
        def call(
            self, kind: Any, name: str, work: Callable[[], Any], *, done: bool = False, **_: Any
        ) -> Any:
            if not done:
                made.append(name)
            return work()

    prepare_data(plan, Noted())
    return plan, made


@pytest.fixture(scope="module")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("before") / "run"
    plan, made = prepare(root)
    assert len(made) == len(plan.data.outputs) - len(plan.data.ceilings)
    return root


@pytest.fixture
def stopped(prepared_once: Path, tmp_path: Path) -> Path:
    """The folder of a stopped study."""
    return Path(shutil.copytree(prepared_once, tmp_path / "run"))


def test_a_study_folder_that_was_moved_goes_on(stopped: Path, tmp_path: Path) -> None:
    before = {
        path.relative_to(stopped): path.stat().st_mtime_ns for path in stopped.glob("store/*/*/*")
    }
    moved = stopped.rename(tmp_path / "elsewhere")
    plan, made = prepare(moved)
    assert made == []
    assert {
        path.relative_to(moved): path.stat().st_mtime_ns for path in moved.glob("store/*/*/*")
    } == before
    assert plan.prepared
    assert all(run.folder.is_relative_to(moved / "store") for run in plan.runs)
    assert plan.tasks
    assert all(str(stopped) not in str(task) for task in plan.tasks)


@pytest.mark.parametrize("shift", [-YEAR, YEAR])
def test_a_clock_that_jumps_changes_nothing(stopped: Path, shift: float) -> None:
    for path in stopped.rglob("*"):
        if path.is_file() and path.name != "manifest.json":
            os.utime(path, (time.time() + shift,) * 2)
    _, made = prepare(stopped)
    assert made == []


def test_a_study_whose_folder_is_moved_ends_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    root, away, log = with_both(tmp_path / "run"), tmp_path / "elsewhere", tmp_path / "log"
    study = small_study(tmp_path, tokens=30_000, save_every_seconds=0, seeds=[0, 1])
    # one training waits, and begins when the other has ended
    study.write_text(f"{study.read_text()}\nworkers: 1\n")
    process = start(study, root, log)
    until(lambda: trains(root), process, log)
    root.rename(away)
    assert process.wait(PATIENCE_SECONDS) == 2, log.read_text()
    said = log.read_text()
    assert (
        said.count(f"dreamer: {root} was moved or removed while the study ran; move it back") == 1
    )
    assert "Traceback" not in said
    assert not root.exists()
    assert not started_for(root)
    away.rename(root)
    # The rest needs neither Prefect nor a report.
    again = start(study, root, log, "--plain", "--until", "evaluate")
    assert again.wait(PATIENCE_SECONDS) == 0, log.read_text()
    assert query(root / "results.duckdb", "select count(*) as n from evaluations")["n"][0] > 0
