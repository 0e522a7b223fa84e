"""`dreamer status`: show how far every stage, model and seed of a study is; reads only.

The study may run on another machine that shares its folder.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.states import DATA_STAGES, RUNNING, State, overall, read_states
from dreamer_study.flows.commands.tables import console, empty_table, printable
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.colour import DIM, FAILED, WARNING
from dreamer_study.flows.progress.reports import MOST_UNDONE
from dreamer_study.flows.progress.study_lock import runs_elsewhere
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.reports.text.numbers import duration

A_SECOND = 1 / 3  # looks: one at a hundred models and seeds takes a hundredth of its time
NEXT = "next"  # the state of what waits first, while nothing is at work
AROUND = 11  # lines of a page besides its rows, at most
BAR = 40  # columns
# the most urgent first
STYLES = {
    "running": "bold",
    "failed": FAILED,
    "stopped": WARNING,
    NEXT: "bold",
    "waiting": DIM,
}
NOUNS = {"tune": "trainings of the search", "train": "trainings", "evaluate": "evaluations"}
COLUMNS = ("stage", "model", "seed", "state", "done", "left", "")
NUMBERS = ("seed", "done", "left")
ENDED = {"complete", "screened"}  # states


def status(options: argparse.Namespace) -> int:
    """Print the states of a study once, or with `--watch` until no process runs the study.

    Returns 1 where a training or evaluation has failed, else 0.
    """
    watch = Watch(load_study(options.study, root=options.root))
    watch.look()
    if options.json:
        while options.watch and watch.state == RUNNING:
            time.sleep(1 / A_SECOND)
            watch.look()
        print_document(**watch.document())
        return int(watch.state == "failed")
    # in a pipe the page is printed once, at the end
    with Live(watch, console=console, refresh_per_second=A_SECOND):
        while options.watch and watch.state == RUNNING:
            time.sleep(1 / A_SECOND)
            watch.look()  # in a pipe nothing else does
    console.print(end="" if console.is_terminal else "\n")  # where Live ends no line
    return int(watch.state == "failed")


class Watch:
    """Look at a study each time it is shown; the speed since the first look gives the time left.

    On a terminal only urgent states have rows, as many as fit; the lines below count all states.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self.name = study.study_id
        self.state = RUNNING
        self.states: list[State] = []
        self._title = study.study_id
        self._runner = ""
        self._pace = Pace()
        self.speed = 0.0  # work done in a second

    def look(self) -> None:
        """Read the states of the study."""
        runner = runs_elsewhere(self._study)
        self.states = read_states(Plan(self._study))
        self.state = overall(self.states, runs=bool(runner))
        self._runner = runner
        self._title = f"{self._study.study_id}: {self.state}"
        if runner:
            self._title += f" ({runner})"
        done, _ = work(self.states)
        self.speed = self._pace.look(time.monotonic(), done)

    def look_again(self) -> None:
        """Read the states, or keep the last ones where files change while they are read."""
        with suppress(OSError, ValueError, KeyError):
            self.look()

    def document(self) -> dict[str, Any]:
        """Return the last look as the fields of the command's JSON document."""
        return {
            "study": self._study.study_id,
            "state": self.state,
            "run_by": self._runner or None,
            "folder": self._study.folder.resolve(),
            "done": fraction_done(self.states),
            "seconds_left": seconds_left(self.states, self.speed),
            "states": [
                {
                    "stage": state.stage,
                    "model": state.model or None,
                    "seed": state.seed,
                    "state": state.state,
                    "done": state.progress,
                    "seconds_left": state.left,
                    "detail": state.detail or None,
                }
                for state in self.states
            ],
        }

    def __rich_console__(self, screen: Console, _: ConsoleOptions) -> Iterator[RenderableType]:
        self.look_again()
        yield line(self._title, STYLES.get(self.state, "bold"))
        yield line(bar(self.states, self.speed))
        if screen.is_terminal:
            most = max(1, screen.height - AROUND)
            rows = urgent(self.states, runs=self.state == RUNNING)[:most]
        else:
            rows = self.states
        if rows:
            yield table(rows, fits=screen.is_terminal)
        for name, text in counts(self.states).items():
            yield line(text, FAILED if name == "failed" else DIM)
        yield line(str(self._study.folder.resolve()), DIM)


class Pace:
    """Measure the work that is done in a second, since the first look.

    It begins again where there is less work done than at the look before: a search has ended, and
    its trainings count no more.
    """

    def __init__(self) -> None:
        self._first_time = 0.0
        self._first_done = math.inf
        self._last_done = math.inf

    def look(self, now: float, done: float) -> float:
        """Return the work done in a second; `done` is all work that is done at the time `now`."""
        has_begun = done > self._first_done
        if not has_begun or done < self._last_done:
            self._first_time, self._first_done = now, done
        self._last_done = done
        return (done - self._first_done) / max(now - self._first_time, 1e-9)


def line(text: str, style: str = "") -> Text:
    """Make a line that is cut where the terminal ends."""
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def work(states: Sequence[State]) -> tuple[float, float]:
    """Count the trainings and evaluations that are done, and those left, with parts of them."""
    of_models = [state for state in states if state.model]
    unfinished = ("running", "stopped", "waiting")
    left = sum(1 - state.progress for state in of_models if state.state in unfinished)
    return sum(state.progress for state in of_models), left


def urgent(states: Sequence[State], *, runs: bool) -> list[State]:
    """List the states that run, have failed or were stopped, and else the first that waits.

    While a process runs the study, that one is next.
    """
    order = list(STYLES)
    not_done = [state for state in states if state.state in order]
    not_done.sort(key=lambda state: order.index(state.state))
    at_work = [state for state in not_done if state.state == "running"]
    waiting = [state for state in not_done if state.state == "waiting"]
    others = [state for state in not_done if state not in at_work and state not in waiting]
    if not at_work and waiting and runs:
        return [replace(waiting[0], state=NEXT), *others]
    return [*at_work, *others] or waiting[:1]


def counts(states: Sequence[State]) -> dict[str, str]:
    """Count trainings, evaluations and stages of the data, in a line for each state."""
    by_state: dict[str, Counter[str]] = defaultdict(Counter)
    for state in states:
        kind = "data" if state.stage in DATA_STAGES else state.stage
        by_state[state.state][kind] += 1
    lines = {}
    for name, kinds in by_state.items():
        counted = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
        lines[name] = f"{name:<9} {counted}"
    return lines


def totals(states: Sequence[State]) -> str:
    """Say in one line how far a study is: `3 of 14 trainings, 1 of 8 evaluations`."""
    data = [state for state in states if state.stage in DATA_STAGES]
    unfinished = [state for state in data if state.state not in ENDED]
    parts = []
    if unfinished:
        done = len(data) - len(unfinished)
        now = [state.stage for state in unfinished if state.state == RUNNING]
        at_work = f" (now {now[0]})" if now else ""
        parts.append(f"{done} of {len(data)} stages of the data{at_work}")
    for stage, noun in NOUNS.items():
        of_stage = [state for state in states if state.stage == stage]
        ended = [state for state in of_stage if state.state in ENDED]
        if of_stage:
            parts.append(f"{len(ended)} of {len(of_stage)} {noun}")
    failed = [state for state in states if state.state == "failed"]
    if failed:
        parts.append(f"{len(failed)} failed")
    parts += [state.detail for state in states if state.stage == "report" and state.detail]
    return ", ".join(parts)


def fraction_done(states: Sequence[State]) -> float:
    """Return the share of the work of a study that is done; below 1 while anything is left."""
    if {state.state for state in states} <= ENDED:
        return 1.0
    done, left = work(states)
    return min(done / (done + left or 1), MOST_UNDONE)


def seconds_left(states: Sequence[State], speed: float) -> float | None:
    """Estimate the seconds that are left from the work per second; None where unknown.

    At least those of the row that takes longest: a slow model may have all its work still to come.
    """
    _, left = work(states)
    if fraction_done(states) >= 1 or not (speed and left):
        return None
    return max(left / speed, longest_row(states) or 0)


def longest_row(states: Sequence[State]) -> float | None:
    """Return the seconds that are left of the row that takes longest; None where unknown."""
    return max((state.left for state in states if state.left is not None), default=None)


def bar(states: Sequence[State], speed: float) -> str:
    """Draw how far a whole study is, with the time left."""
    fraction = fraction_done(states)
    return f"{'━' * int(fraction * BAR):·<{BAR}}  {fraction:.0%}  {time_left(states, speed)}"


def time_left(states: Sequence[State], speed: float) -> str:
    """Say how long a study still takes, or at least how long its longest row takes."""
    if fraction_done(states) >= 1:
        return ""
    if {state.stage for state in states if state.state not in ENDED} == {"report"}:
        return "only the report is left"
    seconds = seconds_left(states, speed)
    if seconds is not None:
        return f"{duration(seconds)} left"
    longest = longest_row(states)
    return "time left not known yet" if longest is None else f"at least {duration(longest)} left"


def table(states: Sequence[State], *, fits: bool = False) -> Table:
    """Build a table with a row for each state; with `fits` long cells are cut to the terminal."""
    rows = empty_table(((column, column in NUMBERS) for column in COLUMNS), overflow="ellipsis")
    rows.expand = fits
    rows.columns[-1].ratio = 1
    for state in states:
        seed = "" if state.seed is None else str(state.seed)
        done = f"{state.progress:.0%}" if state.progress else ""
        left = "" if state.left is None else duration(state.left)
        texts = (state.stage, state.model, seed, state.state, done, left, state.detail)
        # a console may take brackets in a text for markup
        cells = (Text(printable(text)) for text in texts)
        rows.add_row(*cells, style=STYLES.get(state.state))
    return rows
