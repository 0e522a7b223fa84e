"""The examples of docs/python.md and the notebook run, and the notebook's pictures are of today."""

from __future__ import annotations

import copy
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import dreamer_study
from tests.flows.small_study import PROJECT

PAGE = (PROJECT / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NOTEBOOK = json.loads((PROJECT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
RUN = runpy.run_path(str(PROJECT / "docs" / "notebook.py"))
MOST_BYTES = 200_000  # of the notebook with its pictures
LINES = 10
SAME_PICTURE = 0.2  # of the length of a picture: other fonts draw other letters


@pytest.mark.slow
def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in EXAMPLES:
        RUN["value_of"](example, names)
    assert (tmp_path / "ratios.png").exists()
    assert (tmp_path / "report.html").exists()
    assert names["logits"].shape[:2] == names["tokens"].shape
    assert {type(event).__name__ for event in names["events"]} <= {"Progress", "Note"}


def test_the_page_has_all_methods_of_results() -> None:
    public = [name for name in vars(dreamer_study.Results) if not name.startswith("_")]
    assert [name for name in public if f"`{name}" not in PAGE and name != "store"] == []


def test_the_notebook_has_ten_lines_of_code() -> None:
    lines = [line for cell in CELLS for line in cell.splitlines() if line.strip()]
    assert len(lines) == LINES


@pytest.mark.slow
def test_the_notebook_runs_and_what_it_shows_is_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    today = copy.deepcopy(NOTEBOOK)
    RUN["run_cells"](today)
    assert capfd.readouterr() == ("", "")
    for kept, new in zip(outputs(NOTEBOOK), outputs(today), strict=True):
        assert kept.keys() == new.keys()
        if "image/png" in kept:
            assert abs(len(kept["image/png"]) / len(new["image/png"]) - 1) < SAME_PICTURE
        else:
            assert kept == new
    assert (tmp_path / "report.html").exists()


def outputs(notebook: dict[str, Any]) -> list[dict[str, str]]:
    """Return what each output of a notebook shows, by its type."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [output["data"] for cell in cells for output in cell["outputs"]]


def test_the_notebook_is_small_and_has_no_script() -> None:
    text = (PROJECT / "docs" / "notebook.ipynb").read_text(encoding="utf-8")
    assert len(text) < MOST_BYTES
    assert "<script" not in text
