"""What `dreamer factors` prints of curves from elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

import pandas as pd
import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.results.factors import saying_after
from dreamer_study.reports.curves.entering import enter_curves
from dreamer_study.reports.curves.reading import read
from dreamer_study.sql.results import query

SPEED = {"A": 1.0, "B": 1.2, "C": 1.5}


def curves_in(path: Path, *, value: str, seeds: dict[str, int]) -> Path:
    rows = [f"variant,seed,tokens,task,{value}"]
    for variant, number in seeds.items():
        for seed in range(number):
            for n in range(5):
                score = 0.1 + 0.1 * (n + SPEED[variant]) + 0.003 * seed
                rows.append(f"{variant},{seed},{2**n},t,{score if value == 'score' else 4 - score}")
    path.write_text("\n".join(rows))
    return path


def test_the_warning_of_one_seed_names_the_model_that_has_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = curves_in(tmp_path / "t.csv", value="loss", seeds={"A": 1, "B": 2})
    assert main(["factors", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "One seed: nothing says what another would give for A." in printed
    assert "intervals: none with A, which has one seed" in printed


def test_without_a_chance_nobody_knows_who_is_near_it(tmp_path: Path) -> None:
    table = curves_in(tmp_path / "t.csv", value="score", seeds={"A": 2, "B": 2})
    enter_curves(tmp_path / "r.duckdb", read(table), baseline=None)
    for view in ("token_ratios", "data_efficiency"):
        near = query(tmp_path / "r.duckdb", f"select near_chance from {view}")["near_chance"]
        assert near.isna().all(), view


def test_pairs_with_the_baseline_are_as_with_all_pairs(tmp_path: Path) -> None:
    table = curves_in(tmp_path / "t.csv", value="score", seeds={"A": 3, "B": 3, "C": 3})
    ratios = []
    for every_pair, rows in ((True, 9), (False, 3)):
        database = tmp_path / f"{every_pair}.duckdb"
        enter_curves(database, read(table), baseline="B", every_pair=every_pair)
        stored = query(database, "from internal.computed_ratios where task = 't'")
        assert len(stored) == rows
        ratios.append(query(database, "from token_ratios order by all"))
    assert ratios[0]["comparisons"].max() == 2
    pd.testing.assert_frame_equal(*ratios)


def test_a_long_computation_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with saying_after(10, "never"):
        pass
    with saying_after(0.01, "computing"):
        time.sleep(0.2)
    assert capsys.readouterr().err == "computing\n"
