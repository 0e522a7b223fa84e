"""A port of another program and a second `make up` are one line; a damaged database of Prefect ends nothing."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flows.prefect.in_process import environment
from flows.prefect.serve import only_one
from flows.prefect.server import check_port, healthy, own_server, start_anew_if_damaged
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


@pytest.mark.slow
def test_a_new_study_gets_the_tables_that_an_earlier_study_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tables = []
    for study in ("first", "second", "second"):
        database = tmp_path / study / "prefect.db"
        with environment({"PREFECT_HOME": str(database.parent)}), own_server(database) as address:
            assert healthy(address)
            (kept,) = (tmp_path / f"dreamer-{os.getuid()}" / "prefect").iterdir()
            for path in (database, kept):
                with closing(sqlite3.connect(path)) as connection:
                    tables.append({name for (name,) in connection.execute("select name from sqlite_master")})
                    assert not connection.execute("select * from flow_run").fetchall()
    assert all(names == tables[0] for names in tables)
