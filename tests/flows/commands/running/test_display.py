"""What a pipe and a log file get of a study that runs; and where text is coloured."""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import pytest

from dreamer_study.flows.commands.running import display
from dreamer_study.flows.commands.running.display import Troubles, lines_of_totals
from dreamer_study.flows.commands.running.status import Watch, totals
from dreamer_study.flows.commands.states import State
from dreamer_study.flows.commands.tables import coloured
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.colour import FAILED, has_colour, painted
from tests.flows.by_hand import Planned
from tests.waiting import until


def test_totals_count_what_has_ended() -> None:
    trained = [State("train", "LA-2", seed, "complete", 1.0) for seed in range(3)]
    states = [
        State("clean", state="complete", progress=1.0),
        State("deduplicate", state="running"),
        *trained,
        State("train", "LA-2", 3, "screened", 0.25),
        State("train", "LA-2", 4, "failed", 0.5),
        State("evaluate", "LA-2", 0, "running", 0.5),
        State("report"),
    ]
    said = totals(states)
    for part in ("1 of 2 stages", "deduplicate", "4 of 5 trainings", "0 of 1 evaluations"):
        assert part in said
    assert "1 failed" in said
    assert "stages" not in totals(trained), "what is done is not said again"


@pytest.mark.slow
def test_a_pipe_gets_a_line_now_and_then_and_not_one_a_report(
    prepared: Callable[..., Plan], capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[str] = []

    def lines() -> list[str]:
        written.extend(capsys.readouterr().err.splitlines())
        return written

    watch = Watch(prepared().study)
    with reports.listening(Troubles()), lines_of_totals(watch, 0.2):
        for number in range(500):
            reports.report("train LA-2 seed 0", number / 500, f"loss {number}")
        until(lambda: len(lines()) >= 3)
    count = len(lines())
    time.sleep(0.5)
    assert len(lines()) == count, "nothing is written after the end"
    assert all(" trainings" in line and "loss" not in line for line in written)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("failed: no memory", "train LA-2 seed 0: failed: no memory\n"),
        (
            "loss 1.2, stalled since 2026-11-28 10:00:00, process 7 on a",
            "train LA-2 seed 0: stalled since 2026-11-28 10:00:00, process 7 on a\n",
        ),
        ("loss 1.2", ""),
    ],
)
def test_a_failure_or_a_silent_process_is_told_at_once_and_once(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with reports.listening(Troubles()):
        for _ in range(3):
            reports.report("train LA-2 seed 0", 0.5, words)
    assert capsys.readouterr().err == told


def test_a_process_that_falls_silent_again_is_told_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    silent = "stalled since 2026-11-28 10:00:00, process 7 on a"
    with reports.listening(Troubles()):
        for words in (silent, "loss 1.2", silent):
            reports.report("train", 0.5, words)
    assert capsys.readouterr().err.count("\n") == 2


@pytest.mark.slow
def test_a_run_in_a_pipe_begins_and_ends_with_a_line(
    prepared: Planned, capsys: pytest.CaptureFixture[str]
) -> None:
    study = prepared().study
    with display.shown(study):
        reports.report("train LA-2 seed 0", 0.5, "loss 1.2")
        reports.report("results file", 0.0, "held by process 7")
    first, about_the_file, last = capsys.readouterr().err.splitlines()
    assert first.startswith(study.study_id)
    assert "results file" in about_the_file
    assert " after " in last


@pytest.mark.slow
@pytest.mark.parametrize(("verbosity", "lines"), [(reports.QUIET, 0), (reports.VERBOSE, 1)])
def test_a_quiet_run_writes_nothing_and_a_verbose_one_every_report(
    verbosity: str, lines: int, prepared: Planned, capsys: pytest.CaptureFixture[str]
) -> None:
    with reports.writing(verbosity), display.shown(prepared().study):
        reports.report("train LA-2 seed 0", 0.5, "loss 1.2")
    assert capsys.readouterr().err.count("loss 1.2") == lines


class Stream(io.StringIO):
    """A stream that is a terminal or not."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(
    ("variables", "is_terminal", "colours"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_where_text_is_coloured(
    variables: dict[str, str],
    is_terminal: bool,
    colours: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = Stream(is_terminal)
    assert has_colour(stream) == colours
    assert ("\x1b[" in painted("failed", FAILED, stream)) == colours


@pytest.mark.parametrize(
    ("text", "has_style"),
    [
        ("significant", True),
        ("significant; at most, as the rate decays", True),
        ("not significant", False),
        ("failed", True),
        ("failedx", False),
        ("", False),
        ("≥1.2", False),
    ],
)
def test_only_what_one_looks_for_is_coloured(text: str, has_style: bool) -> None:
    assert bool(coloured(text).style) == has_style
