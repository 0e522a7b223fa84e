"""The server that we start, and a study within its own process."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from prefect import runtime
from prefect.client.orchestration import SyncPrefectClient
from prefect.runner import Runner

import dreamer_study.flows.commands.make_up
import dreamer_study.flows.commands.run_here
import dreamer_study.flows.full_study
import dreamer_study.flows.prefect.bare_names
import dreamer_study.flows.prefect.lost_runs
import dreamer_study.flows.prefect.server
import dreamer_study.flows.running.beginning
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.make_up import only_one
from dreamer_study.flows.commands.run_here import environment, run_in_process, starting_server
from dreamer_study.flows.jobs.private_files import private_folder
from dreamer_study.flows.prefect.lost_runs import say_lost_runs
from dreamer_study.flows.prefect.server import (
    NoServer,
    await_server,
    check_port,
    healthy,
    own_server,
    secret,
    secret_file,
    secret_file_of,
    secret_for,
)
from dreamer_study.flows.progress import reports
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from tests.faults.processes import refuses_strangers
from tests.flows.prepared import with_database
from tests.flows.small_study import PROJECT, TINY


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
    variables = {
        **os.environ,
        "PREFECT_API_URL": address,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    with only_one(address):
        command = [sys.executable, "-m", "dreamer_study.flows.commands.make_up"]
        second = subprocess.run(command, cwd=PROJECT, env=variables, capture_output=True, text=True)
    assert (
        second.stderr
        == f"make up: another `make up` serves the deployments at {address}; stop it first\n"
    )
    assert second.returncode == 2


@pytest.mark.slow
def test_a_stop_that_is_lost_while_make_up_starts_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def lose(*_: object) -> None:
        with suppress(SystemExit):  # as a callback of Prefect's client does
            os.kill(os.getpid(), signal.SIGTERM)

    for name in ("only_one", "serving_reports"):
        monkeypatch.setattr(dreamer_study.flows.commands.make_up, name, lambda *_: nullcontext())
    monkeypatch.setattr(dreamer_study.flows.commands.make_up, "healthy", lambda address: True)
    monkeypatch.setattr(dreamer_study.flows.commands.make_up, "register", lose)
    monkeypatch.setattr(Runner, "start", lambda _: pytest.fail("make up serves"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(PROJECT)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit, match="143"):
            dreamer_study.flows.commands.make_up.up()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_lost_runs_that_cannot_be_found_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: bool) -> list[str]:
        raise RuntimeError("the server\nhas gone")

    monkeypatch.setattr(dreamer_study.flows.prefect.lost_runs, "end_lost_runs", fail)
    say_lost_runs()
    assert (
        capsys.readouterr().err
        == "which flow runs have ended meanwhile is not known (the server)\n"
    )


@pytest.mark.slow
def test_the_server_of_a_run_answers_nobody_without_the_secret(tmp_path: Path) -> None:
    home = with_database(tmp_path / "home")
    with environment({"PREFECT_HOME": str(home)}), own_server() as (server, address):
        await_server(server, address)
        refuses_strangers(address)
        file = secret_file_of(address)
        assert file.read_text() != secret()  # which starts studies, by `make up`
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.exists()


def test_the_secret_is_in_a_file_of_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = secret_file.__wrapped__()
    made = path.read_text()
    assert path == private_folder("prefect") / "secret" == secret_file.__wrapped__()
    assert path.read_text() == made
    assert made.startswith("dreamer:")
    assert len(made) > 20
    assert [
        stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, path.parent.parent)
    ] == [
        0o600,
        0o700,
        0o700,
    ]


def test_the_secret_is_printed_to_a_terminal_only() -> None:
    with open(os.openpty()[1], "w") as terminal:
        assert secret() in secret_for(terminal, secret_file())
    with open(os.devnull, "w") as other:
        assert secret_for(other, secret_file()) == f"secret in {secret_file()}"


@pytest.mark.slow
def test_a_study_that_is_refused_leaves_no_server_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    before = os.environ.copy()
    servers = []

    def refuse() -> None:
        with starting_server(load_study(TINY, root=tmp_path)) as server:
            servers.append(server.process)
            assert os.listdir(tmp_path) == [".prefect"]
            assert server.process.poll() is None
            raise InputError("refused")

    began = time.monotonic()
    with pytest.raises(InputError, match="refused"):
        refuse()
    assert time.monotonic() - began < 5, "as fast as without a server"
    assert [process.poll() for process in servers] == [-signal.SIGKILL]
    assert os.listdir(tmp_path) == []
    assert os.environ == before


@pytest.mark.parametrize(
    ("options", "order"), [([], ["server", "check"]), (["--plain"], ["check"])]
)
def test_the_server_starts_while_the_study_is_checked(
    options: list[str], order: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def start() -> AbstractContextManager[tuple[SimpleNamespace, str]]:
        happened.append("server")
        return nullcontext((SimpleNamespace(kill=lambda: None), ""))

    def refuse(*_: object, **__: object) -> None:
        happened.append("check")
        raise InputError("refused")

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(dreamer_study.flows.commands.run_here, "own_server", start)
    monkeypatch.setattr(dreamer_study.flows.running.beginning, "check_study", refuse)
    assert main(["run", str(TINY), "--root", str(tmp_path), *options]) == 2
    assert happened == order


seen: list[tuple[str, str]] = []


def stand_in(*_: object) -> None:
    """Note what a study would see."""
    seen.append((runtime.flow_run.parameters["study"], os.environ["PREFECT_HOME"]))


class Health(BaseHTTPRequestHandler):
    """Answers that it is well, and nothing else."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/api/health" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


@pytest.fixture(autouse=True)
def no_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dreamer_study.flows.full_study, "show_run", stand_in)
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "0")
    monkeypatch.setenv("PREFECT_HOME", "mine")
    seen.clear()


@pytest.mark.slow
def test_a_server_that_the_environment_names_is_used_and_said(
    client: SyncPrefectClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = str(client.api_url).rstrip("/")
    monkeypatch.setenv("PREFECT_API_URL", address)
    before = os.environ.copy()
    assert not runs(tmp_path)
    said = capsys.readouterr().err
    shown = f"{address.removesuffix('/api')} (named by PREFECT_API_URL)"
    assert said.count(f"Prefect: {shown}\n") == 1
    assert seen == [("tiny", str(tmp_path / ".prefect"))]
    assert os.environ == before


def runs(folder: Path) -> bool:
    """Whether the server was lost while a study ran."""
    study = load_study(TINY, root=folder)
    with starting_server(study) as server:
        return run_in_process(study, Options(), {"study": "tiny"}, server)


def test_our_own_server_that_the_environment_names_is_given_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    given: list[str | None] = []
    monkeypatch.setenv("PREFECT_API_URL", address)
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)
    monkeypatch.setattr(
        dreamer_study.flows.commands.run_here,
        "_call",
        lambda *_: given.append(os.environ.get("PREFECT_API_AUTH_STRING")),
    )
    runs(tmp_path)
    assert given == [secret()]


def test_whoever_takes_the_port_of_our_server_gets_no_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    def listens(user: int) -> None:
        row = f"0: 0100007F:{urlsplit(address).port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {user} 0"
        (tmp_path / "tcp").write_text(f"sl local_address\n{row}\n")

    monkeypatch.setattr(dreamer_study.flows.prefect.server, "SOCKETS", (tmp_path / "tcp",))
    monkeypatch.setattr(dreamer_study.flows.prefect.bare_names, "_find_bare_names", lambda: None)
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)
    context = SimpleNamespace(api_url=address)
    listens(os.getuid())
    assert dreamer_study.flows.prefect.bare_names.setup_environment(ctx=context).env == {
        "PREFECT_API_AUTH_STRING": secret()
    }
    (tmp_path / "tcp").write_text("sl local_address\n")  # where anybody may come
    assert dreamer_study.flows.prefect.bare_names.setup_environment(ctx=context) is None
    listens(os.getuid() + 1)
    assert dreamer_study.flows.prefect.bare_names.setup_environment(ctx=context) is None
    with pytest.raises(NoServer, match="ended with status"):
        await_server(subprocess.Popen(["sleep", "0.5"], start_new_session=True), address)
    for name in ("only_one", "serving_reports"):
        monkeypatch.setattr(dreamer_study.flows.commands.make_up, name, lambda *_: nullcontext())
    monkeypatch.setattr(dreamer_study.flows.commands.make_up, "healthy", lambda _: True)
    monkeypatch.setattr(dreamer_study.flows.commands.make_up, "ours", lambda _: False)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.chdir(PROJECT)
    with pytest.raises(InputError, match="another user's server answers"):
        dreamer_study.flows.commands.make_up.up()


@pytest.mark.slow
def test_a_server_that_takes_no_flow_run_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", address)
    with pytest.raises(NoServer, match="takes no flow run"):
        runs(tmp_path)
    assert seen == []


def test_a_study_runs_where_no_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise NoServer("no memory for a server")

    ran: list[Study] = []
    process = SimpleNamespace(kill=lambda: None)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(
        dreamer_study.flows.commands.run_here, "own_server", lambda: nullcontext((process, ""))
    )
    monkeypatch.setattr(dreamer_study.flows.commands.run_here, "await_server", fails)
    monkeypatch.setattr(
        dreamer_study.flows.running.beginning,
        "run_study",
        lambda plan, *_: ran.append(plan.study),
    )
    monkeypatch.setattr(reports, "end_now", lambda status: None)
    assert main(["run", str(TINY), "--root", str(tmp_path), "--until", "train"]) == 0
    assert seen == []
    assert [study.folder for study in ran] == [tmp_path]
    assert (
        capsys.readouterr().err.count("no memory for a server; the study continues without Prefect")
        == 1
    )
