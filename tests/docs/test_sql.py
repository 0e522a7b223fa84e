"""docs/sql.md: the curves of the page have factors and a report; intervals of results entered by hand."""

import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest

from flows.commands.cli import main
from sql.results import ingest, query
from tests.sql.by_hand import enter_scores
from tests.sql.empty import empty_file

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")


def test_curves_as_documented_have_factors_and_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (table,) = re.findall(r"```csv\n(.*?)```", PAGE, re.DOTALL)
    (command,) = re.findall(r"^\$ dreamer (.*)$", PAGE, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    Path("curves.csv").write_text(table)
    assert main(shlex.split(command)) == 0
    (found,) = re.findall(r"looped +accuracy +average +([\d.]+) +([\d.]+) +([\d.]+) +2", capsys.readouterr().out)
    factor, low, high = map(float, found)
    assert 1 < low < factor < high
    assert "looped" in Path("curves.html").read_text()


def test_intervals_take_the_resamples_that_the_study_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "mine.duckdb"
    curves = {variant: {"t": {1e6: [0, 0, 1, 0], 2e6: [1, 0, 1, 1]}} for variant in ("LA", "DR")}
    enter_scores(path, curves)
    config = json.dumps({"study": {"evaluation": {"bootstrap_replicates": 7}}})
    ingest(path, {"studies": pa.table({"study_id": ["s"], "name": ["s"], "config": [config]})})
    assert main(["intervals", str(path)]) == 0
    assert set(query(path, "from internal.computed_factors")["replicates"]) == {7}


def test_a_file_without_models_has_no_intervals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["intervals", str(empty_file(tmp_path / "empty.duckdb"))]) == 2
    assert "empty.duckdb: holds no models of any study" in capsys.readouterr().err
