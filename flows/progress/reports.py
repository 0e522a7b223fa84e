"""Report progress to whoever listens: lines on standard error, the status file, a function.

Stages call `report(key, fraction, words)` and `write_line(text)`; the flow, the command or a Python
program chooses who hears them. The listeners belong to the context (`contextvars`) in which a study
is run, so that two studies of one process are told apart; a thread that works for a study runs in
its context. A child process writes its progress into a file (`model/training/recorder.py`).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar
from unicodedata import category

from dreamer_study.flows.progress.colour import WARNING, painted
from dreamer_study.flows.progress.folding import fold, width_of

MOST_UNDONE = 0.99  # the largest fraction of work that is not done: shown as 99 %
FAILURE = "failed: "  # begins the words of what has failed
WARNS = "WARNING:"  # begins a line that warns
# after which a process counts as silent: a training tells of every step, an evaluation of batches
SILENT_SECONDS = {"training": 60, "evaluation": 600}

QUIET = "quiet"  # nothing but answers and errors
NORMAL = "normal"
VERBOSE = "verbose"  # every report of progress, at most one of a key in a second
VERBOSE_SECONDS = 1.0

# listeners are told one thing at a time; one of them may write a line
_lock = threading.RLock()
_verbosity = [NORMAL]  # of this process, the newest last


class Listener(Protocol):
    """Who hears of progress."""

    def update(self, key: str, fraction: float, words: str) -> object:
        """Hear that `fraction` (0 to 1) of the work `key` is done."""


Heard = TypeVar("Heard", bound=Listener)


def report(key: str, fraction: float, words: str = "") -> None:
    """Tell all listeners that `fraction` (0 to 1) of the work `key` is done.

    `words` adds detail, such as the time that is left. No work depends on what
    listeners write: a full disk or a reader that has gone ends none.
    """
    with _lock:
        for listener in _listeners.get():
            with suppress(OSError):
                listener.update(key, bounded(fraction), words)


def bounded(fraction: float) -> float:
    """Keep a fraction between 0 and 1, and that of unfinished work at most MOST_UNDONE."""
    if fraction >= 1:
        return 1.0
    return min(max(fraction, 0.0), MOST_UNDONE)


def printable(text: str) -> str:
    """Escape control characters of data, which would steer the terminal.

    Spaces and ends of lines stay.
    """
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    is_space = character == "\n" or category(character) == "Zs"
    if character.isprintable() or is_space:
        return character
    return character.encode("unicode_escape").decode()


@contextmanager
def writing(verbosity: str) -> Iterator[None]:
    """Write as much to standard error as a verbosity asks for, within the block."""
    _verbosity.append(verbosity)
    try:
        yield
    finally:
        _verbosity.pop()


def is_quiet() -> bool:
    """Tell whether nothing but answers and errors is to be written."""
    return _verbosity[-1] == QUIET


def is_verbose() -> bool:
    """Tell whether every report of progress is to be written."""
    return _verbosity[-1] == VERBOSE


def write_line(text: str) -> None:
    """Write a line to standard error, or hand the line to the function of `writing_to`."""
    write = _writer.get()
    with _lock:
        write(text)


def _to_standard_error(text: str) -> None:
    """Write a line to standard error, if anybody can read the line there, and wants to."""
    if is_quiet():
        return
    line = fold(printable(text), width_of(sys.stderr), "  ")
    if line.startswith(WARNS):
        line = painted(WARNS, WARNING, sys.stderr) + line.removeprefix(WARNS)
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")  # not print: Prefect takes that over inside a flow
        sys.stderr.flush()


def end_now(status: int) -> NoReturn:
    """End this process once its output is flushed, without waiting for threads of libraries."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())
_writer: ContextVar[Callable[[str], object]] = ContextVar("writer", default=_to_standard_error)


@contextmanager
def listening(listener: Heard) -> Iterator[Heard]:
    """Pass every report within the block to `listener` too."""
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield listener
    finally:
        _listeners.reset(token)


@contextmanager
def writing_to(write: Callable[[str], object]) -> Iterator[None]:
    """Hand every line of `write_line` within the block to a function."""
    token = _writer.set(write)
    try:
        yield
    finally:
        _writer.reset(token)


class Lines:
    """Write a plain line at the start, at every tenth, at the end and at a failure of each key.

    Keys that begin with `without` are passed over. Where much is to be written, each key has a line
    for every report that says something new, at most one in a second.
    """

    def __init__(self, without: tuple[str, ...] = ()) -> None:
        self.started = time.monotonic()
        self.without = without
        self.last: dict[str, float | str] = {}  # the step of each key that was written last
        self.told: dict[str, str] = {}  # what the last line of each key says

    def update(self, key: str, fraction: float, words: str) -> None:
        seconds = time.monotonic() - self.started
        step: float | str = int(fraction * 10)
        if words.startswith(FAILURE):
            step = words
        elif is_verbose() and fraction < 1:
            step = seconds // VERBOSE_SECONDS
        said = f"{key:<28} {fraction:4.0%}  {words}".rstrip()
        is_same = self.last.get(key) == step or self.told.get(key) == said
        if is_same or key.startswith(self.without):
            return
        self.last[key] = step
        self.told[key] = said
        write_line(f"{seconds:7.1f} s  {said}")


def read_progress(path: Path) -> dict[str, Any]:
    """Read the progress file of a process; an empty dictionary where no whole file is there."""
    try:
        values = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def silence(path: Path, kind: str, started: float) -> str:
    """Say since when a living process has written no progress, and which process that is.

    `started` is the time at which the process was started: an older file is of another process.
    Returns "" where something was written a short time ago.
    """
    written = 0.0
    with suppress(FileNotFoundError, NotADirectoryError):
        written = path.stat().st_mtime
    last = max(written, started)
    if time.time() - last < SILENT_SECONDS[kind]:
        return ""
    process = "process unknown"
    state = read_progress(path) if written >= started else {}
    if "process" in state:
        process = f"process {state['process']} on {state['machine']}"
    return f"stalled since {datetime.fromtimestamp(last):%F %T}, {process}"
