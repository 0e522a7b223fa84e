"""A study whose data are prepared, once for all tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.ceilings import measure_ceilings
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.live_results import Results
from dreamer_study.flows.running.steps import Steps
from dreamer_study.reports.figures.rendering import ENDINGS, Figure
from tests.flows.by_hand import tiny


@pytest.fixture(scope="session")
def tiny_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the tiny study with its data and ceilings; not to be changed."""
    study = tiny(tmp_path_factory.mktemp("prepared"))
    plan = Plan(study)
    prepare_data(plan, Steps())
    measure_ceilings(plan, Steps(), own=False, trust_code=False)
    return study.store_folder


def write_empty_files(figure: Figure, folder: Path) -> None:
    """Write the files of a figure without what is in them."""
    folder.mkdir(exist_ok=True)
    for ending in ENDINGS:
        (folder / f"{figure.name}.{ending}").touch()


@pytest.fixture(scope="module")
def empty_figures() -> Iterator[None]:
    """Write empty files in place of figures for papers, which take more than half of the seconds of
    a small report; tests/reports/ sees them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dreamer_study.reports.page.report.export", write_empty_files)
        yield


@pytest.fixture(scope="module")
def light_reports(empty_figures: None) -> Iterator[None]:
    """Draw no report while a study is under way either: test_live_results.py sees these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Results, "_draw", lambda results: None)
        yield


@pytest.fixture
def prepared(tiny_store: Path, tmp_path: Path) -> Callable[..., Plan]:
    """A function that plans a changed tiny study (`tiny`) in a folder of this test, where the data
    are prepared."""

    def plan(root: Path | str = "run", **changes: Any) -> Plan:
        folder = tmp_path / root
        if not folder.exists():
            shutil.copytree(tiny_store, folder / "store")
        return Plan(tiny(folder, **changes))

    return plan
