"""`dreamer list`: every study's folder with its state and answer."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.progress.status_file import recorded
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.study.loading import load_study, presets
from dreamer_study.sql.results import connect
from tests.flows.atlas.made_up import family
from tests.flows.by_hand import study_file
from tests.reports.small_results import entered, trained

RIGHT = {"LA": (4, 8, 12, 16, 20), "DR": (8, 13, 16, 22, 24)}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of studies: one that has begun, results alone, and a folder of something else."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    study = load_study(study_file(tmp_path), root=folder / "begun")
    with only_run(study), recorded(study):
        pass
    (folder / "results").mkdir()
    entered(folder / "results" / "results.duckdb", trained(RIGHT, seeds=2), replicates=50)
    (folder / "notes").mkdir()
    return folder


def listed(capsys: pytest.CaptureFixture[str], *given: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["list", "--json", *given]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["presets"] == presets()
    return document["studies"]


@pytest.mark.slow
def test_studies_have_a_state_and_an_answer(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun, results = listed(capsys)
    study = load_study(runs / "begun")
    assert begun == {
        "folder": "runs/begun",
        "study": study.study_id,
        "state": "not started",
        "answer": None,
    }
    # whose settings nobody has noted: the answer is there nonetheless
    assert (results["folder"], results["state"]) == ("runs/results", "unknown")
    assert results["study"] == "small-00000000"
    name, ratio, *interval = results["answer"].split()
    assert (name, ratio[-1], interval[1]) == ("DR", "x", "to")

    assert main(["list"]) == 0
    printed, messages = capsys.readouterr()
    assert results["answer"] in printed
    assert f"presets: {', '.join(presets())}" in printed
    assert messages.startswith("runs/results: ")


@pytest.mark.slow
def test_the_answer_is_of_what_the_study_has_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "placed").mkdir()
    database = family(tmp_path / "placed" / "results.duckdb", ["LA", "DR", "RWKV"])
    with closing(connect(database)) as connection:
        for variant in ("LA", "DR"):
            connection.execute(
                "insert into origins by name select study_id, ? as variant from studies", [variant]
            )
    (placed,) = listed(capsys, "--root", str(tmp_path))
    assert placed["answer"].startswith("RWKV ")
    assert "DR" not in placed["answer"]


@pytest.mark.slow
def test_a_study_that_runs_is_running(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with only_run(load_study(runs / "begun")):
        assert listed(capsys)[0]["state"] == "running"


@pytest.mark.slow
def test_other_folders_are_looked_in(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    # a folder may have the name of a preset, and hold another study
    study = load_study(study_file(tmp_path), root=other / "demo")
    with recorded(study):
        pass
    studies = listed(capsys, "--root", "other", "--root", "runs")
    assert [entry["folder"] for entry in studies] == ["other/demo", "runs/begun", "runs/results"]
    assert studies[0]["study"] == study.study_id
    assert main(["list", "--root", "nowhere"]) == 2
    assert "--root nowhere: there is no such folder" in capsys.readouterr().err


def test_without_studies_presets_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("no studies in runs\n")
    assert "dreamer new --from demo" in printed
