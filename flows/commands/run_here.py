"""Run the flow `full-study` in this process, for `dreamer run`.

The flow is shown on a Prefect server that lives as long as the run:

    with starting_server(study) as server:  # from here on the server starts
        check_study(study)
        run_in_process(study, options, parameters, server)
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, chdir, contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import wraps
from shutil import rmtree
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
    secret_file_of,
    secret_for,
    secret_of,
)
from dreamer_study.flows.progress.colour import DIM, painted
from dreamer_study.flows.progress.reports import is_quiet, write_line
from dreamer_study.flows.running.options import Options
from dreamer_study.flows.study.configuration import Study

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


@dataclass
class Server:
    """The Prefect server on which a run is shown."""

    address: str  # of its API
    secret: str | None  # which requests to it send
    home: str  # the folder of its data
    is_new: bool  # whether there were none before
    folder: str  # an empty one below it, in which nobody has put settings of Prefect
    process: subprocess.Popen[bytes] | None  # the run's own, which may still be starting
    has_run: bool = False  # whether the flow run has begun


@contextmanager
def starting_server(study: Study) -> Iterator[Server]:
    """Start a Prefect server of the run's own, which lives as long as the block.

    Starting takes seconds, in which others can work. Where PREFECT_API_URL in the environment names
    a server that answers, the run is shown there and none is started. Where no flow run begins, as
    of a study that is refused, nothing is left.
    """
    named = os.environ.get("PREFECT_API_URL", "")
    home = (study.folder / ".prefect").resolve()
    settings = {name: os.environ.get(name, value) for name, value in SETTINGS.items()}
    for name in ("PREFECT_PROFILES_PATH", "PREFECT_LOGGING_CONFIG_PATH"):
        # no file: what the package has
        settings[name] = os.environ.get(name, f"{os.devnull}/none")
    with environment({**settings, "PREFECT_HOME": str(home)}), ExitStack() as stack:
        allow_loopback()
        is_new = not home.exists()
        if is_new:
            home.mkdir(parents=True)
            stack.callback(lambda: server.has_run or rmtree(home, ignore_errors=True))
        # Prefect reads settings from files in the current folder, and settings can name code.
        # Others may have filled the study's folder, and so the home in it, which may hold a file of
        # profiles too. A new folder below the home has none, and goes where the study goes; no
        # cleaner of temporary files takes it.
        folder = stack.enter_context(TemporaryDirectory(prefix="empty-", dir=home))
        if named and healthy(named):
            sent = os.environ.get("PREFECT_API_AUTH_STRING") or secret_of(named)
            server = Server(named, sent, str(home), is_new, folder, None)
        else:
            with chdir(folder):
                process, address = stack.enter_context(own_server())
            asked_for = secret_file_of(address).read_text()
            server = Server(address, asked_for, str(home), is_new, folder, process)
            # before any work there is nothing for which to end the server in good order
            stack.callback(lambda: server.has_run or process.kill())
        yield server


def run_in_process(
    study: Study, options: Options, parameters: Mapping[str, Any], server: Server
) -> bool:
    """Run a study as the flow `full-study`, of which these parameters are shown.

    Prints the address of the server. Returns whether the server was lost meanwhile. Raises what the
    study raises, and NoServer, before the study has begun, where the server does not start.
    """
    with ExitStack() as stack:
        stack.enter_context(chdir(server.folder))
        if server.secret:
            os.environ["PREFECT_API_AUTH_STRING"] = server.secret
        # Prefect reads its environment when it is imported; while the server starts this process
        # imports what the flow needs.
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
        settings = {
            PREFECT_API_URL: server.address,
            PREFECT_HOME: server.home,
            PREFECT_API_AUTH_STRING: server.secret,
        }
        if server.process:
            await_server(server.process, server.address)
            # The run's own server has no use for heartbeats, which would make a flow end up to a
            # second later.
            settings[PREFECT_FLOWS_HEARTBEAT_FREQUENCY] = None
        stack.enter_context(temporary_settings(settings))
        if server.process and not server.is_new:
            say_lost_runs(every=True)
        say_server(server)
        lost = _call(lambda: show_run(study, options), full_study, study.name, parameters, server)
        if lost and server.process:
            server.process.kill()  # one that hangs would not end when it is asked to
        return lost


def say_server(server: Server) -> None:
    """Write a dim line with the address at which Prefect shows the run."""
    if is_quiet():
        return
    named = os.environ.get("PREFECT_API_URL", "")
    if not server.process:
        whose = "named by PREFECT_API_URL"
    else:
        whose = f"this run's own, {secret_for(sys.stderr, secret_file_of(server.address))}"
        if named:
            whose += f"; none answers at {named}"
    address = server.address.removesuffix("/api")
    line = f"Prefect: {address} ({whose})"
    if sys.stderr.isatty():
        # not by a console of rich, which would write into the page that is shown meanwhile
        with suppress(OSError):
            print(painted(line, DIM, sys.stderr), file=sys.stderr, flush=True)
    else:
        write_line(line)


def _call(
    work: Callable[[], object],
    like: Any,
    name: str,
    parameters: Mapping[str, Any],
    server: Server,
) -> bool:
    """Call `work` in a flow run of the flow `like`, with this name and these parameters.

    The flow run has a thread of its own, which nobody waits for when the server hangs; signals
    reach `work` in this one. Raises what `work` raises, whatever becomes of the server, and
    NoServer where `work` has not begun. Returns whether the server was lost.
    """
    from prefect import flow
    from prefect.exceptions import Pause
    from prefect.states import State

    begun: Future[Context] = Future()  # the context of the flow run
    ended: Future[object] = Future()  # what `work` has returned or raised
    heard: Future[None] = Future()

    @flow(name=like.name, flow_run_name=name, validate_parameters=False)
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
                reason = " ".join(str(error).split())
                begun.set_exception(NoServer(f"Prefect's server takes no flow run ({reason})"))

    thread = Thread(target=copy_context().run, args=(show,), daemon=True)
    thread.start()
    context = begun.result()
    server.has_run = True
    outlive_readers()
    plain_errors()
    try:
        ended.set_result(context.run(work))
    except BaseException as error:
        ended.set_exception(error)
    thread.join(HEAR_SECONDS)
    try:
        returned = ended.result()
    except Pause:  # a signal of Prefect's, which is no error to Python
        again = "run the same command again to continue"
        raise Failed(f"the run was suspended in Prefect; {again}") from None
    if isinstance(returned, State):
        raise Failed("the run was cancelled in Prefect; run the same command again to continue")
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
