"""`dreamer items`: what it prints and stores, and the table of the next report."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.reports.data import read_study
from dreamer_study.reports.style.theme import styles
from dreamer_study.reports.tables.difficulty import difficulty
from dreamer_study.sql.results import connect, query
from tests.sql.empty import empty_file
from tests.sql.learning import enter_models

pytestmark = pytest.mark.slow

MODELS = {"LA": (1, 1, 1), "DR": (1.5, 1.5, 0.6)}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    path = enter_models(tmp_path / "r.duckdb", MODELS)
    assert main(["intervals", str(path)]) == 0
    return path


def difficulties(path: Path) -> pd.DataFrame:
    return read_study(path, "s", ("order", "difficulty")).difficulty


def test_the_answer_by_difficulty_is_said_and_stored(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["items", str(results)]) == 0
    answer = " ".join(capsys.readouterr().out.split())
    assert "DR over LA, average accuracy: 1." in answer
    assert answer.index("on the easy items") < answer.index("on the middle items")
    assert "on the hard items." in answer
    assert "never learned" in answer
    assert len(query(results, "from ratios_by_difficulty")) == 6


def test_json_has_every_row(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["items", str(results), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["ratios"]) == 6
    assert len(found["times"]) == 2 * 90
    assert {row["difficulty"] for row in found["times"]} == {"easy", "middle", "hard"}


def test_a_report_has_the_table_once_items_were_asked_for(results: Path) -> None:
    assert difficulties(results).empty
    assert main(["items", str(results)]) == 0
    rows = difficulties(results)
    table = difficulty(rows, styles(["LA", "DR"]))
    assert [row.cells[0].text for row in table.rows] == ["DR", "DR"]
    assert [row.cells[2].text for row in table.rows] == ["Average", "t"]
    assert "x" in table.rows[0].cells[3].text
    assert " to " in table.rows[0].cells[3].note


def test_rows_of_before_the_results_changed_are_not_shown(results: Path) -> None:
    assert main(["items", str(results)]) == 0
    with closing(connect(results)) as connection:
        connection.execute("update evaluations set value = value / 2 where run_id = 's-DR-0'")
    assert difficulties(results).empty
    assert main(["items", str(results)]) == 0
    assert len(difficulties(results)) == 6


def test_a_model_without_answers_is_named_and_left_out(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(connect(results)) as connection:
        connection.execute("delete from items where run_id = 's-DR-1'")
    capsys.readouterr()
    assert main(["items", str(results)]) == 0
    assert "left out: DR, without answers" in " ".join(capsys.readouterr().out.split())
    assert query(results, "select distinct variant from learning_times")["variant"].tolist() == [
        "LA"
    ]


def test_what_has_no_answers_is_refused_in_one_line(
    tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["items", str(empty_file(tmp_path / "empty.duckdb"))]) == 2
    with closing(connect(results)) as connection:
        connection.execute("delete from items")
    capsys.readouterr()
    assert main(["items", str(results)]) == 2
    message = capsys.readouterr().err
    assert "no answers to single items" in message
    assert message.count("\n") == 1
