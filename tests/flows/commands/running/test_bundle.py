"""A study carried to a bare machine and back has the results of one that was run in one place."""

import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from flows.commands.cli import main
from flows.commands.parser import parser
from flows.commands.running import bundle
from flows.commands.running.bundle import collect_bundle, write_bundle
from flows.stages.outputs import Prepared, write_returned
from flows.stages.prepare import prepare_data
from flows.stages.states import study_runs
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.store import Store
from tests.flows.stages.training_by_hand import Training, tiny
from tests.waiting import PATIENCE_SECONDS, until

PROJECT = Path(__file__).resolve().parents[4]
TINY = PROJECT / "tests" / "studies" / "tiny.yaml"


def rows(root: Path, table: str) -> pd.DataFrame:
    with duckdb.connect(str(root / "results.duckdb"), read_only=True) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY ALL").df()


def losses(root: Path) -> pd.DataFrame:
    query = "SELECT * FROM items WHERE task = 'validation' OR metric = 'gold_bits_per_byte' ORDER BY ALL"
    with duckdb.connect(str(root / "results.duckdb"), read_only=True) as connection:
        return connection.execute(query).df()


@pytest.mark.slow
def test_bundled_and_collected_equals_run_here(tmp_path: Path) -> None:
    study, folder = load_study(TINY, root=tmp_path / "carried"), tmp_path / "box"
    assert write_bundle(study, folder)["evaluation"]["weights"] == "both"
    with pytest.raises(InputError, match="has not ended"):
        collect_bundle(study, folder)
    # Of the packages, the machine there has what model/ may import.
    hidden = tmp_path / "hidden"
    for package in ("lm_eval", "prefect", "duckdb", "pydantic", "datasets"):
        (hidden / package).mkdir(parents=True)
        (hidden / package / "__init__.py").write_text(f"raise ImportError('{package} is not on this machine')\n")
    environment = {**os.environ, "PYTHONPATH": f"{hidden}:{PROJECT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "model.carried", str(folder), "--processes", "2"]
    stopped = subprocess.Popen(command, env=environment, cwd=tmp_path)
    until(lambda: list(folder.glob("runs/*/progress.json")), stopped)
    stopped.terminate()
    # It ends with all that it has started: else these runs were still taken.
    assert stopped.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    for _ in range(2):  # the second time there is nothing left to do
        ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    collect_bundle(study, folder)
    assert main(["run", str(TINY), "--root", str(tmp_path / "here")]) == 0
    for table in ("data_efficiency", "evaluations", "raw_evaluations"):
        here = rows(tmp_path / "here", table)
        assert len(here)
        pd.testing.assert_frame_equal(rows(tmp_path / "carried", table), here)
    assert {"validation", "world_choice"} < set(losses(tmp_path / "here")["task"])
    pd.testing.assert_frame_equal(losses(tmp_path / "carried"), losses(tmp_path / "here"))


def test_a_folder_that_is_no_carried_study(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-m", "model.carried", str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 2
    assert "no carried study" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """What a carried study of one model, run to its end, has in its folder, as far as names go."""
    folder = tmp_path / "box"
    plan = {"study_id": load_study(TINY).study_id, "runs": [{"run_id": "a", "model_id": "LA-2", "seed": 0}]}
    job = {"checkpoints": [{"run_id": "a", "tokens": 5}, {"run_id": "a", "tokens": 9}]}
    for name, values in (("plan", plan), ("chosen", ["a"]), ("job", job)):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(values))
    rows = [folder / "results" / "a" / f"{tokens:015d}" / "rows" / "evaluations.parquet" for tokens in (5, 9)]
    for file in (folder / "runs" / "a" / "rows" / "runs.parquet", *rows):
        file.parent.mkdir(parents=True)
        file.touch()
    return folder


@pytest.mark.parametrize("lost", ["runs/a", "results/a/000000000000009", "results"])
def test_what_has_not_come_back_is_named(box: Path, tmp_path: Path, lost: str) -> None:
    shutil.rmtree(box / lost)
    with pytest.raises(InputError, match=rf"box/{lost}.*parquet is missing, \d in all: copy the folder again"):
        collect_bundle(load_study(TINY, root=tmp_path / "run"), box)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("chosen", '["b"]', "do not fit each other"),
        ("chosen", "[]", "do not fit each other"),
        ("job", "{}", "do not fit each other"),
        ("job", "[]", "job.json is damaged; copy it again"),
        ("plan", "{", "plan.json is damaged"),
        ("plan", "{}", "holds None, not tiny-"),
    ],
)
def test_damaged_files_of_a_carried_study(box: Path, tmp_path: Path, name: str, content: str, said: str) -> None:
    (box / f"{name}.json").write_text(content)
    with pytest.raises(InputError, match=said):
        collect_bundle(load_study(TINY, root=tmp_path / "run"), box)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The data of the study, in the folder `run`."""
    study = load_study(TINY, root=tmp_path_factory.mktemp("here") / "run")
    return prepare_data(study, Store(study.store_folder))


def test_a_folder_of_another_study_is_left_alone(box: Path, prepared: Prepared) -> None:
    study = load_study(TINY, root=prepared.store.parent)
    write_returned(study, dataclasses.replace(prepared, study_id="other-12345678"))
    with pytest.raises(InputError, match=r"run is the folder of other-12345678; name another .*--root"):
        collect_bundle(study, box)
    write_returned(study, prepared)


def test_models_that_were_trained_in_a_folder_keep_their_results(
    box: Path, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ingest_study", "ingest_rows", "compute_intervals"):
        monkeypatch.setattr(bundle, name, lambda *_: None)
    study = load_study(TINY, root=prepared.store.parent)
    run = next(study_runs(study, prepared))
    folder = study.store_folder / f"{run.output}.partial" / "seed0"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"run_id": run.run_id}))
    collect_bundle(study, box)  # a training that has failed at its start leaves no results
    (folder / "checkpoints" / "000000000001000").mkdir(parents=True)
    with pytest.raises(InputError, match=r"run holds models of tiny-.*; name another .*--root"):
        collect_bundle(study, box)


def test_the_command_that_comes_next_names_the_folder_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bundle, "write_bundle", lambda study, folder: {"runs": [], "study_id": study.study_id})
    assert main(["bundle", str(TINY), str(tmp_path / "box"), "--root", str(tmp_path / "a run")]) == 0
    command = capsys.readouterr().out.splitlines()[-1].partition("dreamer ")[2]
    options = parser().parse_args(shlex.split(command))
    assert (options.study, options.root, options.folder) == (str(TINY), tmp_path / "a run", tmp_path / "box")


@pytest.fixture
def same_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    """A study with two benchmarks whose files of plain items have one name."""
    training, tasks = Training(tiny(tmp_path / "run")), []
    for name in ("first", "second"):
        items = tmp_path / name / "items.jsonl"
        items.parent.mkdir()
        items.write_text(json.dumps({"prompt": name}))
        tasks.append({"benchmark": name, "task": name, "plain": str(items), "yaml": None, "dataset_path": None})
    training.prepared = dataclasses.replace(training.prepared, tasks=tuple(tasks))
    monkeypatch.setattr(bundle, "prepare_data", lambda study, store: training.prepared)
    return training


def test_items_of_two_benchmarks_in_files_of_one_name_are_both_carried(same_names: Training, tmp_path: Path) -> None:
    tasks = write_bundle(same_names.study, tmp_path / "box")["evaluation"]["tasks"]
    read = [json.loads((tmp_path / "box" / task["plain"]).read_text())["prompt"] for task in tasks]
    assert read == [task["task"] for task in tasks] == ["first", "second"]


def test_two_tasks_of_one_name_with_other_items_are_refused(same_names: Training, tmp_path: Path) -> None:
    for task in same_names.prepared.tasks:
        task["task"] = "one"
    with pytest.raises(InputError, match=r"benchmarks 'first' and 'second' both have a task 'one'"):
        write_bundle(same_names.study, tmp_path / "box")
