"""What a terminal shows of a study that runs, however many models and seeds it has; looked at in
tmux."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from dreamer_study.flows.commands.running.status import (
    Pace,
    Watch,
    bar,
    counts,
    table,
    urgent,
    work,
)
from dreamer_study.flows.commands.states import State
from dreamer_study.flows.plan.study_plan import Plan
from tests.faults.processes import DREAMER, environment
from tests.flows.by_hand import study_file
from tests.flows.small_study import PROJECT
from tests.waiting import until

WIDTH, HEIGHT = 80, 24

# A run of which only the display is real: two trainings of 72 and an evaluation go on, and never
# end.
RUN = """
import json, sys, time
from rich.console import Console
from rich.live import Live
from dreamer_study.flows.commands.running.display import STAGES
from dreamer_study.flows.commands.running.status import Watch
from dreamer_study.flows.running.job_progress import Followed
from dreamer_study.flows.jobs import Event, Job
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.status_file import recorded
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.pipeline.storage.files import write_text_atomically
study = load_study(sys.argv[1], root=sys.argv[2])
told = reports.listening(reports.Lines(without=STAGES))
with Live(Watch(study), console=Console(stderr=True)), told, only_run(study), recorded(study):
    first, second, third = Plan(study).runs[-3:]
    followed = Followed(Plan(study))
    jobs = {one.name: Job("training", one.training_name, "", (), one.folder, one.folder, goal=24_000)
            for one in (first, second)}
    reports.report("Prefect's server", 1.0, "http://127.0.0.1:4200")
    for tokens in range(100, 24_000, 10):
        for run in first, second:
            run.folder.mkdir(parents=True, exist_ok=True)
            told = {"tokens": tokens, "loss": 2.5, "tokens_per_second": 20.0, "seconds_left": 1200.0}
            write_text_atomically(run.folder / "progress.json", json.dumps(told))
            followed.tell(Event(jobs[run.name], "progress"))
        reports.report(f"evaluate {third.name}", 0.0, "0 of 4 checkpoints")
        time.sleep(0.5)
"""


@pytest.fixture
def tmux() -> Iterator[Callable[..., str]]:
    """A tmux server of this test alone, with windows as small as terminals begin; skips where there
    is no tmux."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    with tempfile.TemporaryDirectory() as folder:  # a short path, as sockets need

        def call(*arguments: str) -> str:
            command = ["tmux", "-S", f"{folder}/socket", "-f", "/dev/null", *arguments]
            return subprocess.run(
                command, env=environment(), capture_output=True, text=True, check=True
            ).stdout

        call("new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), "sleep 1000000")
        yield call
        call("kill-server")


@pytest.mark.slow
def test_a_running_row_and_the_time_left_are_seen_of_seventy_two_runs(
    tmux: Callable[..., str], prepared: Callable[..., Plan], tmp_path: Path
) -> None:
    changes = {"training": {"seeds": list(range(24)), "screening": 0}}
    root = str(prepared(**changes).study.folder)
    path, windows = str(study_file(tmp_path, **changes)), {}
    for name, command in (
        ("run", (sys.executable, "-c", RUN, path, root)),
        ("status", (str(DREAMER), "status", path, "--root", root, "--watch")),
    ):
        window = tmux(
            "new-window", "-d", "-P", "-F", "#{pane_id}", "-c", str(PROJECT), *command
        ).strip()

        def shown(window: str = window) -> str:
            return tmux("capture-pane", "-p", "-t", window)

        until(
            lambda shown=shown: re.search(
                r"·  .*\d.* left\n.* checkpoin", shown(), re.MULTILINE | re.DOTALL
            )
        )
        windows[name] = shown()
    for text in windows.values():
        lines = text.splitlines()
        (bar,) = [line for line in lines if "·" in line]
        assert re.search(r"\d+%  .*\d.* left$", bar), text
        assert re.search(
            r"^train +DR\+DA +2[12] +running +\d+% +\d.* loss 2.500, 20 tok", text, re.MULTILINE
        ), text
        assert re.search(r"^evaluate +DR\+DA +23 +running +0 of 4 checkpoin", text, re.MULTILINE), (
            text
        )
        assert "running   train 2, evaluate 1" in lines
        assert "waiting   train 70, evaluate 71, report 1" in lines
        assert len([line for line in lines if line]) <= HEIGHT - 2
    assert re.search(r"Prefect's server +100%  http://127.0.0.1:4200", windows["run"])


MANY = [
    State("clean", state="complete", progress=1.0),
    *(State("train", "LA-2", seed, "complete", 1.0) for seed in range(30)),
    State("train", "DA-2", 0, "failed", 0.2, detail="no memory"),
    *(
        State("train", "DR-2", seed, "running", 0.5, 60.0, "loss " + "2.5 " * 50)
        for seed in range(30)
    ),
    *(State("train", "DA-2", seed) for seed in range(1, 9)),
    State("report"),
]


def test_what_runs_comes_first_then_failures_and_what_waits_where_nothing_runs() -> None:
    assert urgent(MANY, runs=True) == [*MANY[32:62], MANY[31]]
    assert counts(MANY) == {
        "complete": "complete  data 1, train 30",
        "failed": "failed    train 1",
        "running": "running   train 30",
        "waiting": "waiting   train 8, report 1",
    }


def test_between_two_jobs_the_first_that_waits_is_next() -> None:
    begun = State("train", "LA-2", 0, progress=0.55)
    states = [State("clean", state="complete"), begun, State("train", "LA-2", 1), State("report")]
    (shown,) = urgent(states, runs=True)
    assert (shown.model, shown.state, shown.progress) == ("LA-2", "next", 0.55)
    assert urgent(states, runs=False) == [begun], "of a study that nobody runs nothing is next"
    failed = State("train", "DA-2", 0, "failed")
    assert [one.state for one in urgent([*states, failed], runs=True)] == ["next", "failed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("states", "has_head"),
    [
        ([State("train", "LA-2", 0, "complete", 1.0), State("report", state="complete")], False),
        ([State("train", "LA-2", 0, "running", 0.5)], True),
    ],
)
def test_a_table_without_rows_has_no_head(
    states: list[State], has_head: bool, prepared: Callable[..., Plan]
) -> None:
    watch = Watch(prepared().study)
    watch.look = lambda: None
    watch.states = states
    screen = Console(width=WIDTH, force_terminal=True, color_system=None)
    with screen.capture() as captured:
        screen.print(watch)
    assert ("stage" in captured.get()) == has_head


def test_a_row_is_one_line_and_only_its_words_are_cut() -> None:
    console = Console(width=WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table(urgent(MANY, runs=True), fits=True))
    lines = captured.get().replace("\u202f", " ").splitlines()  # a thin space before a unit
    assert len(lines) == 1 + 31
    assert max(map(len, lines)) <= WIDTH
    assert lines[1].startswith("train  DR-2      0  running   50%  60 s  loss 2.5 ")
    assert lines[1].endswith("…")


def test_the_time_left_is_that_of_all_trainings_and_at_least_that_of_the_longest_row() -> None:
    assert work(MANY) == (30 + 15 + 0.2, 15 + 8)
    for states, speed, words in (
        (MANY, 0.25, "66%  92 s left"),
        (MANY, 0.5, "66%  60 s left"),  # 46 s by the pace of all, 60 s of the slowest row
        (MANY, 0.0, "66%  at least 60 s left"),
        (MANY[-9:], 0.0, "0%  time left not known yet"),
        (MANY[:31], 0.5, "100%  "),
        ([*MANY[:31], State("report", state="running")], 0.5, "99%  only the report is left"),
    ):
        assert bar(states, speed).replace("\u202f", " ").endswith(words)


@pytest.mark.parametrize(
    "detail", ["cannot write [/data/x]", "[enforce fail at alloc.cpp] no memory", "[link=x]y"]
)
def test_brackets_in_what_a_training_says_are_shown_and_end_nothing(detail: str) -> None:
    screen = Console(width=120, force_terminal=True, color_system=None)  # as `dreamer run` has it
    with screen.capture() as captured:
        screen.print(table([State("train", "LA-2", 0, "failed", detail=detail)], fits=True))
    assert detail in captured.get()


def test_the_pace_begins_again_where_the_trainings_of_a_search_count_no_more() -> None:
    pace = Pace()
    speeds = [pace.look(now, done) for now, done in ((0, 0), (10, 0), (20, 1), (110, 10))]
    assert speeds == [0, 0, 0.1, 0.1]
    assert pace.look(2110, 210) == pytest.approx(0.1)
    # the search has ended: in the first ten seconds after, a hundredth of a training
    speeds = [pace.look(now, done) for now, done in ((2120, 0.01), (2130, 0.11))]
    assert speeds == pytest.approx([0, 0.01])
