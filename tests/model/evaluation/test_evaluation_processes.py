"""The evaluation process: several on one job, killed ones, and what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from model.evaluate import evaluate
from model.evaluation.job import read_job
from tests.model.evaluation.evaluation_world import ITEMS, plain_specifications, rows, write_job, write_place
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

# The parts here are quick, and would be written only together with later ones.
EVERY_PART_WRITTEN = """
import sys
from model.evaluate import main
from model.evaluation import resume
resume.KEPT_SECONDS = 0
sys.exit(main())
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_place(tmp_path_factory.mktemp("place"))


def start(path: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", EVERY_PART_WRITTEN, str(path), "--verbose"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def many_tasks(place: Path) -> list[dict[str, Any]]:
    """Many parts to be killed between, each of them a little work."""
    return [
        {**plain_specifications(place)[number % 4], "benchmark": f"b{number}", "task": f"b{number}"}
        for number in range(24)
    ]


def test_processes_share_a_job(place: Path) -> None:
    checkpoints = [{"run_id": f"run-{i}", "tokens": i, "path": f"checkpoint-{i % 2}"} for i in range(6)]
    path = write_job(place, "shared", checkpoints=checkpoints, tasks=plain_specifications(place))
    processes = [start(path), start(path)]
    said = [process.communicate(timeout=PATIENCE_SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    lines = [line.split(":")[0] for out, _ in said for line in out.splitlines()]
    assert sorted(lines) == [f"run-{i} {i}" for i in range(6)]  # each by one of them, once
    assert len(list((place / "shared").glob("*/*/rows/items.parquet"))) == 6


def test_what_a_killed_process_had_in_hand_is_finished_by_another(place: Path) -> None:
    checkpoints = [{"run_id": "run", "tokens": i, "path": f"checkpoint-{i}"} for i in range(2)]
    path = write_job(place, "taken-over", checkpoints=checkpoints, tasks=many_tasks(place))
    first, second = start(path), start(path)
    # A checkpoint each; the first to be well into its own is killed with it.
    while sum(len(list(parts.glob("???"))) > 1 for parts in (place / "taken-over" / "run").glob("*.parts")) < 2:
        assert first.poll() is None or second.poll() is None
        time.sleep(0.002)
    first.kill()
    first.communicate(timeout=PATIENCE_SECONDS)
    out, err = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 0, err
    assert len(out.splitlines()) == 2
    assert len(list((place / "taken-over").glob("run/*/rows/items.parquet"))) == 2
    assert not list((place / "taken-over").glob("run/*.parts"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_kill_loses_the_checkpoint_in_hand_and_nothing_else(place: Path, number: signal.Signals) -> None:
    checkpoints = [{"run_id": "run", "tokens": i, "path": f"checkpoint-{i % 2}"} for i in range(40)]
    path = write_job(place, f"killed-{number.value}", checkpoints=checkpoints, tasks=plain_specifications(place))
    process = start(path)
    process.stdout.readline()  # the first checkpoint is done
    time.sleep(0.1)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == (-9 if number == signal.SIGKILL else 143)
    finished = list((place / f"killed-{number.value}").glob("*/*[0-9]"))
    assert 0 < len(finished) < 40
    for folder in finished:
        assert len(rows(folder, "items")) == (7 + 3) * ITEMS
    read = read_job(path)
    job = read.__class__(**{**vars(read), "checkpoints": read.checkpoints[: len(finished) + 1]})
    assert len(evaluate(job)) == len(finished) + 1


def test_a_kill_amid_a_checkpoint_loses_the_benchmark_in_hand(place: Path) -> None:
    """Killed with -9 after some of its parts: these are not asked again, and the rows are those of a quiet run."""
    tasks = many_tasks(place)
    checkpoints = [{"run_id": "run", "tokens": 1, "path": "checkpoint-0"}]
    (quiet,) = evaluate(read_job(write_job(place, "undisturbed", tasks=tasks, checkpoints=checkpoints)))
    path = write_job(place, "interrupted", tasks=tasks, checkpoints=checkpoints)
    parts = place / "interrupted" / "run" / f"{1:015d}.parts"
    folder = parts.with_suffix("")
    kept: dict[str, int] = {}
    for count in (2, 9):
        process = start(path)
        while len(list(parts.glob("???"))) < count and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)
        there = {part.name: part.stat().st_ino for part in parts.glob("???")}
        assert process.returncode == -9
        assert count <= len(there) < len(tasks)
        assert not folder.exists()  # nothing of a checkpoint that is not complete
        assert kept.items() <= there.items()  # what was done before was not done again
        kept = there
    assert evaluate(read_job(path)) == [folder]
    assert not parts.exists()
    for name in ("evaluations", "items"):
        assert rows(folder, name) == rows(quiet, name)


def test_the_command_says_nothing_but_its_lines(place: Path) -> None:
    process = start(write_job(place, "quiet", limit=2))
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines()] == ["run 500", "run 1,000"]


def test_an_evaluator_answers_request_after_request(place: Path) -> None:
    """As `model.evaluate` does; what cannot be evaluated ends the process with words and a status."""
    checkpoints = [{"run_id": "run", "tokens": i, "path": f"checkpoint-{i % 2}"} for i in range(2)]
    asked = {"checkpoints": checkpoints, "tasks": plain_specifications(place)}
    paths = [write_job(place, name, **asked) for name in ("asked", "asked-too")]
    whole = write_job(place, "asked-as-a-whole", **asked)
    evaluate(read_job(whole))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command, pipe = [sys.executable, "-m", "model.evaluator"], subprocess.PIPE
    process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    answers = []
    for path, tokens in ((paths[0], 1), (paths[1], 0), (paths[0], 0), (paths[0], 0)):
        process.stdin.write(json.dumps({"job": str(path), "tokens": tokens}) + "\n")
        process.stdin.flush()
        answers.append(process.stdout.readline().split(":")[0])
    assert answers == ["run 1", "run 0", "run 0", "there already\n"]
    for tokens in range(2):
        asked, at_once = (place / name / "run" / f"{tokens:015d}" for name in ("asked", "asked-as-a-whole"))
        for name in ("evaluations", "items"):
            assert rows(asked, name) == rows(at_once, name)
    out, err = process.communicate(json.dumps({"job": "nowhere.json", "tokens": 1}), timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (2, "")
    assert err == "nowhere.json: there is no such job file\n"
