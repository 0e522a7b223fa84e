"""One number: every surface says the ratio of the view `token_ratios`, whatever the finding is."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.results.printing import print_answer, read_printed
from dreamer_study.reports.data import read_study
from dreamer_study.reports.page.report import write_report
from dreamer_study.reports.page.summary import summary
from dreamer_study.reports.text.numbers import ratio, three_digits
from dreamer_study.sql.results import query
from tests.reports.page.test_report import read
from tests.reports.small_results import (
    STUDY,
    checkpoints,
    entered,
    evaluations,
    model_row,
    run_row,
    study,
)

pytestmark = pytest.mark.slow

POINTS = tuple(round(1_000_000 * 1.4**place) for place in range(12))
SEEDS = 4
# By how many checkpoints each seed is ahead of the baseline; None: never above chance.
AHEAD = {
    "LA": (0.0, 0.3, -0.3, 0.0),
    "wins": (4.0, 4.3, 3.7, 4.0),
    "loses": (-4.0, -3.7, -4.3, -4.0),
    "open": (4.0, -1.0, -2.0, -5.0),
    "never": None,
}
BOUNDED = "never"
AT_LEAST = "≥\u202f"


def right_answers(variant: str, seed: int) -> list[int]:
    """The right answers of 40 at each checkpoint: three more at each, and two by guessing."""
    ahead = AHEAD[variant]
    if ahead is None:
        return [2 for _ in POINTS]
    return [min(40, max(2, round(4 + 3 * (place + ahead[seed])))) for place in range(len(POINTS))]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with a variant of each kind of finding."""
    tables: dict[str, list] = {"studies": [study()], "models": [], "runs": [], "checkpoints": []}
    tables |= {"evaluations": [], "items": []}
    for place, variant in enumerate(AHEAD):
        tables["models"].append({**model_row(variant, variant, 4), "place": place})
        for seed in range(SEEDS):
            run = f"{variant}-s{seed}"
            tables["runs"].append({**run_row(run, variant, POINTS[-1]), "seed": seed})
            tables["checkpoints"] += checkpoints(run)
            rows = evaluations(run, right_answers(variant, seed), points=POINTS)
            tables["evaluations"] += [{**row, "chance": 0.05} for row in rows["evaluations"]]
            tables["items"] += rows["items"]
    return entered(tmp_path_factory.mktemp("kinds") / "results.duckdb", tables, replicates=20)


@pytest.fixture(scope="module")
def answer(database: Path) -> pd.DataFrame:
    """The rows that are the answer, by variant: of the average accuracy."""
    rows = query(database, "from token_ratios where task = 'average' and metric = 'accuracy'")
    return rows.set_index("variant")


@pytest.fixture(scope="module")
def numbers(answer: pd.DataFrame) -> dict[str, str]:
    """The ratio of each variant, or its bound, as reports write numbers."""
    shown = answer["ratio"].fillna(answer["low"])
    return {variant: ratio(value) for variant, value in shown.items()}


def test_the_study_has_a_variant_of_each_kind(answer: pd.DataFrame) -> None:
    assert answer.loc["wins", "significant"]
    assert answer.loc["wins", "ratio"] < 0.5
    assert answer.loc["loses", "significant"]
    assert answer.loc["loses", "ratio"] > 2
    assert not answer.loc["open", "significant"]
    assert not answer.loc["open", "within_checkpoint"]
    assert pd.isna(answer.loc[BOUNDED, "ratio"])
    assert answer.loc[BOUNDED, "low"] > 1
    assert answer.loc[BOUNDED, "near_chance"]


def line_of(lines: list[str], variant: str) -> str:
    """The only line that begins with the name of a variant."""
    (line,) = [line for line in lines if line.startswith(f"{variant} ")]
    return line


def sentences_hold(lines: list[str], numbers: dict[str, str]) -> None:
    """Every variant has a line with its number, and what is not significant is said so."""
    for variant, value in numbers.items():
        assert f"{value} times as many" in line_of(lines, variant)
    assert f"at least {numbers[BOUNDED]} times" in line_of(lines, BOUNDED)
    assert "cannot be distinguished from LA" in line_of(lines, "open")
    order = [line.split()[0] for line in lines]
    assert order.index("wins") < order.index("loses") < order.index("open")


def test_in_the_terminal(
    database: Path,
    answer: pd.DataFrame,
    numbers: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_answer(read_printed(database, STUDY), "LA", every_row="--csv")
    told = capsys.readouterr().out
    paragraphs = [" ".join(part.split()) for part in told.split("\n\n")]
    sentences_hold([part for part in paragraphs if part.split(" ")[0] in numbers], numbers)
    table = [line.split() for line in told.splitlines()]
    for variant, row in answer.iterrows():
        (cells,) = [line for line in table if line[1:4] == [variant, "average", "accuracy"]]
        bounded = pd.isna(row["ratio"])
        shown = [f"≥{three_digits(row['low'])}", "-"]
        if not bounded:
            shown = [three_digits(row["ratio"]), three_digits(row["low"])]
        assert cells[4:6] == shown


def test_as_comma_separated_values(
    database: Path, answer: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", str(database), "from token_ratios", "--csv"]) == 0
    rows = pd.read_csv(StringIO(capsys.readouterr().out))
    rows = rows[(rows["task"] == "average") & (rows["metric"] == "accuracy")].set_index("variant")
    for name in ("ratio", "low", "high"):
        assert rows[name].tolist() == pytest.approx(answer[name].tolist(), nan_ok=True)


def test_on_the_page(database: Path, numbers: dict[str, str], tmp_path: Path) -> None:
    page = read(write_report(database, STUDY, tmp_path / "report", papers=False))
    lines = page.text.splitlines()
    sentences_hold([line for line in lines if " times as many" in line], numbers)
    for variant, value in numbers.items():
        bound = AT_LEAST if variant == BOUNDED else ""
        rows = [line for line in lines if line.startswith(f"{variant} Average accuracy")]
        assert len(rows) == 2, "ratios, and what makes them weak"
        shown = f"{variant} Average accuracy {bound}{value}x".replace("\u202f", " ")
        assert all(row.startswith(shown) for row in rows)
        for figure in ("answer", "token-ratios"):
            assert f"{value}x" in json.dumps(page.figures[figure], ensure_ascii=False)


def test_in_plain_text(
    database: Path, numbers: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(database), "--text"]) == 0
    told = capsys.readouterr().out
    paragraphs = [" ".join(part.split()) for part in told.split("\n\n")]
    sentences_hold([part for part in paragraphs if " times as many" in part], numbers)


def test_in_the_summary_of_prefect(database: Path, numbers: dict[str, str]) -> None:
    text = summary(read_study(database, STUDY))
    lines = text.splitlines()
    sentences_hold([line for line in lines if " times as many" in line], numbers)
    for variant, value in numbers.items():
        bound = AT_LEAST if variant == BOUNDED else ""
        assert f"| 4 | {variant} | Average | accuracy | {bound}{value}x |" in text


def test_in_a_comparison(
    database: Path, numbers: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copy(database, tmp_path / "other.duckdb")
    assert main(["compare", str(database), str(other)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for variant, value in numbers.items():
        bound = "≥ " if variant == BOUNDED else ""
        (row,) = [line for line in lines if line.startswith(f"{variant} 4 Average ratio, accuracy")]
        assert row.count(f"{bound}{value}x") == 2, "one in each study"
