"""The tables in the pages of docs/results are those of the stored ratios."""

import pandas as pd
import pytest

from tests.docs.scripts import RESULTS, script

TABLES = script("tables.py")


@pytest.mark.parametrize("page", TABLES.pages())
def test_a_table_is_that_of_the_ratios(page: str) -> None:
    text = (RESULTS / page).read_text(encoding="utf-8")
    assert TABLES.with_table(text, TABLES.pages()[page]) == text


@pytest.mark.slow
def test_the_page_of_the_atlas_is_that_of_the_rows_in_the_package() -> None:
    page = script("atlas/page.py")
    text = (RESULTS / "atlas" / "README.md").read_text(encoding="utf-8")
    assert page.with_tables(text) == text
    for world in page.worlds():
        for name, _ in page.figures(page.read_atlas(world)):
            assert f"({name})" in text
            assert (RESULTS / "atlas" / name).is_file()


@pytest.mark.slow
def test_the_operations_of_the_atlas_are_those_of_its_items() -> None:
    operations = script("atlas/operations.py")
    assert operations.operations().equals(pd.read_csv(operations.FILE))


def test_the_rows_of_the_atlas_are_small() -> None:
    rows = script("atlas/rows.py")
    files = [file for file in rows.WORLDS.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= rows.MOST_BYTES


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
