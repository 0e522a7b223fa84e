"""Servers: one line where none can start, damaged databases end nothing, and nobody is answered without the secret."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import flows.prefect.lost
from flows.jobs.private import private_folder
from flows.prefect.in_process import environment
from flows.prefect.lost import say_lost_runs
from flows.prefect.secret import secret
from flows.prefect.serve import former_server_ended, only_one
from flows.prefect.server import await_server, check_port, healthy, own_server
from pipeline.errors import InputError
from tests.flows.prefect.strangers import refuses_strangers
from tests.flows.small_study import PROJECT


def test_a_port_of_another_program_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"http://127.0.0.1:{other.getsockname()[1]}/api"
        with pytest.raises(InputError, match="another program has the port"):
            check_port(address)
    check_port(address)
    assert not healthy(address)
    assert not healthy("no address")


@pytest.mark.slow
def test_a_second_make_up_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"http://127.0.0.1:{other.getsockname()[1]}/api"
    variables = {**os.environ, "PREFECT_API_URL": address, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    with only_one(address):
        command = [sys.executable, "-m", "flows.prefect.serve"]
        second = subprocess.run(command, cwd=PROJECT, env=variables, capture_output=True, text=True)
    assert second.stderr == f"make up: it is running already and serves the deployments at {address}; stop it first\n"
    assert second.returncode == 2


@pytest.mark.slow
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
    def fail(**_: bool) -> list[str]:
        raise RuntimeError("the server\nhas gone")

    monkeypatch.setattr(flows.prefect.lost, "end_lost_runs", fail)
    say_lost_runs()
    assert capsys.readouterr().err == "which flow runs have ended meanwhile is not known (the server)\n"


@pytest.mark.slow
def test_the_server_of_a_run_answers_nobody_without_the_secret(tmp_path: Path) -> None:
    with environment({"PREFECT_HOME": str(tmp_path)}), own_server() as (server, address):
        await_server(server, address)
        refuses_strangers(address)


def test_the_secret_is_in_a_file_of_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path, made = private_folder("prefect") / "secret", secret.__wrapped__()
    assert made == path.read_text() == secret.__wrapped__()
    assert made.startswith("dreamer:")
    assert len(made) > 20
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, path.parent.parent)] == [
        0o600,
        0o700,
        0o700,
    ]
