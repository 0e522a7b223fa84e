"""A carried study: which processes start where, and what a user sees where the plan is bad or Ctrl-C is pressed."""

import json
import signal

import pytest

import model.carried
from model.carried import main

RUNS = [{"run_id": name, "model_id": "LA-2", "seed": seed} for seed, name in enumerate("ab")]
PLAN = {"study_id": "s", "stop_at": None, "runs": RUNS, "evaluation": {}}


class Processes:
    """Stand for processes: each notes its command, its GPUs and its ranks, and ends when no other is to be started."""

    started: list[tuple[str, str | None, int]]

    def __init__(self, module, *arguments, log, environment, ranks):
        Processes.started.append((log.stem, environment.get("CUDA_VISIBLE_DEVICES"), ranks))
        self.looks = 0

    def poll(self):
        self.looks += 1
        return 0 if self.looks > 1 else None

    def signal(self, number):
        pass


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder with a plan of two runs with checkpoints; processes are stand-ins on a machine with four GPUs."""
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    for run in RUNS:
        for tokens in (5, 10):
            (tmp_path / "runs" / run["run_id"] / "checkpoints" / f"{tokens:015d}").mkdir(parents=True)
    monkeypatch.setattr(Processes, "started", [], raising=False)
    monkeypatch.setattr(model.carried, "ProcessGroup", Processes)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    handler = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, handler)


def test_evaluations_take_all_the_gpus_that_trainings_had(study):
    assert main([str(study), "--processes", "2", "--ranks", "2"]) == 0
    trained, evaluated = Processes.started[:2], Processes.started[2:]
    assert trained == [("a", "0,1", 2), ("b", "2,3", 2)]
    assert evaluated == [(f"evaluate-{number}", str(number), 1) for number in range(4)]


def test_there_are_no_more_evaluations_than_checkpoints(study):
    assert main([str(study), "--processes", "8"]) == 0
    assert [name for name, _, _ in Processes.started[2:]] == [f"evaluate-{number}" for number in range(4)]


def test_ctrl_c_is_one_line_and_status_130(study, monkeypatch, capsys):
    ended = []

    def poll(self):
        if not ended:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(Processes, "poll", poll)
    monkeypatch.setattr(Processes, "signal", lambda self, number: ended.append(number))
    assert main([str(study)]) == 130
    assert capsys.readouterr().err == "model.carried: interrupted; the same command goes on from here\n"
    assert ended[0] == signal.SIGTERM


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stop_at": None, "runs": None}, "runs is None, but it must be a list of objects"),
        ({"stop_at": "5"}, "stop_at is '5', but it must be a whole number"),
        ({"evaluation": []}, r"evaluation is [], but it must be an object"),
        ({"runs": [{"run_id": "a", "seed": 0}]}, "runs: model_id is missing"),
    ],
)
def test_a_bad_plan_is_one_line_that_names_the_field(study, capsys, changes, said):
    path = study / "plan.json"
    path.write_text(json.dumps({**PLAN, **changes}))
    assert main([str(study)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"model.carried: {path}: {said}")
    assert line.endswith("; bundle the study again")


@pytest.mark.parametrize("name", PLAN)
def test_a_plan_without_a_field_is_one_line(study, capsys, name):
    path = study / "plan.json"
    path.write_text(json.dumps({other: value for other, value in PLAN.items() if other != name}))
    assert main([str(study)]) == 2
    assert capsys.readouterr().err == f"model.carried: {path}: {name} is missing; bundle the study again\n"


def test_a_folder_without_a_plan_is_one_line(tmp_path, capsys):
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert main([str(folder)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"model.carried: {folder} is no carried study: it has no plan.json")
