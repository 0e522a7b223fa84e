"""The command with everything in it: killed or held up, a study ends in the same tables."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.soak import read_tables
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.results import connect
from tests.faults.processes import start
from tests.flows.by_hand import study_file
from tests.sql.processes import shell
from tests.waiting import PATIENCE_SECONDS, until


def same_tables(one: Path, other: Path) -> None:
    """Check that two studies have the same results."""
    expected, found = read_tables(one), read_tables(other)
    for name, table in expected.items():
        pd.testing.assert_frame_equal(found[name], table)
    assert len(expected["evaluations"])


def run_race(root: Path, *options: str, **more: Any) -> subprocess.Popen[bytes]:
    """Run two models of two seeds each, of which one goes on; what is said is appended to
    `<root>.log`."""
    path = race_file(root.parent, **more)
    return start(path, root, root.with_suffix(".log"), "--plain", *options)


def race_file(folder: Path, **more: Any) -> Path:
    training = {"seeds": [0, 1], "screening": 0.25, "checkpoints": 1}
    evaluation = {"limit": 5, "bootstrap_replicates": 100}
    more |= {
        "models": {"variants": ["LA", "DR+DA"]},
        "training": training,
        "evaluation": evaluation,
    }
    return study_file(folder, **more)


@pytest.mark.slow
def test_three_kills_and_a_shell_on_the_results_change_nothing(tmp_path: Path) -> None:
    root, log = tmp_path / "killed", tmp_path / "killed.log"
    started = time.monotonic()
    # the report computes nothing
    calm = run_race(tmp_path / "calm", "--until", "evaluate")
    assert calm.wait(PATIENCE_SECONDS) == 0, (tmp_path / "calm.log").read_text()
    seconds = time.monotonic() - started
    seed = time.time_ns()
    print(f"moments of the kills: seed {seed}")  # which pytest shows where the test fails
    moments = random.Random(seed)
    kills = 0
    while kills < 3:
        process = run_race(root)
        # short enough for three to fit before the work is done
        pause = moments.uniform(0.1, 0.3) * seconds
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            # its children are in sessions of their own: they have to notice
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            print(f"killed after {pause:.1f} s")
            kills += 1
        else:
            assert process.returncode == 0, log.read_text()
            break  # the work was done before another kill
    assert kills >= 1

    # A user's shell holds the results file up to the end of the study, which waits for it then.
    connect(root / "results.duckdb").close()
    missed = [{"variant": "DR+DA", "ratio_above": 1000}]
    with shell(root / "results.duckdb", "read-only") as reader:
        process = run_race(root, expect=missed)
        until(lambda: "  results file  " in log.read_text(), process, log)
        assert Plan(load_study(race_file(tmp_path, expect=missed), root=root)).evaluated
    assert process.wait(PATIENCE_SECONDS) == 1, (
        "an effect that is missed is the status, and changes no result"
    )
    assert "above 1000" in log.read_text()
    waits = [line for line in log.read_text().splitlines() if "in use by another process" in line]
    assert "free again" in log.read_text()
    assert all(f"PID {reader.pid}" in line for line in waits)
    with connect(root / "results.duckdb", read_only=True) as connection:
        for table in ("studies", "curation", "runs", "steps", "evaluations", "items"):
            assert connection.execute(f"from {table} limit 1").fetchall()
    same_tables(tmp_path / "calm", root)

    # The next start has nothing to do.
    assert run_race(root).wait(PATIENCE_SECONDS) == 0, log.read_text()
    assert "Nothing to do" in log.read_text()
    same_tables(tmp_path / "calm", root)
    assert not list(tmp_path.glob("killed/store/*/*.partial"))
