"""The page on forms of recurrence is made from the rows of its study."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tests.docs.scripts import RESULTS, script

FOLDER = RESULTS / "forms"
PAGE = script("forms/page.py")


def test_the_page_shows_its_rows() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert PAGE.with_tables(text, FOLDER) == text


def test_p_values_are_corrected_by_holm(tmp_path: Path) -> None:
    """The second would be 0.03 and stays at 0.04, as the first is that much already."""
    row = {"task": "world_expressions", "metric": "accuracy", "ratio": 2.0, "low": 1.0}
    row |= {"high": 4.0, "reached": True, "significant": None, "within_checkpoint": False}
    ps = {"A": 0.01, "B": 0.012, "C": 0.3, "D": 0.9}
    pd.DataFrame([{**row, "variant": name, "p": p} for name, p in ps.items()]).to_csv(
        tmp_path / "ratios.csv", index=False
    )
    lines = PAGE.table(PAGE.PRIMARY, tmp_path / "ratios.csv").splitlines()[2:]
    assert [line.split(" | ")[3] for line in lines] == ["0.04", "0.04", "0.60", "0.90"]
