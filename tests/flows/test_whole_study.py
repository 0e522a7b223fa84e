"""Whole studies by the command: kills change nothing, signals and failures are one line."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.soak import read_tables
from flows.commands.cli import main
from flows.plan import Plan
from flows.study.loading import load_study
from model.training.ranks.launch import ProcessGroup
from sql.results import connect
from tests.faults.processes import commands, started_for, trains
from tests.flows.small_study import PROJECT, TINY, small_study
from tests.sql.processes import shell
from tests.waiting import PATIENCE_SECONDS, until

DREAMER = Path(sys.executable).with_name("dreamer")


def start(root: Path) -> subprocess.Popen[bytes]:
    """Run the tiny study; what is said is appended to `<root>.log`."""
    with root.with_suffix(".log").open("ab") as log:
        command = [DREAMER, "run", str(TINY), "--root", str(root), "--plain"]
        return subprocess.Popen(command, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True)


@pytest.mark.slow
def test_three_kills_change_nothing(tmp_path: Path) -> None:
    started = time.monotonic()
    calm = start(tmp_path / "calm")
    assert calm.wait(PATIENCE_SECONDS) == 0, (tmp_path / "calm.log").read_text()
    seconds = time.monotonic() - started
    seed = time.time_ns()
    print(f"moments of the kills: seed {seed}")  # which pytest shows where the test fails
    moments = random.Random(seed)
    kills = 0
    while kills < 3:
        process = start(tmp_path / "killed")
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
    last = start(tmp_path / "killed")
    assert last.wait(PATIENCE_SECONDS) == 0, (tmp_path / "killed.log").read_text()
    expected, found = read_tables(tmp_path / "calm"), read_tables(tmp_path / "killed")
    for name, table in expected.items():
        assert len(table), name
        pd.testing.assert_frame_equal(found[name], table)
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
def test_an_unfinished_study_goes_on_with_changed_code_when_told_to(tmp_path: Path) -> None:
    path, root = small_study(tmp_path, tokens=400_000), tmp_path / "run"
    command = [DREAMER, "run", str(path), "--root", str(root), "--plain"]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL, start_new_session=True)
    until(lambda: trains(root), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not started_for(root))  # the study's child saves a state and ends
    (run,) = root.glob("store/runs/*")
    for values in run.glob("state/*/values.json"):
        saved = json.loads(values.read_text())
        saved["origin"]["code"]["model/dreamer.py"] = "0123456789abcdef"
        values.write_text(json.dumps(saved))
    refused = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert refused.returncode == 2
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("dreamer: ")]
    for words in ("model/dreamer.py changed", "--accept-code-change", "LA-2-s0-", "was started with code"):
        assert words in line
    assert subprocess.run([*command, "--accept-code-change"], cwd=PROJECT, capture_output=True).returncode == 0
    (change,) = json.loads((run / "code_changes.json").read_text())
    assert 0 < change["tokens"] < 400_000
    assert change["changed"] == ["model/dreamer.py changed"]


@pytest.mark.slow
def test_a_shell_on_the_results_ends_no_study(tmp_path: Path) -> None:
    root = tmp_path / "run"
    connect(root / "results.duckdb").close()
    command = [DREAMER, "run", str(small_study(tmp_path)), "--root", str(root), "--plain"]
    with shell(root / "results.duckdb", "read-only") as reader:
        process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
        until(lambda: len(list(root.glob("store/evaluations/*/manifest.json"))) >= 4, process)
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
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_models_train_is_one_line(tmp_path: Path, number: signal.Signals) -> None:
    root = tmp_path / "run"
    command = [DREAMER, "run", str(small_study(tmp_path, tokens=2_000_000)), "--root", str(root), "--plain"]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    until(lambda: trains(root), process)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + number
    assert said.endswith("\ndreamer: stopped; run the same command again to go on from here\n")
    for word in ("Traceback", "nanobind", "Error"):
        assert word not in said
    (log,) = root.glob("store/runs/*/log.txt")
    assert "Traceback" not in log.read_text()
    assert not [command for command in commands().values() if str(root) in command]


@pytest.mark.slow
def test_a_killed_evaluation_ends_the_command_with_1_and_the_report_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ask = small_study(tmp_path, seeds=[0, 1], screening=0), ProcessGroup.ask
    asked: list[str] = []

    def ask_or_kill(process: ProcessGroup, request: str, tick: Callable[[], object]) -> str:
        asked.extend([request] if "job.json" in request else [])
        if asked == [request]:  # as the kernel kills a process when memory is short
            process.kill()
        return ask(process, request, tick)

    monkeypatch.setattr(ProcessGroup, "ask", ask_or_kill)
    assert main(["run", str(path), "--root", str(tmp_path / "runs"), "--plain"]) == 1
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("dreamer: "))
    assert "; the report of everything else is " in line
    plan = Plan(load_study(path, root=tmp_path / "runs"))
    (named,) = (run for run in plan.runs if not all(one.done for one in plan.evaluations(run)))
    assert f"evaluate {named.name} at " in line
    with connect(plan.study.database, read_only=True) as connection:
        (evaluated,) = connection.execute("select distinct run_id from evaluations").fetchone()
    assert evaluated != named.run_id
    assert evaluated in plan.study.report.read_text()
