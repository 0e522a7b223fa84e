"""Measuring on this machine: what is slow is waited for, and what does not come is said."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows.commands.planning import calibrate
from flows.running.private import private_folder
from flows.running.processes import Failed, stopped_on_exit
from flows.stages.models import plan_models
from flows.study.loading import load_study
from model.training.ranks import launch
from pipeline.storage.store import Output

TINY = Path(__file__).resolve().parents[3] / "studies" / "tiny.yaml"
TRAINER = """
import os, pathlib, sys, time
print(os.environ["TORCHINDUCTOR_CACHE_DIR"], flush=True)
run = pathlib.Path(sys.argv[1])
(run / "steps.csv").write_text("step,tokens,loss,seconds\\n1,100,1,1.0\\n2,200,1,1.5\\n3,300,1,2.0\\n")
time.sleep(1)  # a state is written before the first checkpoint
(run / "checkpoints" / "000000000000000").mkdir(parents=True)
time.sleep(600)
"""


def test_a_measured_training_has_its_checkpoint_before_it_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER)
    command = [sys.executable, str(tmp_path / "trainer.py")]
    monkeypatch.setattr(launch, "bound_command", lambda module, *arguments: [*command, *arguments])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    study, folder = load_study(TINY), tmp_path / "run"
    model = plan_models(study, 300)[0]
    with stopped_on_exit():
        pace = calibrate._train(study, Output("tokens", "random", tmp_path, {}), model, folder, {}, 0.5)
    assert pace == 200.0
    assert list(folder.glob("checkpoints/*"))
    assert (folder / "train.log").read_text().strip() == str(private_folder("compiled"))


def test_what_takes_too_long_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    group = SimpleNamespace(poll=lambda: None, last_line=lambda: "loading")
    with stopped_on_exit(), pytest.raises(Failed, match="has not come further in 0 s: loading"):
        calibrate._wait(group, lambda: False, 0.0)


def test_a_poll_that_comes_late_ends_no_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with much other work may look seconds after it should."""
    (tmp_path / "run" / "checkpoints" / "000000000000000").mkdir(parents=True)
    now = [0.0]

    def late(_: launch.ProcessGroup) -> None:
        now[0] += 3

    monkeypatch.setattr(calibrate, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(calibrate, "wait_unless_stopping", lambda seconds: None)
    monkeypatch.setattr(launch.ProcessGroup, "poll", late)
    monkeypatch.setattr(launch, "bound_command", lambda *_: [sys.executable, "-c", "import time; time.sleep(600)"])
    values = iter([{}, {"done": 1}])
    monkeypatch.setattr(
        calibrate, "read_progress", lambda path: next(values, {"done": 5, "total": 10, "items_per_second": 2.0})
    )
    study = load_study(TINY)
    prepared = SimpleNamespace(tokenizer=SimpleNamespace(path=tmp_path), tasks=())
    model = plan_models(study, 300)[0]
    with stopped_on_exit():
        assert calibrate._evaluate(study, prepared, model, tmp_path / "run", {}, 1.0) == 5.0
