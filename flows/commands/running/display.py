"""Show a study while it runs: as a page on a terminal, as a line a minute in a pipe or a log file.

Both begin with what is to be done, tell of failures at once, and end with what was done.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context

from rich.console import Console
from rich.live import Live

from dreamer_study.flows.commands.running.status import A_SECOND, Watch, time_left, totals
from dreamer_study.flows.commands.states import DATA_STAGES
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.colour import colour_system
from dreamer_study.flows.progress.reports import FAILURE, write_line
from dreamer_study.flows.running.result_rows import COMPLETE
from dreamer_study.flows.study.configuration import Study
from dreamer_study.reports.text.numbers import duration

EVERY_SECONDS = 60.0  # between two lines in a pipe
# the reports of what the page and the totals show begin with these words
STAGES = (*DATA_STAGES, "tune ", "screen ", "train ", "evaluate ", "statistics", "write ")
STALLED = "stalled since "  # in the words of a job whose process is silent


@contextmanager
def shown(study: Study) -> Iterator[None]:
    """Show how far a study is, during the block."""
    if reports.is_quiet():
        yield
        return
    if reports.is_verbose():
        with reports.listening(reports.Lines()):
            yield
        return
    screen = Console(
        stderr=True,
        force_terminal=sys.stderr.isatty(),
        color_system=colour_system(sys.stderr),
    )
    began = time.monotonic()
    watch = Watch(study)
    others = reports.listening(reports.Lines(without=STAGES))
    if screen.is_terminal and not screen.is_dumb_terminal:
        page = Live(watch, console=screen, refresh_per_second=A_SECOND, transient=True)
        with page, others:
            yield
    else:
        with others, reports.listening(Troubles()), lines_of_totals(watch, EVERY_SECONDS):
            yield
    watch.look_again()
    end = COMPLETE if watch.state == COMPLETE else "ended"
    spent = duration(time.monotonic() - began)
    write_line(f"{watch.name}: {end} after {spent}; {totals(watch.states)}")


class Troubles:
    """Write a line at once where work fails, or its process falls silent; once for each trouble."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def update(self, key: str, fraction: float, words: str) -> None:
        """Write the trouble that a report of progress tells of."""
        _, found, since = words.partition(STALLED)
        trouble = f"{found}{since}"
        if words.startswith(FAILURE):
            trouble = words
        if trouble and self._told.get(key) != trouble:
            write_line(f"{key}: {trouble}")
        self._told[key] = trouble


@contextmanager
def lines_of_totals(watch: Watch, seconds: float) -> Iterator[None]:
    """Write a line now and then every `seconds` with how far a study is, during the block."""
    began = time.monotonic()
    ended = threading.Event()
    watch.look_again()
    write_line(f"{watch.name}: {totals(watch.states)}; a line every {duration(seconds)}")

    def tell() -> None:
        while not ended.wait(seconds):
            watch.look_again()
            spent = duration(time.monotonic() - began)
            parts = (totals(watch.states), time_left(watch.states, watch.speed))
            write_line(f"after {spent}: {', '.join(part for part in parts if part)}")

    # in this context, which knows where lines are written
    thread = threading.Thread(target=copy_context().run, args=(tell,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
