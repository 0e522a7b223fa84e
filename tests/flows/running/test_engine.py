"""What a flow's function returns or raises is the outcome, with Prefect's server and without."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prefect import flow, get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.prefect.in_process import environment
from flows.prefect.server import own_server
from flows.running import progress
from flows.running.engine import attempt, call, forget_loss, reporting, tell_ends
from flows.running.logs import outlive_readers, plain_errors
from flows.running.processes import Stopped
from pipeline.errors import InputError


@flow
def double(number: int) -> int:
    return 2 * number


@flow
def refuse() -> None:
    raise InputError("no such study")


@flow
def outer(number: int) -> int:
    return call(double, call(double, number))


@pytest.fixture(autouse=True)
def no_server() -> Iterator[None]:
    forget_loss()
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}):
        yield
    forget_loss()


def test_a_flow_without_a_server_returns_what_its_function_returns(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(outer, number=3) == 12
    assert call(outer, 4) == 16
    said = capsys.readouterr().err
    assert said.count("Prefect's server is lost") == 1
    assert "the study goes on" in said


def test_a_flow_without_a_server_raises_what_its_function_raises() -> None:
    with pytest.raises(InputError, match="no such study"):
        call(refuse)
    with pytest.raises(InputError, match="no such study"):  # as a plain function now
        call(refuse)


def test_nothing_is_sent_to_a_lost_server() -> None:
    sent = []

    def send(word: str) -> None:
        sent.append(word)
        raise ConnectionError

    attempt(send, "first")
    attempt(send, "second")
    assert sent == ["first"]


@flow
def stop() -> None:
    raise Stopped("the study is being stopped")


@pytest.mark.slow
def test_a_stage_of_a_stopped_study_is_shown_as_cancelled_and_one_that_fails_as_failed(tmp_path: Path) -> None:
    with (
        environment({"PREFECT_HOME": str(tmp_path)}),
        own_server(tmp_path / "prefect.db") as answering,
        temporary_settings({PREFECT_API_URL: answering()}),
    ):
        with pytest.raises(Stopped):
            call(stop)
        with pytest.raises(InputError):
            call(refuse)
        assert call(double, 4) == 8
        with get_client(sync_client=True) as client:
            shown = {run.flow_id: run.state_name for run in client.read_flow_runs()}
            names = {name: client.read_flow_by_name(name).id for name in ("stop", "refuse", "double")}
    assert [shown[names[name]] for name in names] == ["Cancelled", "Failed", "Completed"]


@pytest.mark.slow
def test_the_end_of_a_stage_that_a_lost_server_did_not_hear_is_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @flow
    def loses_the_server() -> int:
        monkeypatch.setattr(SyncPrefectClient, "set_flow_run_state", lambda *_, **__: refuse_connection())
        return 8

    def refuse_connection() -> None:
        raise ConnectionError("the server was killed")

    with (
        environment({"PREFECT_HOME": str(tmp_path)}),
        own_server(tmp_path / "prefect.db") as answering,
        temporary_settings({PREFECT_API_URL: answering()}),
    ):
        assert call(loses_the_server) == 8
        tell_ends()  # still none there
        monkeypatch.undo()
        with get_client(sync_client=True) as client:
            assert [run.state_name for run in client.read_flow_runs()] == ["Running"]
            tell_ends()
            assert [run.state_name for run in client.read_flow_runs()] == ["Completed"]


class Slow:
    """A listener that waits before the second of its reports."""

    def __init__(self) -> None:
        self.got: list[tuple[str, float]] = []
        self.go_on = threading.Event()

    def update(self, key: str, fraction: float, words: str) -> None:
        self.got.append((key, fraction))
        self.go_on.wait()


def test_a_slow_listener_holds_nobody_and_gets_the_newest_report() -> None:
    slow = Slow()
    with reporting(slow):
        progress.report("a", 0.0)
        while not slow.got:
            pass
        for number in range(100):
            progress.report("a", number / 100)
            progress.report("b", number / 100)
        slow.go_on.set()
    assert slow.got == [("a", 0.0), ("a", 0.99), ("b", 0.99)]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger whose handler writes to a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    logger = logging.getLogger("prefect.flow_runs.unread")
    with suppress(BrokenPipeError), os.fdopen(writer, "w") as stream:  # which a stream tells again when it is closed
        handler = PrefectConsoleHandler(stream)
        logger.addHandler(handler)
        logger.propagate = False
        yield logger
        logger.removeHandler(handler)


def test_a_log_line_that_nobody_reads_does_not_end_the_process(logger: logging.Logger) -> None:
    outlive_readers()
    for line in range(3):
        logger.error("line %d", line)


def test_prefect_alone_would_end_the_process(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)  # which rich closes
        with pytest.raises(SystemExit):
            logger.error("line")


@pytest.mark.parametrize("name", ["prefect.flow_runs", "prefect.engine"])
def test_an_error_of_a_user_is_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plain_errors()
    logger = logging.getLogger(name)
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "handlers", [])  # one of which asks for a flow run
    for error in (InputError("no such study"), KeyError("of the program")):
        try:
            raise error
        except Exception as raised:
            logger.exception("%r", raised)
    assert caplog.text.count("Traceback") == 1
    assert "no such study" in caplog.text
