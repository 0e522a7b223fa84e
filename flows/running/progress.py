"""What a person sees while a study runs: one line for each piece of work, with the time left.

The plain functions report to `progress.report(key, fraction, words)` and do not know who listens: a terminal (rich), a
log file or pipe (a plain line now and then), or Prefect (progress artifacts), as the flow or the command has chosen.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, Protocol


class Listener(Protocol):
    """Somebody who wants to know how far the work is."""

    def update(self, key: str, fraction: float, words: str) -> None: ...


_listeners: list[Listener] = []
_lock = threading.Lock()


def report(key: str, fraction: float, words: str = "") -> None:
    """Tell all listeners that the piece of work `key` is `fraction` (0 to 1) done; `words` says where it is."""
    with _lock:
        for listener in _listeners:
            listener.update(key, min(max(fraction, 0.0), 1.0), words)


@contextmanager
def listening(listener: Listener) -> Iterator[Listener]:
    """Pass every report within the block to `listener`."""
    _listeners.append(listener)
    try:
        yield listener
    finally:
        _listeners.remove(listener)


@contextmanager
def on_terminal() -> Iterator[None]:
    """Live bars when standard error is a terminal, else one line whenever something has moved by a tenth."""
    if not sys.stderr.isatty():
        with listening(Lines()):
            yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<26}"),
        BarColumn(24),
        TextColumn("{task.percentage:>4.0f} %"),
        TimeElapsedColumn(),
    )
    with (
        Progress(*columns, TextColumn("{task.fields[words]}"), console=Console(stderr=True)) as bars,
        listening(Bars(bars)),
    ):
        yield


class Bars:
    """Rich progress bars, one for each key in order of appearance."""

    def __init__(self, bars: Any) -> None:
        self.bars, self.tasks = bars, dict[str, Any]()

    def update(self, key: str, fraction: float, words: str) -> None:
        if key not in self.tasks:
            self.tasks[key] = self.bars.add_task(key, total=1.0, words=words)
        self.bars.update(self.tasks[key], completed=fraction, words=words)


class Lines:
    """A plain line at the start, at every tenth and at the end of each piece of work."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.last: dict[str, int] = {}

    def update(self, key: str, fraction: float, words: str) -> None:
        step = int(fraction * 10)
        if self.last.get(key) == step:
            return
        self.last[key] = step
        seconds = time.monotonic() - self.started
        # Not print: Prefect takes that over inside a flow.
        sys.stderr.write(f"{seconds:7.1f} s  {key:<28} {fraction:4.0%}  {words}".rstrip() + "\n")
        sys.stderr.flush()


class Artifacts:
    """Progress artifacts and log lines of the flow run that made this object, at most one update in two seconds a key.

    Reports come from worker threads, which know no flow run: artifacts are made in the context of the maker. A server
    that does not answer costs the progress in its UI, not the study.
    """

    def __init__(self) -> None:
        self.context = copy_context()
        self.artifacts: dict[str, Any] = {}
        self.seen: dict[str, float] = {}
        self.broken = False

    def update(self, key: str, fraction: float, words: str) -> None:
        now = time.monotonic()
        if self.broken or (key in self.seen and fraction < 1 and now - self.seen[key] < 2):
            return
        self.seen[key] = now
        try:
            self.context.run(self._send, key, fraction, words)
        except Exception as error:  # whatever the client and its transport may raise
            self.broken = True
            sys.stderr.write(f"no more progress in Prefect's UI: its server did not take an artifact ({error})\n")

    def _send(self, key: str, fraction: float, words: str) -> None:
        from prefect import get_run_logger
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        if fraction >= 1:
            get_run_logger().info("%s: %s", key, words)
        if key in self.artifacts:
            update_progress_artifact(self.artifacts[key], progress=fraction * 100)
            return
        slug = "-".join("".join(c if c.isalnum() else " " for c in key.lower()).split())
        description = f"{key}: {words}"
        self.artifacts[key] = create_progress_artifact(progress=fraction * 100, key=slug, description=description)
