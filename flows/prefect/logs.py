"""Mend what Prefect does with log lines: no line ends a study, and errors of users have no
traceback."""

from __future__ import annotations

import logging
from functools import partial

from dreamer_study.flows.jobs import Failed, Stopped
from dreamer_study.pipeline.errors import InputError


def outlive_readers() -> None:
    """Silence Prefect's log handlers in place of ending this process, when nobody reads their
    stream any more.

    Prefect writes through `rich.console.Console`, which raises SystemExit at a broken pipe. A
    worker reads the log lines of its flow runs through such a pipe. A handler that fails otherwise
    prints nothing about its failure.
    """
    from prefect.logging.handlers import PrefectConsoleHandler

    # a list: other threads make loggers meanwhile
    known = list(logging.root.manager.loggerDict.values())
    loggers = [logging.root, *(logger for logger in known if hasattr(logger, "handlers"))]
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        if isinstance(handler, PrefectConsoleHandler):
            handler.console.on_broken_pipe = partial(setattr, handler.console, "quiet", True)  # type: ignore[method-assign]
    # a line for a server that has just ended is lost without a word
    logging.raiseExceptions = False


def plain_errors() -> None:
    """Log an error that a user can understand as the one line that it is, where Prefect adds a
    traceback."""
    for name in ("prefect.flow_runs", "prefect.task_runs", "prefect.engine"):
        # a logger adds the same filter only once
        logging.getLogger(name).addFilter(_without_traceback)


def _without_traceback(record: logging.LogRecord) -> bool:
    if record.exc_info and isinstance(record.exc_info[1], InputError | Failed | Stopped):
        record.exc_info = None
    return True
