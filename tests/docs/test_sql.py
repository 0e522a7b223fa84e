"""docs/sql.md: the example that enters results by hand gives factors with intervals, and a report."""

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


def test_results_entered_by_hand_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    commands = re.findall(r"^\$ dreamer (.*)$", PAGE, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # entering again changes nothing
        exec(program, {})
    factor = "from mean_factors where variant = 'DR' and task = 'average'"
    assert query("mine.duckdb", factor)["factor"].isna().all()
    for command in commands:
        assert main(shlex.split(command)) == 0
    ((low, value, high, seeds),) = query("mine.duckdb", f"select low, factor, high, seeds {factor}").to_numpy()
    assert 1 < low < value < high
    assert seeds == 3
    assert "computed the mean factors and intervals of mine" in capsys.readouterr().out
    assert (tmp_path / "report" / "index.html").exists()


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
