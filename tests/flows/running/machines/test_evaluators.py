"""Evaluating processes stay for the next checkpoint, and one that fails takes nothing with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import flows.running.machines.evaluators
from flows.running.machines import staying
from flows.running.machines.devices import Slots
from flows.running.machines.evaluators import Evaluators
from flows.running.processes import Failed, Stopped, stopped_on_exit
from flows.study.loading import load_study
from model.training.ranks.launch import ProcessGroup
from pipeline.errors import InputError
from tests.waiting import until

FAKE = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["tokens"] == 13:
        sys.exit(print("the loss is not a number", file=sys.stderr) or 1)
    if request["tokens"] == 22:
        sys.exit(print("no such task", file=sys.stderr) or 2)
    while request["tokens"] == 99:
        pass
    print(os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES", "cpu"), request["job"], request["tokens"], flush=True)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "fake_evaluator.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(flows.running.machines.evaluators, "MODULE", "fake_evaluator")
    with stopped_on_exit():
        yield


def made(tmp_path: Path, count: int = 1) -> AbstractContextManager[Evaluators]:
    builtin = {"data": {"sources": ["builtin"]}, "evaluation": {"benchmarks": ["builtin"]}}
    recipe = {"tokens": 10**6, "batch_tokens": 2**14, "sequence_length": 1024, "device": "cpu"}
    study = load_study({"name": "small", **builtin, "training": recipe, "workers": count})
    return closing(Evaluators(Slots(study), count, tmp_path / "logs", {}))


@pytest.mark.usefixtures("fake")
def test_one_process_evaluates_checkpoints_of_several_jobs_in_order(tmp_path: Path) -> None:
    with made(tmp_path) as processes:
        first = processes.evaluate(Path("a.json"), 1).result(300).split()
        rest = [processes.evaluate(Path(job), tokens) for job, tokens in (("a.json", 2), ("b.json", 1))]
        answers = [future.result(300).split() for future in rest]
    assert first[1:] == ["cpu", "a.json", "1"]
    assert answers == [[first[0], "cpu", "a.json", "2"], [first[0], "cpu", "b.json", "1"]]
    assert not Path(f"/proc/{first[0]}").exists()


@pytest.mark.usefixtures("fake")
def test_a_request_runs_while_a_process_evaluates_and_not_while_it_waits(tmp_path: Path) -> None:
    with made(tmp_path) as processes:
        endless, waits = (processes.evaluate(Path("a.json"), tokens) for tokens in (99, 1))
        until(endless.running)
        assert not waits.running()


@pytest.mark.usefixtures("fake")
def test_a_failure_is_told_and_the_next_checkpoint_gets_a_new_process(tmp_path: Path) -> None:
    with made(tmp_path) as processes:
        before = processes.evaluate(Path("a.json"), 1).result(300).split()
        with pytest.raises(Failed, match=r"evaluator-1\.log: the loss is not a number"):
            processes.evaluate(Path("a.json"), 13).result(300)
        with pytest.raises(InputError, match="no such task"):
            processes.evaluate(Path("a.json"), 22).result(300)
        after = processes.evaluate(Path("a.json"), 2).result(300).split()
    assert before[0] != after[0]


@pytest.mark.usefixtures("fake")
def test_with_gpus_a_process_ends_when_nothing_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    slots = SimpleNamespace(take=lambda urgency: _Taken({"CUDA_VISIBLE_DEVICES": "3"}))
    with closing(Evaluators(slots, 1, tmp_path / "logs", {})) as processes:
        first = processes.evaluate(Path("a.json"), 1).result(300).split()
        until(lambda: not Path(f"/proc/{first[0]}").exists())
        second = processes.evaluate(Path("a.json"), 2).result(300).split()
    assert (first[1], second[1]) == ("3", "3")
    assert first[0] != second[0]


@pytest.mark.usefixtures("fake")
def test_a_process_that_starts_while_the_evaluation_ends_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an idle process would stay for as long as the study's trainings."""
    started, start = [], staying.child_process

    @contextmanager
    def start_and_close(*arguments: object, **options: object) -> Iterator[ProcessGroup]:
        with start(*arguments, **options) as process:
            processes.close()
            started.append(process)
            yield process

    monkeypatch.setattr(staying, "child_process", start_and_close)
    with made(tmp_path) as processes:
        with pytest.raises(Stopped):
            processes.evaluate(Path("a.json"), 1).result(300)
        assert started[0].poll() is not None
        with pytest.raises(Stopped):
            processes.wait(0)


class _Taken(dict):
    """Slots that are free, with these variables."""

    def __enter__(self) -> dict[str, str]:
        return self

    def __exit__(self, *_: object) -> None: ...
