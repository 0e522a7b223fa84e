"""The tables in the pages of docs/results are those of the stored ratios."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def script() -> ModuleType:
    described = importlib.util.spec_from_file_location("tables", RESULTS / "tables.py")
    assert described is not None
    module = importlib.util.module_from_spec(described)
    assert described.loader is not None
    described.loader.exec_module(module)
    return module


TABLES = script()


@pytest.mark.parametrize("page", TABLES.pages())
def test_a_table_is_that_of_the_ratios(page: str) -> None:
    text = (RESULTS / page).read_text(encoding="utf-8")
    assert TABLES.with_table(text, TABLES.pages()[page]) == text


def test_a_cell_has_ratio_interval_and_seeds() -> None:
    row = {"ratio": "1.351", "low": "1.08", "high": "1.68", "seeds": "4"}
    assert TABLES.cell({**row, "significant": "False", "reached": "True"}) == (
        "1.35 (1.08 to 1.68), 4 seeds"
    )
    assert TABLES.cell({**row, "significant": "True", "reached": "False"}) == (
        "**1.35 (1.08 to 1.68), 4 seeds** †"
    )


def test_every_page_of_a_study_is_in_the_index() -> None:
    index = (RESULTS / "README.md").read_text(encoding="utf-8")
    pages = {path.parent.name for path in RESULTS.glob("*/README.md")}
    assert pages >= {folder for folder, _, _ in TABLES.STUDIES}
    for folder in pages:
        assert f"({folder}/README.md)" in index


@pytest.mark.parametrize(
    "page", [str(path.relative_to(RESULTS)) for path in RESULTS.glob("*/README.md")]
)
def test_a_page_of_a_study_begins_with_its_table(page: str) -> None:
    lines = (RESULTS / page).read_text(encoding="utf-8").splitlines()
    body = [line for line in lines[1:] if line and not line.startswith("<!--")]
    assert lines[0].startswith("# ")
    assert body[0].startswith("| ")
