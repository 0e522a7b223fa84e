"""The soak finds the processes that it kills, and sees commands that fail by themselves."""

from pathlib import Path
from random import Random

import pytest

from benchmarks.soak import VICTIMS, run_study
from flows.running.machines.evaluators import MODULE
from flows.stages.train import TRAINER


@pytest.mark.parametrize(
    ("kind", "module"),
    [("evaluator", MODULE), ("evaluator", "model.evaluate"), ("trainer", TRAINER), ("trainer", "model.train")],
)
def test_all_training_and_evaluating_processes_are_victims(kind: str, module: str) -> None:
    assert VICTIMS[kind] in f"python -m {module} "


def test_a_command_that_fails_by_itself_is_wrong_though_it_is_given_again(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "root").mkdir()
    program = tmp_path / "fails_once.py"
    program.write_text(
        f"import pathlib, sys\nmark = pathlib.Path({str(tmp_path / 'mark')!r})\n"
        "sys.exit(0) if mark.exists() else mark.touch()\nsys.exit(3)"
    )
    monkeypatch.setitem(VICTIMS, "flow", "fails_once")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    outcome = run_study(tmp_path / "study.yaml", tmp_path / "root", Random(0), 0, 1.0, None)
    assert (outcome.starts, outcome.wrong) == (2, ["start 1 ended with status 3 before any kill"])
