"""Rows of a study wait while another program holds the results file, and arrive when the file is free."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.running import progress
from flows.stages import ingest
from flows.stages.outputs import Prepared
from flows.stages.prepare import prepare_data
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.store import Store
from sql.results import connect, query
from tests.flows.heard import Heard
from tests.flows.small_study import TINY
from tests.sql.processes import shell


def test_rows_wait_for_a_reader_and_the_study_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study(TINY, root=tmp_path)
    prepared: Prepared = prepare_data(study, Store(study.store_folder))
    connect(study.database).close()
    monkeypatch.setattr(ingest, "PATIENCE", 0.1)
    with progress.listening(Heard()) as heard:
        with shell(study.database, "read-only") as reader:
            ingest.ingest_stages(study, prepared)
            assert f"PID {reader.pid}); close it there" in heard.words[-1]
            assert heard.words[-1].endswith("rows wait, the study goes on")
            assert query(study.database, "from studies").empty  # readers go on as well
        ingest.ingest_stages(study, prepared)
    assert list(query(study.database, "from studies")["study_id"]) == [study.study_id]
    assert list(query(study.database, "from sources")["licence"]) == ["Apache-2.0"]
    assert not list(tmp_path.glob(".*-not-ingested"))


def test_a_later_stage_ingests_the_rows_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, order = load_study(TINY, root=tmp_path), []
    tmp_path.joinpath(".prepared-not-ingested").touch()
    for name in ("study", "runs", "evaluations"):
        monkeypatch.setattr(ingest, f"ingest_{name}", lambda *_, name=name: order.append(name))
    given = (study, object(), [], object(), object())
    ingest.ingest_stages(*given[:4])
    ingest.ingest_stages(*given)
    assert order == ["study", "runs", "evaluations"]


def test_a_folder_that_was_moved_away_is_not_made_anew(tmp_path: Path) -> None:
    study = load_study(TINY, root=tmp_path / "moved")
    with pytest.raises(InputError, match="was it moved"):
        ingest.ingest_evaluation_rows(study, [])
    with pytest.raises(InputError, match="was it moved"):
        ingest.compute_intervals(study)
    assert not study.folder.exists()
