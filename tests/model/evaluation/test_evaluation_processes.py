"""The evaluation process: several on one job, killed ones, and what it says."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.model.evaluation.evaluation_world import (
    evaluated,
    held_out_specifications,
    rows,
    write_job,
    write_place,
)
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow
MANY = 24


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_place(tmp_path_factory.mktemp("place"))


def start(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dreamer_study.model.evaluate", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def write_long_job(place: Path, name: str) -> Path:
    """Write a job of two checkpoints and many benchmarks to be killed between, each of them a
    little work."""
    return write_job(place, name, tasks=held_out_specifications(place, MANY))


@pytest.fixture(scope="module")
def quiet(place: Path) -> list[Path]:
    """What a run writes that nobody kills."""
    return evaluated(write_long_job(place, "undisturbed"))


def test_processes_share_a_job(place: Path) -> None:
    """Every benchmark of every checkpoint is asked by one of them; each waits for what the other
    has in hand."""
    checkpoints = [
        {"run_id": f"run-{i}", "tokens": i, "path": f"checkpoint-{i % 2}"} for i in range(6)
    ]
    path = write_job(place, "shared", checkpoints=checkpoints)
    processes = [start(path), start(path)]
    said = [process.communicate(timeout=PATIENCE_SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    lines = "".join(out for out, _ in said)
    assert set(re.findall(r"^(run-\d) \d: ", lines, re.MULTILINE)) == {f"run-{i}" for i in range(6)}
    assert lines.count("world_choice acc ") == 6
    assert len(list((place / "shared").glob("*/*/*/items.parquet"))) == 6 * 4
    assert not list((place / "shared").rglob("*.lock"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_kill_loses_the_benchmark_in_hand_and_nothing_else(
    place: Path, quiet: list[Path], number: signal.Signals
) -> None:
    """What was done is not asked again, here or by another that waits, and the rows are those of a
    quiet run."""
    path = write_long_job(place, f"killed-{number.value}")
    run = path.with_suffix("") / "run"
    kept: dict[Path, int] = {}
    for count in (2, 30):
        process, waiting = start(path), start(path) if count == 30 else None
        while len(list(run.glob("*/b*[0-9]"))) < count and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_SECONDS)
        there = {folder: folder.stat().st_ino for folder in run.glob("*/b*[0-9]")}
        assert process.returncode == (-9 if number == signal.SIGKILL else 143)
        assert count <= len(there)
        assert kept.items() <= there.items()
        kept = there
        if waiting:
            _, err = waiting.communicate(timeout=PATIENCE_SECONDS)
            assert waiting.returncode == 0, err
        else:
            assert len(there) < MANY
    folders = evaluated(path)
    assert all(folder.stat().st_ino == number for folder, number in kept.items())
    assert [[rows(folder, name) for name in ("evaluations", "items")] for folder in folders] == [
        [rows(folder, name) for name in ("evaluations", "items")] for folder in quiet
    ]
    assert not list(run.rglob("*.partial"))
