"""The states of a study's stages, models and seeds, told from what a study has written, and by its lock."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from flows.running import progress
from flows.running.record import recorded
from flows.running.single import LOCK, only_run, runs_elsewhere
from flows.stages import checks
from flows.stages.evaluate import _Stage
from flows.stages.models import describe_run, plan_models
from flows.stages.outputs import Evaluated, Prepared, Run, Trained, read_returned, write_returned
from flows.stages.states import State, _lives, _newest_runs, overall, read_states
from flows.stages.train import lookouts
from flows.stages.usage import stored
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL
from pipeline.storage.store import Store
from tests.flows.small_study import PROJECT, TINY, small_study
from tests.waiting import PATIENCE_SECONDS, until


def states(study: Study) -> dict[str, State]:
    """The states by stage, model and seed; data stages that are complete are left out."""
    return {
        " ".join(str(part) for part in (one.stage, one.model, one.seed) if part not in ("", None)): one
        for one in read_states(study)
        if one.model or one.stage == "report" or one.state != "complete"
    }


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """One model, two seeds, screening; the data are prepared."""
    content = yaml.safe_load(TINY.read_text())
    content["models"]["variants"] = ["LA"]
    study = load_study(content, root=tmp_path)
    store = Store(study.store_folder)
    outputs = [
        store.build(stage, 1, {}, [], lambda folder, values=values: values)
        for stage, values in {
            "tokens": {"counts": []},
            "tokenizer": {"vocabulary_size": 400},
            "items": {},
            "funnel": {},
        }.items()
    ]
    write_returned(study, Prepared(study.study_id, store.root, tuple(output.name for output in outputs)))
    return study


def begin_training(study: Study, seed: int, **values: object) -> Path:
    """Write what the trainer of a run writes."""
    packed = Prepared(study.study_id, study.store_folder, ("tokens/" + Store.key("tokens", 1, {}, []),)).packed
    run = describe_run(study, packed, plan_models(study, 400)[0], seed)
    folder = study.store_folder / "training" / "key.partial" / f"seed{seed}"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(run))
    progress = {"tokens": 12_000, "target": 24_000, "loss": 2.5, "tokens_per_second": 1000.0, "seconds_left": 12.0}
    (folder / "progress.json").write_text(json.dumps({**progress, "note": "", "state": "running", **values}))
    return folder


def test_nothing_is_written_about_a_study_that_has_not_begun(tmp_path: Path) -> None:
    study = load_study(TINY, root=tmp_path / "root")
    found = read_states(study)
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
    assert overall(read_states(study), runs=False) == "stopped"


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
    settings = study.evaluation.model_copy(update={"limit": 7})
    evaluate(study.model_copy(update={"evaluation": settings}))
    assert states(study)["evaluate LA-2 0"].state == "waiting"
    evaluate(study)
    assert states(study)["evaluate LA-2 0"].state == "complete"


def evaluate(study: Study) -> None:
    """Store the evaluation of the first run, which has no rows, as the evaluating stage does."""
    store, prepared = Store(study.store_folder), read_returned(study, Prepared)
    run = lookouts(study, store, prepared.packed, plan_models(study, 400))[0]()
    stage = _Stage(study, store, prepared, None, lambda: None, False, lambda run, rows: None)
    stage._build(run, lambda folder: (folder / "results" / run.run_id).mkdir(parents=True))


def test_an_evaluation_that_the_flow_calls_silent_is_named(study: Study) -> None:
    evaluate(study)
    (folder,) = study.store_folder.glob("evaluation/*")
    folder.rename(folder.with_name(folder.name + PARTIAL))
    key, words = "evaluate LA-2 seed 0: no progress", "silent since 2026-11-22 12:03:11"
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


def test_an_evaluation_is_not_done_where_checkpoints_are_to_come(study: Study) -> None:
    evaluate(study)
    (folder,) = study.store_folder.glob("evaluation/*")
    folder = folder.rename(folder.with_name(folder.name + PARTIAL))
    told = {"done": 20, "total": 20, "checkpoints": 1.0}  # by a process that began when there was one
    (folder / "results" / "progress.json").write_text(json.dumps(told))
    assert states(study)["evaluate LA-2 0"].progress == 1 / len(study.training.points)


def test_a_screened_seed_is_not_evaluated(study: Study) -> None:
    begin_training(study, 0, state="stopped", tokens=6000, target=6000)
    folder = begin_training(study, 1, state="complete", tokens=24_000)
    (folder.parent / "chosen.json").write_text("[1]")
    found = states(study)
    assert found["train LA-2 0"].state == "screened"
    assert found["train LA-2 1"].state == "complete"
    assert [name for name in found if name.startswith("evaluate")] == ["evaluate LA-2 1"]


def test_failures_are_named(study: Study) -> None:
    folder = begin_training(study, 0, state="failed")
    assert states(study)["train LA-2 0"].state == "failed"
    ids = [json.loads((begun / "run.json").read_text())["run_id"] for begun in (folder, begin_training(study, 1))]
    runs = [
        Run(ids[0], "LA-2", 0, "failed", "training/key", folder, "the loss is not a number"),
        Run(ids[1], "LA-2", 1, "complete", "training/key", folder),
    ]
    write_returned(study, Trained(study.study_id, study.store_folder, "packed", tuple(runs)))
    write_returned(study, Evaluated(study.study_id, study.store_folder, {}, {ids[1]: "no memory"}))
    found = states(study)
    assert (found["train LA-2 0"].state, found["train LA-2 0"].detail) == ("failed", "the loss is not a number")
    assert (found["evaluate LA-2 1"].state, found["evaluate LA-2 1"].detail) == ("failed", "no memory")
    assert overall(read_states(study), runs=False) == "failed"


@pytest.mark.slow
def test_a_real_study_runs_is_killed_and_ends(tmp_path: Path) -> None:
    path = small_study(tmp_path, tokens=300_000, save_every_seconds=1)
    study, training = load_study(path, root=tmp_path / "root"), []
    command = [sys.executable, "-m", "flows.commands.cli", "run", str(path), "--root", str(tmp_path / "root")]
    first = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL, start_new_session=True)

    def under_way() -> bool:
        training.append(states(study)["train LA-2 0"])  # one look: another one may come when the run has ended
        return training[-1].progress >= 0.02

    try:
        until(under_way, first)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert training[-1].state == "running"
    assert "tokens/s" in training[-1].rate
    assert states(study)["train LA-2 0"].state == "stopped"
    watched = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL)
    until(lambda: runs_elsewhere(study), watched)
    watch = [*command[:3], "status", *command[4:], "--watch"]
    said = subprocess.run(watch, cwd=PROJECT, capture_output=True, text=True)
    assert watched.wait(PATIENCE_SECONDS) == 0
    assert said.returncode == 0
    assert f"{study.study_id}: complete" in said.stdout


@pytest.fixture
def vanishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run whose files are listed, and are gone when they are looked at."""
    run = tmp_path / "training" / "key.partial" / "seed0"
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
    monkeypatch.setattr(pathlib.Path, "is_file", lambda path: path.suffix == ".json")
    monkeypatch.setattr(pathlib.Path, "stat", gone(pathlib.Path.stat))
    monkeypatch.setattr(os, "stat", gone(os.stat))
    return tmp_path


def test_the_size_of_a_store_is_counted_without_them(vanishing: Path) -> None:
    (output,) = stored(vanishing, [])
    assert (output.stage, output.size) == ("training", 0)


def test_a_check_of_the_disk_goes_on(vanishing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study(TINY).model_copy(update={"store": vanishing})
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
    with pytest.raises(InputError, match="of checkpoints and states"):
        checks._check_disk(study, plan_models(study, 300))


def test_the_states_of_runs_are_those_without_them(vanishing: Path) -> None:
    assert _newest_runs(vanishing) == {}
    assert not _lives(vanishing / "training" / "key.partial" / "seed0" / "progress.json", 0.0)
