"""A page in a browser, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dreamer_study.reports.page.report import write_report
from tests.reports.browser import Browser, browser
from tests.reports.small_results import RIGHT, STUDY, whole_study


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a study of two depths with rows in every table."""
    place = tmp_path_factory.mktemp("browser")
    right = {variant: RIGHT[variant] for variant in ("LA", "DR", "DR+DA")}
    database = whole_study(place / "results.duckdb", right, depths=(2, 4))
    return write_report(database, STUDY, place / "report", papers=False)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def page(chromium: Browser, report: Path) -> Browser:
    """The page, opened anew in a window of 1280 x 800."""
    chromium.size(1280, 800)
    chromium.colours("light")
    chromium.send("Emulation.setEmulatedMedia", media="")
    chromium.open(report.as_uri())
    return chromium
