"""`dreamer status`: show how far every stage, model and seed of a study is, here or on another machine; reads only."""

from __future__ import annotations

import argparse
import time
from collections import Counter

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flows.commands.tables import console, empty_table
from flows.plan import Plan
from flows.states import RUNNING, State, overall, read_states
from flows.study.configuration import Study
from flows.study.loading import load_study
from flows.watching.single import runs_elsewhere
from reports.text.numbers import duration

WATCH_SECONDS = 2.0
STYLES = {"running": "bold", "failed": "bold red", "stopped": "yellow", "waiting": "dim"}
COLUMNS = ("stage", "model", "seed", "state", "progress", "rate", "time left", "")
NUMBERS = ("seed", "progress", "rate", "time left")


def status(options: argparse.Namespace) -> int:
    """Print the states of a study once, or with `--watch` until no process runs the study.

    Returns 1 where a training or evaluation has failed, else 0.
    """
    study = load_study(options.study, root=options.root)
    page, state = _page(study)
    if not options.watch:
        console.print(page)
        return int(state == "failed")
    with Live(page, console=console, auto_refresh=False) as live:
        while state == RUNNING:
            time.sleep(WATCH_SECONDS)
            page, state = _page(study)
            live.update(page, refresh=True)
    console.print()
    return int(state == "failed")


def _page(study: Study) -> tuple[Group, str]:
    """Build what is shown of a study, and return its state."""
    plan = Plan(study)
    runner, states = runs_elsewhere(study), read_states(plan)
    state = overall(states, runs=bool(runner))
    counts = Counter(one.state for one in states)
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    title = f"{study.study_id}: {state}" + (f" ({runner})" if runner else "")
    place = Text(f"{words}; {study.folder.resolve()}", style="dim")
    return Group(Text(title, style="bold"), _table(states), place), state


def _table(states: list[State]) -> Table:
    table = empty_table((column, column in NUMBERS) for column in COLUMNS)
    for one in states:
        table.add_row(
            one.stage,
            one.model,
            "" if one.seed is None else str(one.seed),
            one.state,
            f"{one.progress:.0%}" if one.progress else "",
            one.rate,
            "" if one.left is None else duration(one.left),
            one.detail,
            style=STYLES.get(one.state),
        )
    return table
