"""`dreamer status`: show how far every stage, model and seed of a study is, here or on another
machine; reads only."""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dreamer_study.flows.commands.states import DATA_STAGES, RUNNING, State, overall, read_states
from dreamer_study.flows.commands.tables import console, empty_table, printable
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.study_lock import runs_elsewhere
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.reports.text.numbers import duration

A_SECOND = 1 / 3  # looks: one at a hundred models and seeds takes a hundredth of its time
AROUND = 11  # lines of a page besides its rows, at most
BAR = 40  # columns
# the most urgent first
STYLES = {"running": "bold", "failed": "bold red", "stopped": "yellow", "waiting": "dim"}
COLUMNS = ("stage", "model", "seed", "state", "done", "left", "")
NUMBERS = ("seed", "done", "left")


def status(options: argparse.Namespace) -> int:
    """Print the states of a study once, or with `--watch` until no process runs the study.

    Returns 1 where a training or evaluation has failed, else 0.
    """
    watch = Watch(load_study(options.study, root=options.root))
    watch.look()
    # in a pipe the page is printed once, at the end
    with Live(watch, console=console, refresh_per_second=A_SECOND):
        while options.watch and watch.state == RUNNING:
            time.sleep(1 / A_SECOND)
            watch.look()  # in a pipe nothing else does
    console.print(end="" if console.is_terminal else "\n")  # where Live ends no line
    return int(watch.state == "failed")


class Watch:
    """Look at a study each time it is shown; what was done since the first look tells the time
    left.

    On a terminal only urgent states have rows, as many as fit; the lines below count all states.
    """

    def __init__(self, study: Study) -> None:
        self._study, self._first = study, (0.0, math.inf)
        self.state, self.states, self._title, self._speed = (
            RUNNING,
            list[State](),
            study.study_id,
            0.0,
        )

    def look(self) -> None:
        """Read the states of the study."""
        runner, self.states = runs_elsewhere(self._study), read_states(Plan(self._study))
        self.state = overall(self.states, runs=bool(runner))
        self._title = f"{self._study.study_id}: {self.state}" + (f" ({runner})" if runner else "")
        now, (done, _) = time.monotonic(), work(self.states)
        if done <= self._first[1]:  # also where a search has ended, whose trainings count no more
            self._first = (now, done)
        self._speed = (done - self._first[1]) / max(now - self._first[0], 1e-9)

    def __rich_console__(self, screen: Console, _: ConsoleOptions) -> Iterator[RenderableType]:
        with suppress(OSError, ValueError, KeyError):  # files change while they are read
            self.look()
        rows = max(1, screen.height - AROUND)
        yield line(self._title, "bold")
        yield line(bar(self.states, self._speed))
        yield (
            table(urgent(self.states)[:rows], fits=True)
            if screen.is_terminal
            else table(self.states)
        )
        yield from (
            line(text, "dim") for text in (*counts(self.states), str(self._study.folder.resolve()))
        )


def line(text: str, style: str = "") -> Text:
    """Make a line that is cut where the terminal ends."""
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def work(states: Sequence[State]) -> tuple[float, float]:
    """Count the trainings and evaluations that are done, and those that are left, with parts of
    them."""
    models = [one for one in states if one.model]
    left = sum(1 - one.progress for one in models if one.state in ("running", "stopped", "waiting"))
    return sum(one.progress for one in models), left


def urgent(states: Sequence[State]) -> list[State]:
    """List the states that run, have failed or were stopped, else the first that waits."""
    found = sorted(
        (one for one in states if one.state in STYLES), key=lambda one: [*STYLES].index(one.state)
    )
    return [one for one in found if one.state != "waiting"] or found[:1]


def counts(states: Sequence[State]) -> list[str]:
    """Say in a line for each state how many trainings, evaluations and stages of the data are in
    it."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for one in states:
        found[one.state]["data" if one.stage in DATA_STAGES else one.stage] += 1
    return [
        f"{state:<9} {', '.join(f'{stage} {count}' for stage, count in of.items())}"
        for state, of in found.items()
    ]


def bar(states: Sequence[State], speed: float) -> str:
    """Draw how far a whole study is, with the time left or at least that of the longest row."""
    (done, left), own = work(states), [one.left for one in states if one.left is not None]
    ended = {one.state for one in states} <= {"complete", "screened"}
    fraction = 1.0 if ended else min(done / (done + left or 1), 0.99)
    words = f"at least {duration(max(own))} left" if own else "time left not known yet"
    words = f"{duration(left / speed)} left" if speed and left else words
    return f"{'━' * int(fraction * BAR):·<{BAR}}  {fraction:.0%}  {'' if ended else words}"


def table(states: Sequence[State], *, fits: bool = False) -> Table:
    """Build a table with a row for each state; with `fits` long cells are cut to the width of the
    terminal."""
    shown = empty_table(((column, column in NUMBERS) for column in COLUMNS), overflow="ellipsis")
    shown.expand, shown.columns[-1].ratio = fits, 1
    for one in states:
        seed = "" if one.seed is None else str(one.seed)
        done = f"{one.progress:.0%}" if one.progress else ""
        left = "" if one.left is None else duration(one.left)
        words = one.stage, one.model, seed, one.state, done, left, one.detail
        # a console may take brackets in a text for markup
        cells = (Text(printable(word)) for word in words)
        shown.add_row(*cells, style=STYLES.get(one.state))
    return shown
