"""No log line that nobody reads ends a study, and errors of users have no traceback in Prefect's logs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest
from prefect.logging.handlers import PrefectConsoleHandler

from flows.prefect.logs import outlive_readers, plain_errors
from pipeline.errors import InputError


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
