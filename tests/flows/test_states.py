"""The states of a study's stages, models and seeds, told from what a study has written, and by its lock."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from flows import checks
from flows.following import Followed
from flows.jobs import Event, Failed
from flows.models import plan_models
from flows.plan import Plan
from flows.run import decide
from flows.states import State, _lives, overall, read_states
from flows.study.configuration import Study
from flows.study.loading import load_study
from flows.usage import stored
from flows.watching import progress
from flows.watching.record import recorded
from flows.watching.single import LOCK, only_run, runs_elsewhere
from pipeline.errors import InputError
from tests.flows.by_hand import train, write_checkpoint
from tests.flows.small_study import PROJECT, TINY, small_study
from tests.model.saved_files import write_values
from tests.waiting import PATIENCE_SECONDS, until

Planned = Callable[..., Plan]


def states(study: Study) -> dict[str, State]:
    """The states by stage, model and seed; data stages that are complete are left out."""
    return {
        " ".join(str(part) for part in (one.stage, one.model, one.seed) if part not in ("", None)): one
        for one in read_states(Plan(study))
        if one.model or one.stage == "report" or one.state != "complete"
    }


@pytest.fixture
def study(prepared: Planned) -> Study:
    """One model, two seeds, a race; the data are prepared."""
    race = {"seeds": [0, 1], "screening": 0.25}
    return prepared(models={"variants": ["LA"]}, training=race, evaluation={"introspect": False}).study


def begin_training(study: Study, seed: int, **values: object) -> Path:
    """Write what the trainer of a run writes."""
    folder = next(run.folder for run in Plan(study).runs if run.seed == seed)
    folder.mkdir(parents=True)
    told = {"tokens": 12_000, "target": 24_000, "loss": 2.5, "tokens_per_second": 1000.0, "seconds_left": 12.0}
    (folder / "progress.json").write_text(json.dumps({**told, "note": "", "state": "running", **values}))
    return folder


def choose(study: Study, evaluated: int = 0) -> None:
    """Hold the race, which the first seed wins, train the first seed to its end and evaluate so many checkpoints."""
    plan = Plan(study)
    for run in plan.runs:
        train(run, run.points[0])
    decide(plan, plan.runs)
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
            progress.report("documents world", 1.0, "done")
            progress.report("clean world", 0.5, "2 of 4 shards")
        found = states(study)
        assert "documents" not in found  # complete
        assert (found["clean"].state, found["clean"].progress, found["clean"].detail) == (
            "running",
            0.5,
            "2 of 4 shards",
        )
        assert found["deduplicate"].state == "waiting"
    assert states(study)["clean"].state == "stopped"
    changed = load_study({**yaml.safe_load(TINY.read_text()), "name": "other"}, root=tmp_path)
    assert states(changed)["clean"].state == "waiting"


def test_a_training_runs_while_the_lock_is_held_and_is_stopped_after(study: Study) -> None:
    with only_run(study):
        time.sleep(0.05)
        begin_training(study, 0)
        found = states(study)
        assert found["train LA-2 0"] == State("train", "LA-2", 0, "running", 0.5, "1,000 tokens/s", 12.0, "loss 2.500")
        assert found["train LA-2 1"].state == found["evaluate LA-2 0"].state == "waiting"
    assert states(study)["train LA-2 0"].state == "stopped"
    assert overall(read_states(Plan(study)), runs=False) == "stopped"


def test_a_training_of_an_earlier_start_waits_until_its_turn(study: Study) -> None:
    path = begin_training(study, 0) / "progress.json"
    os.utime(path, (time.time() - 60,) * 2)
    with only_run(study):
        assert states(study)["train LA-2 0"].state == "waiting"


def test_a_training_that_writes_nothing_is_named(study: Study) -> None:
    with only_run(study):
        path = begin_training(study, 0, process=4711, machine="gpu07") / "progress.json"
        hour = 3600
        os.utime(path, (time.time() - hour,) * 2)
        os.utime(study.folder / LOCK, (time.time() - 2 * hour,) * 2)
        found = states(study)["train LA-2 0"]
    assert found.state == "running"
    assert re.fullmatch("loss 2.500, silent since .*, process 4711 on gpu07", found.detail)


def test_an_evaluation_with_other_settings_is_not_that_of_the_study(study: Study) -> None:
    choose(study, evaluated=4)
    assert states(study)["evaluate LA-2 0"].state == "complete"
    settings = study.evaluation.model_copy(update={"limit": 7})
    assert states(study.model_copy(update={"evaluation": settings}))["evaluate LA-2 0"].progress == 0


def test_an_evaluation_is_done_as_far_as_its_checkpoints_are(study: Study) -> None:
    choose(study, evaluated=1)
    found = states(study)["evaluate LA-2 0"]
    assert (found.state, found.progress) == ("stopped", 1 / 4)


def test_an_evaluation_that_the_flow_calls_silent_is_named(study: Study) -> None:
    choose(study, evaluated=1)
    key, words = "evaluate LA-2 seed 0", "1 of 4 checkpoints, silent since 2026-11-22 12:03:11"
    with only_run(study):
        assert states(study)["evaluate LA-2 0"].state == "waiting"
        with recorded(study):
            progress.report(key, 0.0, words)
        found = states(study)["evaluate LA-2 0"]
        assert (found.state, found.detail) == ("running", words)
        with recorded(study):
            progress.report(key, 1.0, "goes on")
        assert states(study)["evaluate LA-2 0"].state == "waiting"
    assert states(study)["evaluate LA-2 0"].state == "stopped"


def test_a_seed_that_lost_the_race_is_not_evaluated(study: Study) -> None:
    choose(study)
    found = states(study)
    assert found["train LA-2 0"].state == "complete"
    assert found["train LA-2 1"].state == "screened"
    assert [name for name in found if name.startswith("evaluate")] == ["evaluate LA-2 0"]


def test_failures_are_named(study: Study) -> None:
    choose(study)
    plan = Plan(study)
    loser = plan.runs[1]
    (loser.folder / "failure.txt").write_text("the loss is not a number")
    shutil.rmtree(loser.folder / "state")
    evaluation = SimpleNamespace(kind="evaluation", name="evaluate LA-2 seed 0 at 6,007 tokens", folder=study.folder)
    with recorded(study):
        Followed(plan).tell(Event(evaluation, "failed", Failed("no memory")))
    found = states(study)
    assert (found["train LA-2 1"].state, found["train LA-2 1"].detail.split(" (see")[0]) == (
        "failed",
        "the loss is not a number",
    )
    assert (found["evaluate LA-2 0"].state, found["evaluate LA-2 0"].detail) == ("failed", "failed: no memory")
    assert overall(read_states(plan), runs=False) == "failed"


@pytest.mark.slow
def test_a_real_study_runs_is_killed_and_ends(tmp_path: Path) -> None:
    path = small_study(tmp_path, tokens=300_000, save_every_seconds=1)
    study, training = load_study(path, root=tmp_path / "root"), []
    root = ["--root", str(tmp_path / "root")]
    command = [sys.executable, "-m", "flows.commands.cli", "run", str(path), *root, "--plain"]
    first = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL, start_new_session=True)

    def under_way() -> bool:
        training.append(states(study)["train LA-2 0"])  # one look: another one may come when the run has ended
        return training[-1].progress >= 0.02 and "tokens/s" in training[-1].rate

    try:
        until(under_way, first)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert training[-1].state == "running"
    assert states(study)["train LA-2 0"].state == "stopped"
    watched = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL)
    until(lambda: runs_elsewhere(study), watched)
    watch = [*command[:3], "status", *command[4:-1], "--watch"]
    said = subprocess.run(watch, cwd=PROJECT, capture_output=True, text=True)
    assert watched.wait(PATIENCE_SECONDS) == 0
    assert said.returncode == 0
    assert f"{study.study_id}: complete" in said.stdout


@pytest.fixture
def vanishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run whose files are listed, and are gone when they are looked at."""
    run = tmp_path / "runs" / "a"
    run.mkdir(parents=True)
    for name in ("run.json", "progress.json"):
        (run / name).write_text('{"run_id": "a"}')

    def gone(look: Callable[..., object]) -> Callable[..., object]:
        def fail(path: object, **options: object) -> object:
            if str(path).endswith(".json"):
                raise FileNotFoundError(2, "No such file or directory", str(path))
            return look(path, **options)

        return fail

    # A moment before.
    monkeypatch.setattr(pathlib.Path, "exists", lambda path: True)
    monkeypatch.setattr(pathlib.Path, "is_file", lambda path: path.suffix in (".json", ".yaml"))
    monkeypatch.setattr(pathlib.Path, "stat", gone(pathlib.Path.stat))
    monkeypatch.setattr(os, "stat", gone(os.stat))
    return tmp_path


def test_the_size_of_a_store_is_counted_without_them(vanishing: Path) -> None:
    (output,) = stored(vanishing, [])
    assert (output.stage, output.size) == ("runs", 0)


def test_a_check_of_the_disk_goes_on(vanishing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study(TINY).model_copy(update={"store": vanishing})
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
    with pytest.raises(InputError, match="of checkpoints and states"):
        checks._check_disk(study, plan_models(study, 300))


def test_a_progress_file_that_is_gone_is_of_no_living_process(vanishing: Path) -> None:
    assert not _lives(vanishing / "runs" / "a" / "progress.json", 0.0)
