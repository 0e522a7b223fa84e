"""Let a study outlive the reader of its log lines, as a worker that was killed."""

from __future__ import annotations

import logging
from functools import partial


def outlive_readers() -> None:
    """Silence Prefect's log handlers in place of ending this process, when nobody reads their stream any more.

    Prefect writes through `rich.console.Console`, which raises SystemExit at a broken pipe. A worker reads the log
    lines of its flow runs through such a pipe.
    """
    from prefect.logging.handlers import PrefectConsoleHandler

    loggers = [logging.root, *(one for one in logging.root.manager.loggerDict.values() if hasattr(one, "handlers"))]
    for handler in {handler for logger in loggers for handler in logger.handlers}:
        if isinstance(handler, PrefectConsoleHandler):
            handler.console.on_broken_pipe = partial(setattr, handler.console, "quiet", True)  # type: ignore[method-assign]
