"""The command with everything in it: killed, held up or among hostile files, a study ends in the same tables."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.soak import read_tables
from flows.commands.cli import main
from flows.plan import Plan
from flows.study.loading import load_study
from flows.watching import progress
from model.training.ranks.bound import Child
from sql.results import connect
from tests.faults.processes import DREAMER, start, started_for, trains
from tests.flows.heard import Heard
from tests.flows.hostile import plant
from tests.flows.small_study import PROJECT, TINY, small_study
from tests.model.saved_files import rewrite
from tests.sql.processes import shell
from tests.waiting import PATIENCE_SECONDS, until


def same_tables(one: Path, other: Path) -> None:
    """Check that two studies have the same results."""
    expected, found = read_tables(one), read_tables(other)
    for name, table in expected.items():
        pd.testing.assert_frame_equal(found[name], table)
    assert len(expected["evaluations"])


def run_tiny(root: Path) -> subprocess.Popen[bytes]:
    """Run the tiny study; what is said is appended to `<root>.log`."""
    with root.with_suffix(".log").open("ab") as log:
        command = [DREAMER, "run", str(TINY), "--root", str(root), "--plain"]
        return subprocess.Popen(command, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True)


@pytest.mark.slow
def test_three_kills_change_nothing(tmp_path: Path) -> None:
    started = time.monotonic()
    calm = run_tiny(tmp_path / "calm")
    assert calm.wait(PATIENCE_SECONDS) == 0, (tmp_path / "calm.log").read_text()
    seconds = time.monotonic() - started
    seed = time.time_ns()
    print(f"moments of the kills: seed {seed}")  # which pytest shows where the test fails
    moments = random.Random(seed)
    kills = 0
    while kills < 3:
        process = run_tiny(tmp_path / "killed")
        pause = moments.uniform(0.1, 0.3) * seconds  # short enough for three to fit before the work is done
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children are in sessions of their own: they have to notice
            process.wait()
            print(f"killed after {pause:.1f} s")
            kills += 1
        else:
            assert process.returncode == 0, (tmp_path / "killed.log").read_text()
            break  # the work was done before another kill
    assert kills >= 1
    last = run_tiny(tmp_path / "killed")
    assert last.wait(PATIENCE_SECONDS) == 0, (tmp_path / "killed.log").read_text()
    same_tables(tmp_path / "calm", tmp_path / "killed")
    study = load_study(TINY, root=tmp_path / "killed")
    assert not list(study.store_folder.glob("*/*.partial"))
    again = subprocess.run(
        [DREAMER, "run", str(TINY), "--root", str(tmp_path / "killed"), "--plain"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0
    assert "Nothing to do" in again.stderr


@pytest.mark.slow
def test_every_step_is_done_once_and_reported(tmp_path: Path) -> None:
    with progress.listening(Heard()) as heard:
        assert main(["run", str(small_study(tmp_path)), "--root", str(tmp_path / "run"), "--plain"]) == 0
    each_source = ("documents world", "traces world", "clean world", "signatures world")
    of_all = ("deduplicate", "decontaminate", "tokenizer", "tokens", "funnel")
    done = [key for key, _, words in heard.reports if words == "done"]
    assert done == ["world", "items", *each_source, *of_all, "train LA-2 seed 0"]


@pytest.mark.slow
def test_hostile_files_in_the_folder_and_beside_the_study_do_nothing(tmp_path: Path) -> None:
    calm, here = tmp_path / "calm", tmp_path / "here"
    here.mkdir()
    study, ran = small_study(here), plant(here)
    assert main(["run", str(study), "--root", str(calm), "--plain"]) == 0
    for options in ([], ["--plain"]):
        root = tmp_path / f"run{len(options)}"
        process = start(study, root, tmp_path / "log", *options, cwd=here)
        assert process.wait(PATIENCE_SECONDS) == 0, (tmp_path / "log").read_text()
        assert not ran.exists(), ran.read_text()
        same_tables(calm, root)


@pytest.mark.slow
def test_an_unfinished_study_goes_on_with_changed_code_when_told_to(tmp_path: Path) -> None:
    path, root = small_study(tmp_path, tokens=400_000), tmp_path / "run"
    command = [DREAMER, "run", str(path), "--root", str(root), "--plain"]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL, start_new_session=True)
    until(lambda: trains(root), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not started_for(root))  # the study's child saves a state and ends
    for values in root.glob("store/runs/*/state/*/values.json"):
        saved = json.loads(values.read_text())
        saved["origin"]["code"]["model/dreamer.py"] = "0123456789abcdef"
        rewrite(values, saved)
    refused = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert refused.returncode == 2
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("dreamer: ")]
    for words in ("model/dreamer.py changed", "--accept-code-change", "LA-2-s0-", "was started with code"):
        assert words in line
    assert subprocess.run([*command, "--accept-code-change"], cwd=PROJECT, capture_output=True).returncode == 0
    (recorded,) = root.glob("store/runs/*/code_changes.json")
    (change,) = json.loads(recorded.read_text())
    assert 0 < change["tokens"] < 400_000
    assert change["changed"] == ["model/dreamer.py changed"]


@pytest.mark.slow
def test_a_shell_on_the_results_ends_no_study(tmp_path: Path) -> None:
    path, root = small_study(tmp_path), tmp_path / "run"
    connect(root / "results.duckdb").close()
    plan = Plan(load_study(path, root=root))
    with shell(root / "results.duckdb", "read-only") as reader:
        command = [DREAMER, "run", str(path), "--root", str(root), "--plain"]
        process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
        until(lambda: plan.evaluated, process)
        time.sleep(3)
        assert process.poll() is None  # all is trained and evaluated, and waits
    _, said = process.communicate()
    assert process.returncode == 0, said
    waits = [line for line in said.splitlines() if "in use by another process" in line]
    assert waits
    assert all(f"PID {reader.pid}" in line for line in waits)
    with connect(root / "results.duckdb", read_only=True) as connection:
        for table in ("studies", "curation", "runs", "steps", "evaluations", "items"):
            assert connection.execute(f"from {table} limit 1").fetchall()


@pytest.mark.slow
def test_a_failed_evaluation_ends_the_command_with_1_and_the_report_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ask = small_study(tmp_path, seeds=[0, 1], screening=0), Child.ask
    asked: list[str] = []

    def ask_or_kill(process: Child, request: str, tick: Callable[[], object]) -> str:
        asked.extend([request] if "job.json" in request else [])
        if asked == [request]:  # as the kernel kills a process when memory is short
            process.kill()
        return ask(process, request, tick)

    monkeypatch.setattr(Child, "ask", ask_or_kill)
    assert main(["run", str(path), "--root", str(tmp_path / "runs"), "--plain"]) == 1
    plan = Plan(load_study(path, root=tmp_path / "runs"))
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("dreamer: "))
    (failed,) = [run for run in plan.runs if any(not one.done for one in plan.evaluations(run))]
    assert f"dreamer: evaluate {failed.name} at " in line
    assert f"the report of everything else is {plan.study.report}" in line
    with connect(plan.study.database, read_only=True) as connection:
        (evaluated,) = connection.execute("select distinct run_id from evaluations").fetchone()
    assert evaluated != failed.run_id
    assert evaluated in plan.study.report.read_text()
