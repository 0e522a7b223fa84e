"""Signals end the command in one line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.flows.small_study import PROJECT
from tests.sql.empty import empty_file
from tests.waiting import PATIENCE_SECONDS, until

ENDLESS = "select count(*) from range(1000000000000) as numbers where (range * range) % 7 = 8"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_duckdb_works_is_one_line(tmp_path: Path, number: signal.Signals) -> None:
    database = empty_file(tmp_path / "results.duckdb")
    command = [sys.executable, "-m", "flows.commands.cli", "sql", str(database), ENDLESS]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    looked_at = psutil.Process(process.pid)
    try:
        until(lambda: str(database) in {file.path for file in looked_at.open_files()}, process)
        opened = looked_at.cpu_times().user
        until(lambda: looked_at.cpu_times().user > opened + 1, process)  # seconds: the query has begun
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert said == "dreamer: stopped; run the same command again to go on from here\n"
    assert process.returncode == 128 + number
