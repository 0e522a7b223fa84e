"""A port of another program and a second `make up` are one line; a damaged database of Prefect ends nothing."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from flows.prefect.serve import only_one
from flows.prefect.server import check_port, healthy, start_anew_if_damaged
from pipeline.errors import InputError

PROJECT = Path(__file__).parents[3]


def test_a_port_of_another_program_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"http://127.0.0.1:{other.getsockname()[1]}/api"
        with pytest.raises(InputError, match="another program has the port"):
            check_port(address)
    check_port(address)
    assert not healthy(address)
    assert not healthy("no address")


def test_a_second_make_up_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"http://127.0.0.1:{other.getsockname()[1]}/api"
    variables = {**os.environ, "PREFECT_API_URL": address, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    with only_one(address):
        command = [sys.executable, "-m", "flows.prefect.serve"]
        second = subprocess.run(command, cwd=PROJECT, env=variables, capture_output=True, text=True)
    assert second.stderr == f"make up: it is running already and serves the deployments at {address}; stop it first\n"
    assert second.returncode == 2


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
