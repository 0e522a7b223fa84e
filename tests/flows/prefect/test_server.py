"""A port of another program and a second `make up` are one line; a damaged database of Prefect ends nothing."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import prefect.cli
import pytest
from docket import Docket, Worker

import flows.prefect.serve
import flows.prefect.server
from flows.prefect import study_server
from flows.prefect.in_process import environment
from flows.prefect.serve import former_server_ended, only_one, say_lost_runs
from flows.prefect.server import check_port, healthy, own_server, start_anew_if_damaged
from flows.running.private import private_folder
from pipeline.errors import InputError
from tests.flows.small_study import PROJECT


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


def test_make_up_waits_for_the_server_that_a_killed_one_has_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"http://127.0.0.1:{other.getsockname()[1]}/api"
    with former_server_ended(address) as mark:
        left = subprocess.Popen(["sleep", "2"], pass_fds=[mark])
    with former_server_ended(address):
        assert left.poll() == 0


def test_lost_runs_that_cannot_be_found_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> list[str]:
        raise RuntimeError("the server\nhas gone")

    monkeypatch.setattr(flows.prefect.serve, "end_lost_runs", fail)
    say_lost_runs()
    assert capsys.readouterr().err == "which flow runs have ended meanwhile is not known (the server)\n"


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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder for what Prefect's servers share."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return private_folder("prefect")


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("select name from sqlite_master")}


@pytest.mark.slow
def test_a_new_study_gets_the_tables_that_an_earlier_study_made(tmp_path: Path, folder: Path) -> None:
    for study in ("first", "second"):
        database = tmp_path / study / "prefect.db"
        with environment({"PREFECT_HOME": str(database.parent)}), own_server(database) as answering:
            assert healthy(answering())
            (kept,) = folder.iterdir()
            assert "flow_run" in tables(database) & tables(kept)
        with closing(sqlite3.connect(kept)) as connection:
            connection.execute("create table if not exists mark (number integer)")
    assert "mark" in tables(database)


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no server started, only asked for."""
    monkeypatch.setattr(flows.prefect.server, "await_server", lambda *_: None)
    monkeypatch.setattr(flows.prefect.server, "start_server", lambda *_, **__: None)
    monkeypatch.setattr(flows.prefect.server, "end_server", lambda _: None)


def test_a_server_starts_where_tables_are_damaged_or_cannot_be_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    database, kept = tmp_path / "study" / "prefect.db", folder / f"{version('prefect')}.db"
    kept.write_bytes(b"SQLite format 3\0" + b"damaged " * 1000)
    with own_server(database):  # keeps its runs elsewhere, as the user's settings may say: nothing to copy
        assert not kept.exists()
        assert not database.exists()
    monkeypatch.setattr(flows.prefect.server, "private_folder", lambda _: tmp_path / "nowhere" / "there")
    with own_server(database):
        assert not database.exists()


def test_background_tasks_are_looked_for_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "__init__", Worker.__init__)  # put back after the test
    seen: list[Worker] = []
    monkeypatch.setattr(prefect.cli, "app", lambda: seen.append(Worker(Docket())))
    study_server.main()
    (worker,) = seen
    assert worker.minimum_check_interval == worker.scheduling_resolution == study_server.INTERVAL
