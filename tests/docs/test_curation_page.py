"""The page on curation is made from the rows of its studies."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tests.docs.scripts import RESULTS, script

FOLDER = RESULTS / "recipes"
PAGE = script("recipes/page.py")


def test_the_tables_are_made_from_rows(tmp_path: Path) -> None:
    row = {"study": "recipes-raw", "task": "average", "metric": "loss", "seeds": 4}
    row |= {"ratio": 1.1, "low": 1.05, "high": 1.2, "significant": True, "detectable": 1.08}
    nothing = dict.fromkeys(("ratio", "low", "high", "significant", "detectable"))
    rows = [row, {**row, **nothing, "metric": "accuracy"}, {**row, "task": "world_recall"}]
    pd.DataFrame(rows).to_csv(tmp_path / "ratios.csv", index=False)
    leak = {"study": "recipes-raw", "task": "all", "items": "leaked", "number": 40}
    leak |= {"first": 0.2, "second": 0.3, "difference": 0.1, "low": 0.05, "high": 0.15}
    pd.DataFrame([leak, {**leak, "task": "world_recall"}]).to_csv(
        tmp_path / "leaks.csv", index=False
    )
    made = PAGE.with_tables((FOLDER / "README.md").read_text(encoding="utf-8"), tmp_path)
    assert "| raw | loss | 1.100 (1.050 to 1.200) | yes | 1.08 | 4 |\n" in made
    assert "| raw | accuracy | no scores in common | no |  | 4 |\n" in made
    assert "| raw | leaked | 40 | 20.0 % | 30.0 % | +10.0 (+5.0 to +15.0) |\n" in made
    assert "world_recall" not in made
    assert PAGE.with_tables(made, tmp_path) == made


def test_the_page_shows_its_rows() -> None:
    """Once the studies have been run, the tables are those of the rows beside the page."""
    if not (FOLDER / "ratios.csv").exists():
        return
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert PAGE.with_tables(text, FOLDER) == text
