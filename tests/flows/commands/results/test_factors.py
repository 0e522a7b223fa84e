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
from dreamer_study.reports.text.numbers import as_many, three_digits
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


@pytest.mark.slow
def test_the_warning_of_one_seed_names_the_model_that_has_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = curves_in(tmp_path / "t.csv", value="loss", seeds={"A": 1, "B": 2})
    assert main(["factors", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "One seed: nothing says what another would give for A." in printed
    assert "intervals: none with A, which has one seed" in printed


@pytest.mark.slow
def test_without_a_chance_nobody_knows_who_is_near_it(tmp_path: Path) -> None:
    table = curves_in(tmp_path / "t.csv", value="score", seeds={"A": 2, "B": 2})
    enter_curves(tmp_path / "r.duckdb", read(table), baseline=None)
    for view in ("token_ratios", "data_efficiency"):
        near = query(tmp_path / "r.duckdb", f"select near_chance from {view}")["near_chance"]
        assert near.isna().all(), view


@pytest.mark.slow
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


def printed_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command prints, each table row and paragraph with single blanks."""
    assert main(["factors", *arguments]) == 0
    return "\n".join(" ".join(line.split()) for line in capsys.readouterr().out.splitlines())


@pytest.mark.slow
def test_curves_over_steps_are_said_in_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = curves_in(tmp_path / "t.csv", value="loss", seeds={"A": 2, "B": 2})
    table.write_text(table.read_text().replace("tokens", "step"))
    printed = printed_of([str(table)], capsys)
    assert "times as many training steps" in printed
    assert "A ratio is a variant’s training steps over A’s" in printed
    assert "A's steps its steps" in printed
    assert "tokens" not in printed.replace("not in tokens: --tokens-per-step", "")


@pytest.mark.slow
def test_a_loss_beside_an_accuracy_is_printed_in_its_own_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = curves_in(tmp_path / "t.csv", value="score", seeds={"A": 2, "B": 2})
    scores = pd.read_csv(table).assign(task="right")
    losses = scores.assign(task="text", loss=4 - scores["score"], score=None)
    pd.concat([scores, losses]).to_csv(table, index=False)
    printed = printed_of([str(table)], capsys)
    (row,) = [line for line in printed.splitlines() if line.startswith("B text loss 0.")]
    assert "3.46 to 3.40" in row
    assert "B text loss 3.40 16 16 1.00" in printed
    assert "Loss on text: B 0." in printed


@pytest.mark.slow
def test_a_bound_in_the_table_has_its_sign(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = curves_in(tmp_path / "t.csv", value="score", seeds={"A": 2, "B": 2})
    rows = pd.read_csv(table)
    rows.loc[(rows["variant"] == "A") & (rows["tokens"] == 16), "score"] += 0.3
    rows.to_csv(table, index=False)
    printed = printed_of([str(table)], capsys)
    row, _ = [line for line in printed.splitlines() if line.startswith("B average accuracy")]
    assert row.count("≥") == 1
    assert "≥: a lower bound, as the model never reached it." in " ".join(printed.split())
    assert "B t accuracy 0.901 16 ≥1.00" in printed


@pytest.mark.slow
def test_tokens_to_a_score_fixed_in_advance_are_printed_and_give_the_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = curves_in(tmp_path / "t.csv", value="loss", seeds={"A": 2, "B": 2})
    printed = printed_of([str(table), "--target", "3.5"], capsys)
    table_of_targets = printed.partition("Tokens to the scores fixed in advance.")[2]
    (row,) = [line for line in table_of_targets.splitlines() if line.startswith("B t loss 3.50")]
    theirs, own, ratio = map(float, row.split()[-3:])
    assert own / theirs == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize(
    ("value", "text"), [(1024.0, "1,020"), (0.7493, "0.749"), (12.34, "12.3"), (99.97, "100")]
)
def test_a_ratio_has_three_digits(value: float, text: str) -> None:
    assert three_digits(value) == text
    assert as_many(1024.0) == "1,020 times as many"


@pytest.mark.slow
def test_the_example_has_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_of(["example"], capsys)
    assert printed.count(" significant ") == 2
    assert "less than one checkpoint" not in printed
