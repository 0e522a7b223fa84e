"""Signals end the command in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sql.results import connect

PROJECT = Path(__file__).parents[3]
ENDLESS = "select count(*) from range(1000000000000) as numbers where (range * range) % 7 = 8"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_duckdb_works_is_one_line(tmp_path: Path, number: signal.Signals) -> None:
    connect(tmp_path / "results.duckdb").close()
    command = [sys.executable, "-m", "flows.commands.cli", "sql", str(tmp_path / "results.duckdb"), ENDLESS]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    try:
        while computed(process.pid) < 5:  # seconds: imports are done, and the query is not
            time.sleep(0.1)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert said == "dreamer: stopped; run the same command again to go on from here\n"
    assert process.returncode == 128 + number


def computed(process: int) -> float:
    """CPU seconds of a process so far."""
    user, system = Path(f"/proc/{process}/stat").read_text().split()[13:15]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
