"""Results and reports as commands print them; commands that are stopped, or end without room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import psutil
import pytest
from rich.console import Console

import dreamer_study.flows.running.beginning
from dreamer_study.flows.commands import tables
from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.results import report as command
from dreamer_study.flows.commands.results.printing import print_part
from dreamer_study.flows.commands.running.status import table as states
from dreamer_study.flows.commands.states import State
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.model.processes import STOPPING
from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.tables.cells import left, table
from tests.flows.small_study import PROJECT, small_study
from tests.full_disk import no_space
from tests.reports.small_results import (
    RIGHT,
    STUDY,
    curation,
    entered,
    evaluations,
    models_and_runs,
    study,
)
from tests.sql.empty import empty_file
from tests.waiting import PATIENCE_SECONDS, until


@pytest.mark.slow
def test_the_report_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = models_and_runs("LA", "DR") | {"curation": curation()}
    for variant in ("LA", "DR"):
        made["evaluations"] += evaluations(variant, RIGHT[variant])["evaluations"]
    database = entered(tmp_path / "results.duckdb", made, replicates=1)
    assert main(["report", str(database), "--text"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(
        "DR took 0.28 times as many training tokens as LA to reach accuracies of 44 to 50 % (no CI:"
    )
    assert "! One seed" in said
    assert "Compared Depth What it is Parameters" in said
    assert "Model Depth GSM8K Acc ↑" in said
    assert "folded away: " in said
    assert "Of 1,000 documents" in said
    assert not (tmp_path / "report").exists()


@pytest.mark.slow
def test_a_price_is_on_the_page_and_in_the_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    database = entered(tmp_path / "results.duckdb", models_and_runs("LA", "DR"))
    words = "At 2.5 for a core-hour the 4.06 core-hours cost 10.14"
    assert main(["report", str(database), "--text", "--price", "2.5"]) == 0
    assert words in " ".join(capsys.readouterr().out.split())
    assert main(["report", str(database), "--price", "2.5"]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert words in page.read_text()
    assert main(["report", str(database)]) == 0
    assert "for a core-hour" not in page.read_text()


@pytest.mark.slow
def test_no_word_of_a_report_is_broken_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = models_and_runs("LA", "DR") | {"curation": curation()}
    for variant in ("LA", "DR"):
        made["evaluations"] += evaluations(variant, RIGHT[variant])["evaluations"]
    database = entered(tmp_path / "results.duckdb", made, replicates=1)
    words = {}
    for columns in (200, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        capsys.readouterr()
        assert main(["report", str(database), "--text"]) == 0
        printed = capsys.readouterr().out
        assert max(map(len, printed.splitlines())) <= min(columns, 100)
        words[columns] = {*printed.split()}
    assert words[80] == words[200]


@pytest.mark.slow
def test_rows_that_enter_while_the_first_page_is_written_are_drawn_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database, watched = entered(tmp_path / "results.duckdb", {"studies": [study()]}), []
    before = database.stat().st_mtime_ns

    def rows_enter(*_: object, price: float | None) -> Path:
        os.utime(database, ns=(before + 1, before + 1))
        return tmp_path / "report" / "index.html"

    monkeypatch.setattr("dreamer_study.reports.page.report.write_report", rows_enter)
    monkeypatch.setattr(
        "dreamer_study.reports.page.serving.watch", lambda *given: watched.append(given)
    )
    assert main(["report", str(database), "--watch"]) == 0
    assert watched[0][2] == before < database.stat().st_mtime_ns


@pytest.mark.slow
def test_a_full_disk_is_one_line_with_the_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    database = entered(tmp_path / "results.duckdb", {"studies": [study()]})
    with no_space():
        assert main(["report", str(database)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    place = tmp_path / "report" / "index.html"
    assert line.startswith(f"dreamer: {place}: File too large; make room")


def test_the_report_of_another_study_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    database = entered(tmp_path / "results.duckdb", {"studies": [study()]})
    assert command._study_id(database, "small-changed") == STUDY
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert (
        f"holds no results of small-changed (the study file has changed); showing {STUDY}" in said
    )
    assert command._study_id(database, STUDY) == STUDY
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (9999.0, "9,999"),
        (12345.6, "12,346"),
        (524288.0, "524,288"),
        (1e6, "1,000,000"),
        (-48000.0, "-48,000"),
        (12345, "12,345"),
        (float("nan"), "-"),
        (float("inf"), "unbounded"),
        (9999.6, "10,000"),
        (0.00001234, "0.00001234"),
        (True, "True"),
        ("a \x1b[2J\x07\u202e in data", r"a \x1b[2J\x07\u202e in data"),
    ],
)
def test_numbers_have_no_exponents_and_texts_steer_no_terminal(value: object, text: str) -> None:
    assert tables.cell(value) == text


def printed(monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame, width: int) -> list[str]:
    """Return the lines of a table on a terminal of this width, or in a pipe for a width of 0."""
    shown = Console(
        width=width or 1_000_000, force_terminal=bool(width), color_system=None, highlight=False
    )
    monkeypatch.setattr(tables, "console", shown)
    with shown.capture() as captured:
        tables.print_table(table)
    return captured.get().splitlines()


WIDE = pd.DataFrame(
    {f"a_column_{number}": ["x" * 500, "y"] for number in range(6)} | {"twice": [1.5, 2.5]}
)


@pytest.mark.parametrize(
    "say",
    [
        tables.console.print,
        write_line,
        print_part,
        lambda text: print_part(table("t", text, [left(text)], [(None, [text])], text)),
        lambda text: tables.print_table(pd.DataFrame({text: [1]})),
        lambda text: tables.console.print(states([State("train", detail=text)])),
    ],
)
def test_no_name_of_a_stranger_steers_the_terminal(
    say: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    say("LA\x1b]0;mine\x07\x1b[2J\u202e took 3\u202fs")
    said = "".join(capsys.readouterr())
    assert r"LA\x1b]0;mine\x07\x1b[2J\u202e took 3" in said
    assert not {*"\x1b\x07\u202e"} & {*said}
    assert "3\u202fs" in said


def test_an_error_steers_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "study.yaml").write_text('data: {mirror: "\\e[2Js3://x"}')
    assert main(["plan", str(tmp_path / "study.yaml")]) == 2
    said = capsys.readouterr().err
    assert r"\x1b[2Js3://" in said
    assert "\x1b" not in said


def test_a_table_fits_the_terminal_and_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = printed(monkeypatch, WIDE, 80)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["a_column_0", "a_column_1", "a_column_2"]
    assert "".join(lines[1:-2]).count("x") == 3 * 500, "a cell that is shown is folded, not cut"
    said = "Not shown: a_column_3, a_column_4, a_column_5, twice. A pipe"
    assert " ".join(lines[-2:]).startswith(said)
    assert len(printed(monkeypatch, WIDE[["twice"]], 80)) == 3, "where all fits, nothing is said"


def test_no_word_of_a_table_is_broken_that_can_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["curatedthoughts-openthoughts", "nvidia/Nemotron-Pretraining-SFT-v1"]
    table = pd.DataFrame(
        {"source": [words[0], "a"], "many words": ["one two three " * 9, "b"], "of": words}
    )
    for width in (80, 100, 120):
        shown = " ".join(printed(monkeypatch, table, width))
        assert max(map(len, printed(monkeypatch, table, width))) <= width
        assert words[0] in shown
        assert (words[1] in shown) == ("Not shown: of." not in shown)
        assert {*shown.partition("Not shown")[0].split()} <= {
            *["source", "many", "words", "of", "one", "two", "three", "a", "b"],
            *words,
        }
    assert words[1] in " ".join(printed(monkeypatch, table, 100))


def test_in_a_pipe_nothing_is_cut_and_a_row_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    head, first, second = printed(monkeypatch, WIDE, 0)
    assert head.split() == list(WIDE)
    assert first.count("x") == 3000
    assert second.split() == ["y"] * 6 + ["2.5"]


ENDLESS = "select count(*) from range(1000000000000) as numbers where (range * range) % 7 = 8"


@pytest.mark.slow
@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_while_duckdb_works_is_one_line(tmp_path: Path, number: signal.Signals) -> None:
    database = empty_file(tmp_path / "results.duckdb")
    command = [
        sys.executable,
        "-m",
        "dreamer_study.flows.commands.cli",
        "sql",
        str(database),
        ENDLESS,
    ]
    process = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True)
    looked_at = psutil.Process(process.pid)
    try:
        until(lambda: str(database) in {file.path for file in looked_at.open_files()}, process)
        opened = looked_at.cpu_times().user
        # seconds: the query has begun
        until(lambda: looked_at.cpu_times().user > opened + 1, process)
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert said == "dreamer: stopped; run the same command again to continue from here\n"
    assert process.returncode == 128 + number


@pytest.mark.parametrize(
    "error", [InputError("a shard is gone"), duckdb.IOException("a shard"), OSError(2, "")]
)
@pytest.mark.parametrize("anew", [False, True])
def test_a_folder_that_was_moved_is_said_whatever_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    anew: bool,
) -> None:
    def moves(plan: Plan, *_: object) -> None:
        chosen = plan.study
        chosen.folder.rename(tmp_path / "away")
        if anew:
            chosen.folder.mkdir()
        raise error

    monkeypatch.setattr(dreamer_study.flows.running.beginning, "run_study", moves)
    root = tmp_path / "run"
    assert main(["run", str(small_study(tmp_path)), "--root", str(root), "--plain"]) == 2
    said = capsys.readouterr().err
    assert f"dreamer: {root} was moved or removed while the study ran; move it back" in said
    assert "a shard" not in said


def test_an_error_in_a_folder_that_stays_is_said_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise InputError("a shard is gone")

    monkeypatch.setattr(dreamer_study.flows.running.beginning, "run_study", fails)
    assert (
        main(["run", str(small_study(tmp_path)), "--root", str(tmp_path / "run"), "--plain"]) == 2
    )
    assert "dreamer: a shard is gone\n" in capsys.readouterr().err
