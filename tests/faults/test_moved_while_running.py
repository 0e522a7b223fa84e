"""A study's folder is moved while the study runs: it ends with one line, and goes on when the folder is back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.processes import start, trains, until
from tests.flows.small_study import small_study


@pytest.mark.slow
def test_a_study_whose_folder_is_moved_ends_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    root, log = tmp_path / "run", tmp_path / "log"
    study = small_study(tmp_path, tokens=60_000, save_every_seconds=0)
    process = start(study, root, log)
    until(lambda: trains(root), process, log)
    root.rename(tmp_path / "elsewhere")
    assert process.wait(400) != 0
    said = log.read_text()
    print(said)
    print(list(root.rglob("*")) if root.exists() else "gone")
    assert "Traceback" not in said
