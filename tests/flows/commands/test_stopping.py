"""Signals end the command in one line; a damaged database of the private Prefect server ends nothing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.commands.run import start_anew_if_damaged
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


def test_a_damaged_database_of_prefects_server_is_removed_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "prefect.db"
    start_anew_if_damaged(database)
    with sqlite3.connect(database) as connection:
        connection.execute("create table run as select 1 as number")
    start_anew_if_damaged(database)
    assert database.exists()
    assert capsys.readouterr().err == ""
    database.write_bytes(b"SQLite format 3\0" + b"damaged " * 1000)
    (tmp_path / "prefect.db-wal").write_bytes(b"old")
    start_anew_if_damaged(database)
    assert "prefect.db is damaged; no result depends on this file" in capsys.readouterr().err
    assert not list(tmp_path.glob("prefect.db*"))
