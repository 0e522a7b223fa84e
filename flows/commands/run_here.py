"""Run the flow `full-study` in this process, for `dreamer run`: on a Prefect server that lives as
long as the run."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, chdir, contextmanager
from contextvars import Context, copy_context
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from dreamer_study.flows.jobs import Failed
from dreamer_study.flows.prefect.logs import outlive_readers, plain_errors
from dreamer_study.flows.prefect.lost_runs import say_lost_runs
from dreamer_study.flows.prefect.server import (
    NoServer,
    allow_loopback,
    await_server,
    healthy,
    own_server,
    secret,
    secret_of,
)
from dreamer_study.flows.progress import reports
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.study.configuration import Study

LABEL = "Prefect's server"
HEAR_SECONDS = 10.0  # for the server to hear that the flow run has ended; one that hangs never does
SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # what went wrong reaches the user as our own error, once
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_API_REQUEST_TIMEOUT": "10",  # seconds
    "PREFECT_CLIENT_MAX_RETRIES": "1",
    # a study has none, and registering takes a seventh of a start
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
    "PREFECT_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "DO_NOT_TRACK": "1",
}


def run_in_process(study: Study, options: Options, parameters: Mapping[str, Any]) -> bool:
    """Run a study as the flow `full-study`, of which these parameters are shown.

    The flow runs on a server of the run's own, or on the one that PREFECT_API_URL in the
    environment names; reports its address. Returns whether the server was lost meanwhile. Raises
    what the study raises, and NoServer, before the study has begun, where no server starts.
    """
    given, home = os.environ.get("PREFECT_API_URL", ""), str((study.folder / ".prefect").resolve())
    settings = {name: os.environ.get(name, value) for name, value in SETTINGS.items()}
    with environment({**settings, "PREFECT_HOME": home}), ExitStack() as stack:
        allow_loopback()
        Path(home).mkdir(parents=True, exist_ok=True)
        # Prefect reads settings from files in the current folder, and settings can name code.
        # Others may have filled the study's folder, and so the home in it, which may hold a file of
        # profiles too. A new folder below the home has none, and goes where the study goes; no
        # cleaner of temporary files takes it.
        stack.enter_context(
            chdir(stack.enter_context(TemporaryDirectory(prefix="empty-", dir=home)))
        )
        for name in ("PREFECT_PROFILES_PATH", "PREFECT_LOGGING_CONFIG_PATH"):
            os.environ.setdefault(name, f"{os.devnull}/none")  # no file: what the package has
        reports.report(LABEL, 0.0, "starting")
        if own := not (given and healthy(given)):
            server, address = stack.enter_context(own_server())
            sent: str | None = secret()
        else:
            sent = os.environ.get("PREFECT_API_AUTH_STRING") or secret_of(given)
        if sent:
            os.environ["PREFECT_API_AUTH_STRING"] = sent
        # Prefect reads its environment when it is imported; while the server starts, which takes
        # seconds, this process imports what the flow needs.
        from prefect.settings import (
            PREFECT_API_AUTH_STRING,
            PREFECT_API_URL,
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
            PREFECT_HOME,
            temporary_settings,
        )

        from dreamer_study.flows.full_study import full_study, show_run

        # what is imported stays: the collector need not look through it again and again
        gc.freeze()
        stack.callback(gc.unfreeze)
        if own:
            await_server(server, address)
        else:
            address = given
        # The run's own server has no use for heartbeats, which would make a flow end up to a second
        # later.
        own_settings = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None} if own else {}
        settings = {
            PREFECT_API_URL: address,
            PREFECT_HOME: home,
            PREFECT_API_AUTH_STRING: sent,
            **own_settings,
        }
        stack.enter_context(temporary_settings(settings))
        if own:
            say_lost_runs(every=True)
        unheard = f"; none answers at {given}" if given else ""
        whose = (
            f"this run's own, its secret is {secret()}{unheard}"
            if own
            else "named by PREFECT_API_URL"
        )
        reports.report(LABEL, 1.0, f"{address.removesuffix('/api')} ({whose})")
        lost = _call(lambda: show_run(study, options), full_study, study.name, parameters)
        if lost and own:
            server.kill()  # one that hangs would not end when it is asked to
        return lost


def _call(work: Callable[[], object], like: Any, name: str, parameters: Mapping[str, Any]) -> bool:
    """Call `work` in a flow run with this name and these parameters, and with the task runner of
    the flow `like`.

    The flow run has a thread of its own, which nobody waits for when the server hangs; signals
    reach `work` in this one. Raises what `work` raises, whatever becomes of the server, and
    NoServer where `work` has not begun. Returns whether the server was lost.
    """
    from prefect import flow
    from prefect.states import State

    begun: Future[Context] = Future()  # the context of the flow run
    ended: Future[object] = Future()  # what `work` has returned or raised
    heard: Future[None] = Future()

    @flow(
        name=like.name, flow_run_name=name, task_runner=like.task_runner, validate_parameters=False
    )
    @wraps(like.fn)  # whose parameters are shown
    def run(*_: object, **__: object) -> object:
        begun.set_result(copy_context())
        return ended.result()

    def show() -> None:
        try:
            run(**parameters)
            heard.set_result(None)
        # of the study, or whatever the engine, the client and its transport may raise
        except BaseException as error:
            if not begun.done():
                begun.set_exception(
                    NoServer(f"Prefect's server takes no flow run ({' '.join(str(error).split())})")
                )

    thread = Thread(target=copy_context().run, args=(show,), daemon=True)
    thread.start()
    context = begun.result()
    outlive_readers()
    plain_errors()
    try:
        ended.set_result(context.run(work))
    except BaseException as error:
        ended.set_exception(error)
    thread.join(HEAR_SECONDS)
    if isinstance(ended.result(), State):
        raise Failed("the run was cancelled in Prefect; run the same command again to go on")
    return not heard.done()


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
