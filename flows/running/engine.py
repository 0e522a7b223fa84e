"""Call flows through Prefect's engine, and go on without Prefect once its server is lost.

No result depends on Prefect: its server only shows what is done. The outcome of a call is therefore what the flow's own
function returns or raises, whatever becomes of the server. The loss is said once.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from prefect import Flow, State, get_client, runtime
from prefect.states import Cancelled, Completed

from flows.running import progress
from flows.running.processes import Stopped
from flows.running.throttle import Throttle

P = ParamSpec("P")
R = TypeVar("R")

CLOSE_SECONDS = 5.0  # for the last reports to reach the server
_lost = threading.Event()
_untold: list[UUID] = []  # flow runs that ended well, of which the server was lost before it heard so


def call(flow: Flow[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Call a flow through Prefect's engine, or its function alone where the server was lost before the function began.

    The engine fails in many ways without its server, and an error of the function may be hidden behind them.
    """
    if _lost.is_set():
        return flow.fn(*arguments, **named)
    returned: list[R] = []
    raised: list[BaseException] = []
    runs: list[UUID] = []

    @wraps(flow.fn)
    def noted(*arguments: P.args, **named: P.kwargs) -> R | State:
        runs.append(UUID(runtime.flow_run.id))
        try:
            returned.append(flow.fn(*arguments, **named))
        except Stopped as error:  # Prefect would call every other error a failure
            raised.append(error)
            return Cancelled(message="The study was stopped")
        except BaseException as error:
            raised.append(error)
            raise
        return returned[0]

    watched = copy.copy(flow)
    watched.fn, watched.should_validate_parameters = noted, False  # types are those of the flow's module, not of ours
    try:
        watched(*arguments, **named)
    except Exception as error:  # whatever the engine, the client and its transport may raise
        if not raised:
            note_loss(error)
            _untold.extend(runs)
    if raised:
        raise raised[0] from None
    return returned[0] if returned else flow.fn(*arguments, **named)


def tell_ends() -> None:
    """Tell Prefect's server, if one answers again, which flow runs ended well while there was none.

    Prefect's engine calls them failed, as it could not say that they are complete.
    """
    if not _untold:
        return
    with suppress(Exception), get_client(sync_client=True) as client:  # as in `call`; no result depends on this
        for run in _untold:
            client.set_flow_run_state(run, Completed(), force=True)
        _untold.clear()


def attempt(send: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    """Send something to Prefect's server, unless the server is lost."""
    if _lost.is_set():
        return
    try:
        send(*arguments, **named)
    except Exception as error:  # as in `call`
        note_loss(error)


def note_loss(error: Exception) -> None:
    """Call Prefect's server lost from now on, and say so the first time."""
    if not _lost.is_set():
        _lost.set()
        reason = " ".join(str(error).split()) or type(error).__name__
        progress.write_line(f"Prefect's server is lost ({reason}); the study goes on without showing itself there")


def forget_loss() -> None:
    """Forget that a server was lost, before another server is used."""
    _lost.clear()
    _untold.clear()


@contextmanager
def reporting(listener: progress.Listener) -> Iterator[None]:
    """Pass the progress of the block to a listener that sends to Prefect's server, from a thread of its own.

    A slow server holds nobody: of each key only the newest report waits. Reports that wait at the end of the block are
    dropped after CLOSE_SECONDS.
    """
    mailbox = _Mailbox()
    sender = threading.Thread(target=mailbox.empty_into, args=[listener], daemon=True)
    sender.start()
    try:
        with progress.listening(mailbox):
            yield
    finally:
        mailbox.close()
        sender.join(CLOSE_SECONDS)


class _Mailbox:
    """Holds the newest report of each key until a sender takes it."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[float, str]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._throttle = Throttle()  # the server's work takes a core from the study

    def update(self, key: str, fraction: float, words: str) -> None:
        with self._changed:
            self._waiting[key] = (fraction, words)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def empty_into(self, listener: progress.Listener) -> None:
        """Send what waits, in order and with pauses, until the mailbox is closed and empty."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                began = time.monotonic()
                key = next(iter(self._waiting))
                fraction, words = self._waiting.pop(key)
            attempt(listener.update, key, fraction, words)
            rest = self._throttle.rest(time.monotonic() - began)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, rest)
