"""Run the flow `full-study` in this process, for `dreamer run`: on a Prefect server that lives as long as the run."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from flows.prefect.server import allow_loopback, healthy, own_server
from flows.running import progress
from flows.running.processes import Failed, wait_unless_stopping
from flows.running.record import recorded
from flows.study.configuration import Study
from pipeline.storage.store import Store

LABEL = "Prefect's server"
SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",  # what went wrong reaches the user as our own error, once
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_API_REQUEST_TIMEOUT": "10",  # seconds; with one retry, a server that hangs holds a stage's end for 45 s
    "PREFECT_CLIENT_MAX_RETRIES": "1",
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",  # a study has none, and registering takes a seventh of a start
    "PREFECT_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "DO_NOT_TRACK": "1",
}


def run_in_process(chosen: Study, **arguments: Any) -> None:
    """Run `full-study` on a server of the run's own, or on the one that PREFECT_API_URL in the environment names.

    Says which. Where no server starts, the study runs without one.
    """
    given, home = os.environ.get("PREFECT_API_URL", ""), str((chosen.folder / ".prefect").resolve())
    settings = {name: os.environ.get(name, value) for name, value in SETTINGS.items()}
    with environment({**settings, "PREFECT_HOME": home}), ExitStack() as stack:
        allow_loopback()
        progress.report(LABEL, 0.0, "starting")
        if own := not (given and healthy(given)):
            answering = stack.enter_context(own_server(Path(home) / "prefect.db"))
            whose = f"this run's own; none answers at {given}" if given else "this run's own"
        else:
            answering, whose = lambda: given, "named by PREFECT_API_URL"
        # Prefect reads its environment when it is imported. While the server starts, which takes seconds, this process
        # imports what the flow needs and writes the built-in world, which the flow then finds in the store.
        from prefect.settings import (
            PREFECT_API_URL,
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
            PREFECT_HOME,
            temporary_settings,
        )

        from flows.full_study import full_study
        from flows.running.engine import call, forget_loss, note_loss
        from flows.stages.prepare import prepare_world

        gc.freeze()  # what is imported stays: the collector need not look through it again and again
        stack.callback(gc.unfreeze)
        forget_loss()
        if own:
            with recorded(chosen):
                prepare_world(chosen, Store(chosen.store_folder, wait=wait_unless_stopping))
        try:
            address = answering()
            # The run's own server has no use for heartbeats, and a flow would end up to a second later for them.
            silent = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None} if own else {}
            stack.enter_context(temporary_settings({PREFECT_API_URL: address, PREFECT_HOME: home, **silent}))
            progress.report(LABEL, 1.0, f"{address} ({whose})")
        except Failed as error:
            note_loss(error)
        call(full_study, **arguments)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment during the block."""
    before = os.environ.copy()
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
