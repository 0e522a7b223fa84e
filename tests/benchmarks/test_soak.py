"""The soak finds the processes that it kills, and sees commands that fail by themselves."""

from pathlib import Path
from random import Random
from signal import SIGKILL

import pytest

from benchmarks.soak import VICTIMS, _kill_one, run_study
from flows.jobs.processes import started
from tests.waiting import until


@pytest.mark.parametrize(("kind", "program"), [("evaluator", "model.evaluate"), ("trainer", "model.train")])
def test_processes_that_train_and_evaluate_are_victims(tmp_path: Path, kind: str, program: str) -> None:
    group = started("model.staying", [program, str(tmp_path)], tmp_path / "log.txt", {}, asked=True)
    killed: list[str] = []
    until(lambda: killed.extend(_kill_one(tmp_path, Random(0))) or killed)  # it has its name a moment after its start
    assert killed == [kind]
    assert group.finish() == -SIGKILL


@pytest.mark.slow
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
