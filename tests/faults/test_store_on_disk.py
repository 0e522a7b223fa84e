"""A store whose folder was moved, or whose files have other times, is taken as it is: nothing is computed again."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flows.stages.building import VERSIONS
from flows.stages.outputs import Prepared, read_finished
from flows.stages.prepare import prepare_data
from flows.study.loading import load_study
from pipeline.storage.store import Output, Store
from tests.flows.small_study import small_study

YEAR = 365 * 86400


class Noting(Store):
    """A store that notes the stages whose output was not there."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.worked: set[str] = set()

    def build(self, stage: str, *arguments: Any, **options: Any) -> Output:
        *others, work = arguments

        def noted(folder: Path) -> Mapping[str, Any]:
            self.worked.add(stage)
            return work(folder)

        return super().build(stage, *others, noted, **options)


def prepare(root: Path) -> tuple[Prepared, set[str]]:
    """Prepare the data of a small study; returns them with the names of the stages that were worked on."""
    study = load_study(small_study(root.parent), root=root)
    store = Noting(study.store_folder)
    return prepare_data(study, store), store.worked


@pytest.fixture(scope="module")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("before") / "run"
    _, worked = prepare(root)
    assert worked == set(VERSIONS)
    return root


@pytest.fixture
def stopped(prepared_once: Path, tmp_path: Path) -> Path:
    """The folder of a stopped study."""
    return Path(shutil.copytree(prepared_once, tmp_path / "run"))


def test_a_study_folder_that_was_moved_goes_on(stopped: Path, tmp_path: Path) -> None:
    before = {path.relative_to(stopped): path.stat().st_mtime_ns for path in stopped.glob("store/*/*/*")}
    moved = stopped.rename(tmp_path / "elsewhere")
    prepared, worked = prepare(moved)
    assert worked == set()
    assert {path.relative_to(moved): path.stat().st_mtime_ns for path in moved.glob("store/*/*/*")} == before
    assert prepared.store == moved / "store"
    study = load_study(small_study(tmp_path), root=moved)
    assert read_finished(study, Prepared) == prepared
    assert all(str(stopped) not in str(task) for task in prepared.tasks)


@pytest.mark.parametrize("shift", [-YEAR, YEAR])
def test_a_clock_that_jumps_changes_nothing(stopped: Path, shift: float) -> None:
    for path in stopped.rglob("*"):
        if path.is_file() and path.name != "manifest.json":
            os.utime(path, (time.time() + shift,) * 2)
    _, worked = prepare(stopped)
    assert worked == set()
