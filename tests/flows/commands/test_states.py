"""The states of a study's stages, models and seeds, told from what a study has written, and by its
lock."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.states import State, overall, read_states
from dreamer_study.flows.jobs import Event, Failed
from dreamer_study.flows.plan.decisions import decide_race
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.status_file import recorded
from dreamer_study.flows.progress.study_lock import only_run, runs_elsewhere
from dreamer_study.flows.running.job_progress import Followed
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from tests.faults.processes import start
from tests.flows.by_hand import Planned, train, write_checkpoint
from tests.flows.prepared import with_data
from tests.flows.small_study import TINY, small_study
from tests.model.saved_files import write_values
from tests.waiting import PATIENCE_SECONDS, until


def states(study: Study) -> dict[str, State]:
    """The states by stage, model and seed; data stages that are complete are left out."""
    return {
        " ".join(
            str(part) for part in (one.stage, one.model, one.seed) if part not in ("", None)
        ): one
        for one in read_states(Plan(study))
        if one.model or one.stage == "report" or one.state != "complete"
    }


@pytest.fixture
def study(prepared: Planned) -> Study:
    """One model, two seeds, a race; the data are prepared."""
    race = {"seeds": [0, 1], "screening": 0.25}
    return prepared(
        models={"variants": ["LA"]}, training=race, evaluation={"introspect": False}
    ).study


def begin_training(study: Study, seed: int) -> None:
    """Write what the trainer of a run writes."""
    folder = next(run.folder for run in Plan(study).runs if run.seed == seed)
    folder.mkdir(parents=True)
    told = {
        "tokens": 12_000,
        "target": 24_000,
        "loss": 2.5,
        "tokens_per_second": 1000.0,
        "seconds_left": 12.0,
    }
    (folder / "progress.json").write_text(json.dumps(told))


def choose(study: Study, evaluated: int = 0) -> None:
    """Hold the race, which the first seed wins, train the first seed to its end and evaluate so
    many checkpoints."""
    plan = Plan(study)
    for run in plan.runs:
        train(run, run.points[0])
    decide_race(plan, plan.runs)
    chosen = plan.runs[0]
    for point in chosen.points[1:]:
        write_checkpoint(chosen.folder, point + 7)
    write_values(chosen.folder, [(1, chosen.goal + 7, 1.0)])
    for checkpoint in chosen.checkpoints[:evaluated]:
        for one in plan.evaluations_of(chosen, checkpoint):
            one.folder.mkdir(parents=True)


def test_nothing_is_written_about_a_study_that_has_not_begun(tmp_path: Path) -> None:
    study = load_study(TINY, root=tmp_path / "root")
    found = read_states(Plan(study))
    assert {one.state for one in found} == {"waiting"}
    assert overall(found, runs=False) == "not started"
    assert not study.folder.exists()


def test_data_stages_by_what_they_reported(tmp_path: Path) -> None:
    study = load_study(TINY, root=tmp_path)
    with only_run(study):
        with recorded(study):
            reports.report("documents world", 1.0, "done")
            reports.report("clean world", 0.5, "2 of 4 shards")
        found = states(study)
        assert "documents" not in found  # complete
        clean = found["clean"]
        assert (clean.state, clean.progress, clean.detail) == ("running", 0.5, "2 of 4 shards")
        assert found["deduplicate"].state == "waiting"
    assert states(study)["clean"].state == "stopped"
    assert states(study.model_copy(update={"name": "other"}))["clean"].state == "waiting"


@pytest.mark.slow
def test_a_training_runs_while_the_lock_is_held_and_is_stopped_after(study: Study) -> None:
    begin_training(study, 0)
    words = "loss 2.500, stalled since 2026-11-22 12:03:11, process 4711 on gpu07"
    with recorded(study):
        reports.report("screen LA seed 0", 0.5, words)
    time.sleep(0.05)
    with only_run(study):
        assert states(study)["train LA 0"].state == "waiting", (
            "what was reported is of an earlier start"
        )
        with recorded(study):
            reports.report("screen LA seed 0", 0.5, words)
        found = states(study)
        assert found["train LA 0"] == State("train", "LA", 0, "running", 0.5, 12.0, words)
        assert found["train LA 1"].state == found["evaluate LA 0"].state == "waiting"
    assert states(study)["train LA 0"].state == "stopped"
    assert overall(read_states(Plan(study)), runs=False) == "stopped"


@pytest.mark.slow
def test_the_time_left_of_a_training_has_its_own_column(study: Study) -> None:
    begin_training(study, 0)
    words = "loss 2.500, 1,000 tokens/s, 12,000 tokens, 12 s left"
    with only_run(study), recorded(study):
        reports.report("screen LA seed 0", 0.5, words)
        training = states(study)["train LA 0"]
    assert training.left == 12.0
    assert training.detail == "loss 2.500, 1,000 tokens/s, 12,000 tokens"


@pytest.mark.slow
def test_the_report_runs_from_the_ratios_on(study: Study) -> None:
    with only_run(study), recorded(study):
        reports.report("evaluate LA seed 0", 0.5, "2 of 4")
        reports.report("statistics", 0.0, "ratios")
        # what begins is written at once
        assert states(study)["report"] == State("report", state="running", detail="ratios")
        reports.report("statistics", 1.0, "done")
        assert states(study)["report"].state == "waiting"
        reports.report("write report", 0.0, "figures")
        assert states(study)["report"] == State("report", state="running", detail="figures")
    assert states(study)["report"].state == "stopped"


@pytest.mark.slow
@pytest.mark.parametrize(("evaluated", "state"), [(0, "waiting"), (1, "stopped"), (4, "complete")])
def test_the_seed_that_won_the_race_is_evaluated_as_far_as_its_checkpoints_are(
    study: Study, evaluated: int, state: str
) -> None:
    choose(study, evaluated)
    found = states(study)
    assert [found[f"train LA {seed}"].state for seed in (0, 1)] == ["complete", "screened"]
    assert [name for name in found if name.startswith("evaluate")] == ["evaluate LA 0"]
    assert found["evaluate LA 0"].progress == evaluated / 4
    assert found["evaluate LA 0"].state == state


@pytest.mark.slow
def test_an_evaluation_that_the_flow_calls_silent_is_named(study: Study) -> None:
    choose(study, evaluated=1)
    key, words = "evaluate LA seed 0", "1 of 4 checkpoints, stalled since 2026-11-22 12:03:11"
    with only_run(study):
        assert states(study)["evaluate LA 0"].state == "waiting"
        with recorded(study):
            reports.report(key, 0.0, words)
        found = states(study)["evaluate LA 0"]
        assert (found.state, found.detail) == ("running", words)
        with recorded(study):
            reports.report(key, 1.0, "goes on")
        assert states(study)["evaluate LA 0"].state == "waiting"
    assert states(study)["evaluate LA 0"].state == "stopped"


@pytest.mark.slow
def test_failures_are_named(study: Study) -> None:
    choose(study)
    plan = Plan(study)
    loser = plan.runs[1]
    (loser.folder / "failure.txt").write_text("the loss is not a number")
    shutil.rmtree(loser.folder / "state")
    evaluation = SimpleNamespace(
        kind="evaluation", name="evaluate LA seed 0 at 6,007 tokens", goal=4, folder=study.folder
    )
    with recorded(study):
        Followed(plan).tell(Event(evaluation, "failed", Failed("no memory")))
    found = states(study)
    training, evaluation = found["train LA 1"], found["evaluate LA 0"]
    assert (training.state, training.detail.split(" (see")[0]) == (
        "failed",
        "the loss is not a number",
    )
    assert (evaluation.state, evaluation.detail) == ("failed", "failed: no memory")
    assert overall(read_states(plan), runs=False) == "failed"


@pytest.mark.slow
def test_a_real_study_runs_is_killed_and_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small_study(tmp_path, tokens=100_000, save_every_seconds=1)
    study, training = load_study(path, root=with_data(tmp_path / "root")), []
    first = start(path, tmp_path / "root", tmp_path / "log", "--plain")

    def under_way() -> bool:
        # one look: another one may come when the run has ended
        training.append(states(study)["train LA 0"])
        return training[-1].progress >= 0.02 and "tokens/s" in training[-1].detail

    try:
        until(under_way, first)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert training[-1].state == "running"
    assert states(study)["train LA 0"].state == "stopped"
    watched = start(path, tmp_path / "root", tmp_path / "log", "--plain")
    until(lambda: runs_elsewhere(study), watched)
    assert main(["status", str(path), "--root", str(tmp_path / "root"), "--watch"]) == 0
    assert watched.wait(PATIENCE_SECONDS) == 0
    title, *_, end = capsys.readouterr().out.split("\n")
    assert (title, end) == (f"{study.study_id}: complete", "")
