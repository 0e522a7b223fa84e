"""`dreamer run` says which server it uses, needs none, and leaves the environment as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from prefect import flow

import flows.full_study
import flows.prefect.in_process
from flows.prefect.in_process import run_in_process
from flows.running import progress
from flows.running.processes import Failed
from flows.study.loading import load_study
from tests.flows.heard import Heard
from tests.flows.small_study import TINY

seen: list[tuple[str, str]] = []


@flow
def stand_in(study: str) -> None:
    """Note what a study would see."""
    seen.append((study, os.environ["PREFECT_HOME"]))


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
    monkeypatch.setattr(flows.full_study, "full_study", stand_in)
    seen.clear()


def test_a_server_that_the_environment_names_is_used_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", address)
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "0")
    monkeypatch.setenv("PREFECT_HOME", "mine")
    before = os.environ.copy()
    with progress.listening(Heard()) as heard:
        run_in_process(load_study(TINY, root=tmp_path), study="tiny")
    assert heard.words[-1] == f"{address} (named by PREFECT_API_URL)"
    assert seen == [("tiny", str(tmp_path / ".prefect"))]
    assert capsys.readouterr().err.count("Prefect's server is lost") == 1  # no Prefect: it takes no flow run
    assert os.environ == before


def test_a_study_runs_where_no_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> str:
        raise Failed("no memory for a server")

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(flows.prefect.in_process, "own_server", lambda _: nullcontext(fails))
    run_in_process(load_study(TINY, root=tmp_path), study="tiny")
    assert [study for study, _ in seen] == ["tiny"]
    assert "Prefect's server is lost (no memory for a server)" in capsys.readouterr().err


def test_the_world_is_in_the_store_when_the_server_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, found = load_study(TINY, root=tmp_path), []

    def answers() -> str:
        found.extend(study.store_folder.glob("world/*/manifest.json"))
        raise Failed("too late")

    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(flows.prefect.in_process, "own_server", lambda _: nullcontext(answers))
    run_in_process(study, study="tiny")
    assert len(found) == 1
