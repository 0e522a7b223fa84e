"""A study killed at random moments and started again ends in the same tables as one that was left alone."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from flows.study.loading import load_study

PROJECT = Path(__file__).resolve().parents[2]
TINY = PROJECT / "tests" / "studies" / "tiny.yaml"
DREAMER = Path(sys.executable).with_name("dreamer")
# Everything but what a clock has measured.
TABLES = {
    "curation": "*",
    "models": "*",
    "runs": "* EXCLUDE (seconds, tokens_per_second, mfu)",
    "steps": "* EXCLUDE (seconds)",
    "evaluations": "*",
    "items": "*",
    "token_accuracy": "*",
    "data_efficiency": "*",
    "factor_intervals": "*",
    "fitted_curves": "*",
    "depth_attention": "*",
    "expert_usage": "*",
    "checkpoints": "* EXCLUDE (seconds)",
}


def start(root: Path, log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("ab") as output:
        command = [DREAMER, "run", str(TINY), "--root", str(root)]
        return subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, cwd=PROJECT, start_new_session=True
        )


def tables(root: Path) -> dict[str, pd.DataFrame]:
    with duckdb.connect(str(root / "results.duckdb"), read_only=True) as connection:
        return {
            name: connection.execute(f"SELECT {columns} FROM {name} ORDER BY ALL").df()
            for name, columns in TABLES.items()
        }


@pytest.mark.slow
def test_three_kills_change_nothing(tmp_path: Path) -> None:
    started = time.monotonic()
    calm = start(tmp_path / "calm", tmp_path / "calm.log")
    assert calm.wait(600) == 0, (tmp_path / "calm.log").read_text()
    seconds = time.monotonic() - started
    moments = random.Random(time.time_ns())
    kills = 0
    while kills < 3:
        process = start(tmp_path / "killed", tmp_path / "killed.log")
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
    last = start(tmp_path / "killed", tmp_path / "killed.log")
    assert last.wait(600) == 0, (tmp_path / "killed.log").read_text()
    expected, found = tables(tmp_path / "calm"), tables(tmp_path / "killed")
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
