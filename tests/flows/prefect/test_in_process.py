"""`dreamer run` says which server it uses, goes on without one, and leaves the environment as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient

import flows.commands.running.run
import flows.prefect.flow
import flows.prefect.in_process
from flows.commands.cli import main
from flows.prefect.flow import ended
from flows.prefect.in_process import run_in_process
from flows.prefect.server import NoServer
from flows.study.configuration import Study
from flows.study.loading import load_study
from flows.watching import progress
from tests.flows.heard import Heard
from tests.flows.small_study import TINY

seen: list[tuple[str, str]] = []


@flow
def stand_in(study: str) -> None:
    """Note what a study would see."""
    seen.append((study, os.environ["PREFECT_HOME"]))
    ended.append(None)


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
    monkeypatch.setattr(flows.prefect.flow, "full_study", stand_in)
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "0")
    monkeypatch.setenv("PREFECT_HOME", "mine")
    seen.clear()


def test_a_server_that_the_environment_names_is_used_and_said(
    client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(client.api_url).rstrip("/")
    monkeypatch.setenv("PREFECT_API_URL", address)
    before = os.environ.copy()
    with progress.listening(Heard()) as heard:
        assert not run_in_process(load_study(TINY, root=tmp_path), study="tiny")
    assert heard.words[-1] == f"{address.removesuffix('/api')} (named by PREFECT_API_URL)"
    assert seen == [("tiny", str(tmp_path / ".prefect"))]
    assert os.environ == before


def test_a_server_that_takes_no_flow_run_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("PREFECT_API_URL", address)
    with pytest.raises(NoServer, match="takes no flow run"):
        run_in_process(load_study(TINY, root=tmp_path), study="tiny")
    assert seen == []


def test_a_study_runs_where_no_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise NoServer("no memory for a server")

    ran: list[Study] = []
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(flows.prefect.in_process, "own_server", lambda: nullcontext((None, "")))
    monkeypatch.setattr(flows.prefect.in_process, "await_server", fails)
    monkeypatch.setattr(flows.commands.running.run, "run_study", lambda plan, *_: ran.append(plan.study))
    monkeypatch.setattr(progress, "end_now", lambda status: None)
    assert main(["run", str(TINY), "--root", str(tmp_path), "--until", "train"]) == 0
    assert seen == []
    assert [study.folder for study in ran] == [tmp_path]
    assert capsys.readouterr().err.count("no memory for a server; the study goes on without Prefect") == 1
