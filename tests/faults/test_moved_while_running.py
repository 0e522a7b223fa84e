"""A study's folder is moved while the study runs: it ends with one line, and goes on when the folder is back."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql.results import query
from tests.faults.processes import start, started_for, trains
from tests.flows.small_study import small_study
from tests.waiting import PATIENCE_SECONDS, until


@pytest.mark.slow
def test_a_study_whose_folder_is_moved_ends_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    root, away, log = tmp_path / "run", tmp_path / "elsewhere", tmp_path / "log"
    study = small_study(tmp_path, tokens=30_000, save_every_seconds=0, seeds=[0, 1])
    study.write_text(f"{study.read_text()}\nworkers: 1\n")  # one training waits, and begins when the other has ended
    process = start(study, root, log)
    until(lambda: trains(root), process, log)
    root.rename(away)
    assert process.wait(PATIENCE_SECONDS) == 2, log.read_text()
    said = log.read_text()
    assert said.count(f"dreamer: {root} was moved or removed while the study ran; move it back") == 1
    assert "Traceback" not in said
    assert not root.exists()
    assert not started_for(root)
    away.rename(root)
    assert start(study, root, log).wait(PATIENCE_SECONDS) == 0, log.read_text()
    assert query(root / "results.duckdb", "select count(*) as n from evaluations")["n"][0] > 0
    assert (root / "report" / "index.html").exists()
