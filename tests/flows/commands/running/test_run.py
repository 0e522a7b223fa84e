"""`dreamer run` without Prefect: a folder that goes away."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import flows.commands.running.run
from flows.commands.cli import main
from flows.plan import Plan
from pipeline.errors import InputError
from tests.flows.small_study import small_study


@pytest.mark.parametrize("error", [InputError("a shard is gone"), duckdb.IOException("a shard"), OSError(2, "")])
@pytest.mark.parametrize("anew", [False, True])
def test_a_folder_that_was_moved_is_said_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, anew: bool
) -> None:
    def moves(plan: Plan, *_: object) -> None:
        chosen = plan.study
        chosen.folder.rename(tmp_path / "away")
        if anew:
            chosen.folder.mkdir()
        raise error

    monkeypatch.setattr(flows.commands.running.run, "run_study", moves)
    root = tmp_path / "run"
    assert main(["run", str(small_study(tmp_path)), "--root", str(root), "--plain"]) == 2
    said = capsys.readouterr().err
    assert f"dreamer: {root} was moved or removed while the study ran; move it back" in said
    assert "a shard" not in said


def test_an_error_in_a_folder_that_stays_is_said_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise InputError("a shard is gone")

    monkeypatch.setattr(flows.commands.running.run, "run_study", fails)
    assert main(["run", str(small_study(tmp_path)), "--root", str(tmp_path / "run"), "--plain"]) == 2
    assert "dreamer: a shard is gone\n" in capsys.readouterr().err
