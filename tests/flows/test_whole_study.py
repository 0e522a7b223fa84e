"""The flows: stages hand values on, each sub-flow runs alone, and a killed study ends in the same tables."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import flows.full_study
from benchmarks.soak import read_tables
from flows.commands.cli import main
from flows.full_study import (
    evaluate_checkpoints_flow,
    prepare_data_flow,
    report_flow,
    show_results,
    table_rows,
    train_models_flow,
)
from flows.running import progress
from flows.stages.outputs import Evaluated, Prepared, Trained, read_finished
from flows.study.loading import load_study
from model.training.ranks.launch import ProcessGroup
from pipeline.errors import InputError
from reports.data import StudyData
from sql.results import connect
from tests.faults.processes import commands, start, started_for, trains
from tests.flows.heard import Heard
from tests.flows.small_study import PROJECT, TINY, small_study
from tests.sql.processes import shell
from tests.waiting import PATIENCE_SECONDS, until

DREAMER = Path(sys.executable).with_name("dreamer")


@pytest.mark.slow
def test_three_kills_change_nothing(tmp_path: Path) -> None:
    started = time.monotonic()
    calm = start(TINY, tmp_path / "calm", tmp_path / "calm.log")
    assert calm.wait(PATIENCE_SECONDS) == 0, (tmp_path / "calm.log").read_text()
    seconds = time.monotonic() - started
    seed = time.time_ns()
    print(f"moments of the kills: seed {seed}")  # which pytest shows where the test fails
    moments = random.Random(seed)
    kills = 0
    while kills < 3:
        process = start(TINY, tmp_path / "killed", tmp_path / "killed.log")
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
    last = start(TINY, tmp_path / "killed", tmp_path / "killed.log")
    assert last.wait(PATIENCE_SECONDS) == 0, (tmp_path / "killed.log").read_text()
    expected, found = read_tables(tmp_path / "calm"), read_tables(tmp_path / "killed")
    for name, table in expected.items():
        assert len(table), name
        pd.testing.assert_frame_equal(found[name], table)
    study = load_study(TINY, root=tmp_path / "killed")
    assert not list(study.store_folder.glob("*/*.partial"))
    again = subprocess.run(
        [DREAMER, "run", str(TINY), "--root", str(tmp_path / "killed")], cwd=PROJECT, capture_output=True, text=True
    )
    assert again.returncode == 0
    assert "Nothing to do" in again.stderr


@pytest.mark.slow
def test_every_stage_is_done_once_and_each_sub_flow_runs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, root = small_study(tmp_path), tmp_path / "run"
    with progress.listening(Heard()) as heard:
        assert main(["run", str(path), "--root", str(root)]) == 0
    each_source = ("documents world", "traces world", "clean world", "signatures world")
    of_all = ("deduplicate", "decontaminate", "tokenizer", "tokens", "funnel")
    assert [key for key, _, words in heard.reports if words == "done"] == [
        "world",  # written while the server starts; the flow finds the world in the store
        *("world", "items", *each_source, *of_all),
        *("train LA-2 seed 0", "evaluate LA-2 seed 0"),
    ]
    # Alone, a sub-flow takes what the ones before it have written, and prepares or trains nothing again.
    study, arguments = load_study(path, root=root), {"study": str(path), "root": str(root)}
    with monkeypatch.context() as patched:
        patched.setattr(flows.full_study, "prepare_data", None)
        trained = train_models_flow.fn(**arguments)
        patched.setattr(flows.full_study, "train_models", None)
        evaluated = evaluate_checkpoints_flow.fn(**arguments)
        patched.setattr(flows.full_study, "evaluate_runs", None)
        report = Path(report_flow.fn(**arguments))
    assert trained == read_finished(study, Trained)
    assert evaluated == read_finished(study, Evaluated)
    assert report == study.report
    assert study.study_id in report.read_text()
    assert prepare_data_flow.fn(**arguments) == read_finished(study, Prepared)


def test_a_sub_flow_without_the_ones_before_it_says_what_is_missing(tmp_path: Path) -> None:
    arguments = {"study": str(TINY), "root": str(tmp_path)}
    for flow in (train_models_flow, evaluate_checkpoints_flow):
        with pytest.raises(InputError, match=r"no data yet; `dreamer run .*tiny\.yaml --root .*` prepares them"):
            flow.fn(**arguments)
    with pytest.raises(InputError, match=r"results\.duckdb: no such results file; run the study first"):
        report_flow.fn(**arguments)


@pytest.mark.slow
def test_an_unfinished_study_goes_on_with_changed_code_when_told_to(tmp_path: Path) -> None:
    path, root = small_study(tmp_path, tokens=400_000), tmp_path / "run"
    command = [DREAMER, "run", str(path), "--root", str(root)]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL, start_new_session=True)
    until(lambda: trains(root), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    until(lambda: not started_for(root))  # the study's child saves a state and ends
    (run,) = root.glob("store/training/*.partial/seed0")
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
    (manifest,) = root.glob("store/training/*/manifest.json")
    recorded = json.loads(manifest.read_text())["results"]["code_changes"]
    ((change,),) = recorded.values()
    assert 0 < change["tokens"] < 400_000
    assert change["changed"] == ["model/dreamer.py changed"]
    assert json.loads((manifest.parent / "seed0" / "code_changes.json").read_text()) == [change]


@pytest.mark.slow
def test_a_shell_on_the_results_ends_no_study(tmp_path: Path) -> None:
    root = tmp_path / "run"
    connect(root / "results.duckdb").close()
    command = [DREAMER, "run", str(small_study(tmp_path)), "--root", str(root)]
    with shell(root / "results.duckdb", "read-only") as reader:
        process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
        until(lambda: list(root.glob("store/evaluation/*/manifest.json")), process)
        time.sleep(3)
        assert process.poll() is None  # all is trained and evaluated, and waits
        assert {mark.name for mark in root.glob(".*-not-ingested")} >= {".prepared-not-ingested"}
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
    command = [DREAMER, "run", str(small_study(tmp_path, tokens=2_000_000)), "--root", str(root)]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    until(lambda: trains(root), process)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + number
    assert said.endswith("\ndreamer: stopped; run the same command again to go on from here\n")
    for word in ("Traceback", "nanobind", "Error"):
        assert word not in said
    (log,) = root.glob("store/training/*.partial/seed0.log")
    assert "Traceback" not in log.read_text()
    assert not [command for command in commands().values() if str(root) in command]


@pytest.mark.slow
def test_a_failed_evaluation_ends_the_command_with_1_and_the_report_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ask = small_study(tmp_path, seeds=[0, 1], screening=0), ProcessGroup.ask
    asked: list[str] = []

    def ask_or_kill(process: ProcessGroup, request: str, tick: Callable[[], object]) -> str:
        asked.extend([request] if "job" in json.loads(request) else [])
        if asked == [request]:  # as the kernel kills a process when memory is short
            process.kill()
        return ask(process, request, tick)

    monkeypatch.setattr(ProcessGroup, "ask", ask_or_kill)
    assert main(["run", str(path), "--root", str(tmp_path / "runs")]) == 1
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("dreamer: "))
    assert "1 failed, the report of the others is " in line
    study = load_study(path, root=tmp_path / "runs")
    (named,) = read_finished(study, Evaluated).failures
    assert f"evaluation of {named}: " in line
    with connect(study.database, read_only=True) as connection:
        (evaluated,) = connection.execute("select distinct run_id from evaluations").fetchone()
    assert evaluated != named
    assert evaluated in study.report.read_text()


FRAMES = [
    {"factor": [1.2, math.inf, -math.inf, math.nan], "seeds": [1, 2, 3, 4]},
    {"factor": [None, "text", True, 3], "bound": ["exact", None, math.inf, math.nan]},
    {"factor": pd.array([1, None], "Int64")},
    {"factor": []},
]


@pytest.mark.parametrize("columns", FRAMES)
def test_every_table_of_a_study_is_strict_json(monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(flows.full_study, "attempt", lambda send, *given: sent.append(given[0]))
    monkeypatch.setattr(flows.full_study, "_show_summary", lambda *_: None)
    frame = pd.DataFrame(columns)
    show_results(load_study(TINY), StudyData({}, {"mean_factors": frame, "efficiency": frame}))
    assert [len(rows) for rows in sent] == [len(frame)] * 2
    for rows in sent:
        assert json.loads(json.dumps(rows, allow_nan=False)) == rows


def test_infinity_is_said_in_words_and_what_is_missing_is_null() -> None:
    frame = pd.DataFrame({"low": [0.5, -math.inf], "high": [math.inf, math.nan], "seeds": [2, 3]})
    assert table_rows(frame) == [
        {"low": 0.5, "high": "unbounded", "seeds": 2},
        {"low": "-unbounded", "high": None, "seeds": 3},
    ]
