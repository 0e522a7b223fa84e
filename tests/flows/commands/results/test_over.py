"""`dreamer compare --over`: a planted change of the ratio with size is found, and nothing else."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

import dreamer_study
from dreamer_study.flows.commands.cli import main
from dreamer_study.sql.connection import connect
from dreamer_study.sql.results import ingest
from tests.flows.small_study import small_study
from tests.sql.by_hand import enter_scores

pytestmark = pytest.mark.slow

ITEMS = 200
TOKENS = [1e5 * 2**step for step in range(8)]
WIDTHS = (64, 96, 128)
SEEDS = 4
INPUTS = {
    "the tokenizer": "t",
    "the packed tokens": "p",
    "training.loss_on": "answers",
    "evaluation.limit": "20",
}
RECIPE = {"learning_rate": 1e-3, "clip": 0.5, "loss_on": "answers"}


def a_study(path: Path, width: int, ratio: float) -> Path:
    """A results file of LA and DR, where DR takes `ratio` times the tokens to any accuracy."""
    study = f"w{width}"
    random = np.random.default_rng(width)
    difficulty = np.linspace(0, 1, ITEMS, endpoint=False)

    def scores(speed: float) -> dict[float, np.ndarray]:
        rise = {tokens: 0.1 + 0.1 * np.log2(tokens * speed / 1e5) for tokens in TOKENS}
        return {tokens: (difficulty < share).astype(float) for tokens, share in rise.items()}

    for seed in range(SEEDS):
        spread = np.exp(random.normal(0, 0.02, 2))
        curves = {
            "LA": {"t": scores(spread[0])},
            "DR": {"t": scores(spread[1] / ratio)},
        }
        enter_scores(path, curves, seed=seed, study=study, chance=0.0)
    runs = [(f"{study}-{name}-{seed}", name) for name in ("LA", "DR") for seed in range(SEEDS)]
    entered = {
        "studies": [{"study_id": study, "name": study, "config": "{}"}],
        "models": [
            {
                "study_id": study,
                "model_id": name,
                "flops_per_token": 100.0 * width**2,
                "parameters": width**2,
                "config": json.dumps({"hidden_size": width}),
            }
            for name in ("LA", "DR")
        ],
        "evaluation_versions": [
            {"run_id": run, "tokens": int(tokens), "task": "t", "data_version": "items"}
            for run, _ in runs
            for tokens in TOKENS
        ],
        "study_inputs": [
            {"study_id": study, "what": what, "value": value} for what, value in INPUTS.items()
        ],
        "run_details": [{"run_id": run, "recipe": json.dumps(RECIPE)} for run, _ in runs],
    }
    ingest(path, {name: pa.Table.from_pylist(rows) for name, rows in entered.items()})
    assert main(["intervals", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Studies of three sizes, in each of which DR takes 1.3 times the tokens."""
    folder = tmp_path_factory.mktemp("alike")
    return [a_study(folder / f"{width}.duckdb", width, 1.3) for width in WIDTHS]


def changed(path: Path, folder: Path, statements: str) -> Path:
    """A copy of a results file, changed by SQL."""
    copy = folder / f"changed-{path.name}"
    shutil.copy(path, copy)
    with closing(connect(copy)) as connection:
        for statement in statements.split(";"):
            connection.execute(statement)
    return copy


def document(capsys: pytest.CaptureFixture[str], *arguments: Any) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_ratio_that_grows_with_size_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slope = 0.3  # of the log ratio over log FLOPs
    ratios = [0.8 * (width / 64) ** (2 * slope) for width in WIDTHS]
    files = [
        a_study(tmp_path / f"{width}.duckdb", width, ratio)
        for width, ratio in zip(WIDTHS, ratios, strict=True)
    ]
    found = document(capsys, *files, "--over", "hidden_size")
    (trend,) = [row for row in found["trends"] if row["task"] == "average"]
    assert trend["per_tenfold"] == pytest.approx(10**slope, rel=0.1)
    assert 1 < trend["per_tenfold_low"] < 10**slope < trend["per_tenfold_high"]
    assert trend["span"] == pytest.approx(4)
    assert (trend["sizes"], trend["p_of_line"] > 0.05) == (3, True)
    assert trend["crossing"] == pytest.approx(100 * 64**2 * (1 / 0.8) ** (1 / slope), rel=0.1)
    average = [row for row in found["ratios"] if row["task"] == "average"]
    assert [row["size"] for row in average] == list(WIDTHS)
    assert [row["ratio"] for row in average] == pytest.approx(ratios, rel=0.05)

    assert main(["compare", *map(str, files), "--over", "flops"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    change = f"the ratio to LA is {trend['per_tenfold']:.2f} times as large"
    assert f"with ten times the FLOPs a token {change}" in printed
    assert "equal tokens at" in printed
    assert "further than was measured" in printed

    assert main(["compare", *map(str, files), "--over", "hidden_size", "--csv"]) == 0
    table = pd.read_csv(StringIO(capsys.readouterr().out))
    assert list(table["ratio"]) == pytest.approx([row["ratio"] for row in found["ratios"]])

    measured = dreamer_study.compare_sizes(*files, over="hidden_size")
    assert list(measured.trends["per_tenfold"]) == [row["per_tenfold"] for row in found["trends"]]
    line = measured.lines
    at_ends = np.log(line["ratio"].iloc[-1] / line["ratio"].iloc[0]) / np.log(4)
    assert 10**at_ends == pytest.approx(trend["per_tenfold"])
    assert (line["low"] <= line["ratio"]).all()
    assert (line["ratio"] <= line["high"]).all()


def test_the_figure_shows_each_size_and_the_line(
    alike: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = tmp_path / "sizes.svg"
    arguments = ["compare", *map(str, alike), "--over", "hidden_size", "--plot"]
    assert main([*arguments, str(figure)]) == 0
    drawn = figure.read_text()
    for words in ("DR", "FLOPs a token", "more tokens", "64, 96, 128", "410k", "1.64M"):
        assert words in drawn
    assert main([*arguments, str(tmp_path / "sizes.gif")]) == 2
    assert "a figure ends in .svg, .pdf or .png" in capsys.readouterr().err


def test_a_ratio_that_stays_the_same_does_not_change_and_crosses_nowhere(
    alike: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, *alike, "--over", "parameters")
    (trend,) = found["trends"]
    assert trend["per_tenfold_low"] < 1 < trend["per_tenfold_high"]
    assert trend["crossing"] is None
    assert not [note for note in found["notes"] if note.startswith("beware")]
    assert main(["compare", *map(str, alike), "--over", "parameters"]) == 0
    assert "a change with size cannot be told" in " ".join(capsys.readouterr().out.split())


def test_a_ratio_below_the_best_of_the_baseline_is_marked_and_a_bound_is_not_on_the_line(
    alike: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "update internal.computed_ratios set {} where variant = 'DR'"
    first, second, third = alike
    files = [
        first,
        changed(second, tmp_path, rows.format("reached = false, at_least = 2.5")),
        changed(third, tmp_path, rows.format("ratio = null, low = null, high = 0.02")),
    ]
    found = document(capsys, *files, "--over", "hidden_size")
    (trend,) = found["trends"]
    assert trend["sizes"] == 2
    assert trend["p_of_line"] is None, "two sizes lie on every line"
    _, missed, bound = found["ratios"]
    assert (missed["on_line"], missed["bound"], missed["reached"]) == (True, "", False)
    assert (bound["on_line"], bound["bound"], bound["ratio"]) == (False, "at most", None)
    notes = " ".join(found["notes"])
    assert "at least 2.5 in w96" in notes
    assert "not on the line: DR in w128, average accuracy: a bound alone is known" in notes
    assert main(["compare", *map(str, files), "--over", "flops"]) == 0
    printed = capsys.readouterr().out
    assert f"{missed['ratio']:.2f} †" in printed
    assert "≤ 0.0200" in printed


def test_one_seed_at_a_size_is_said_and_no_change_with_size_is(
    alike: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_seed = "update internal.computed_ratios set seeds = 1, low = null, high = null"
    one_seed += ", seed_error = null, degrees_of_freedom = null"
    files = [changed(path, tmp_path, one_seed) for path in alike[:2]]
    assert main(["compare", *map(str, files), "--over", "flops"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "cannot be told, as no size has a ratio with an interval" in printed
    assert "DR in w64, average accuracy: with one seed there is no interval" in printed


@pytest.mark.parametrize(
    ("what", "value", "words"),
    [
        ("the tokenizer", "other", "w96 differs from w64 beside its size: the tokenizer"),
        ("the packed tokens", "other", "w96 differs from w64 beside its size: the packed tokens"),
        ("training.loss_on", "all", "training.loss_on is all in place of answers"),
        ("evaluation.limit", "10", "evaluation.limit (10 in place of 20)"),
        ("clip", 1.0, "LA has clip 1.0 in place of 0.5"),
        ("learning_rate", 2e-3, "own learning_rate of DR: 0.001 in w64, 0.002 in w96"),
    ],
)
def test_what_differs_beside_the_size_is_a_line(
    what: str,
    value: Any,
    words: str,
    alike: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if what in INPUTS:
        change = f"update internal.study_inputs set value = '{value}' where what = '{what}'"
    else:
        recipe = json.dumps({**RECIPE, what: value})
        change = f"update internal.run_details set recipe = '{recipe}'"
    second = changed(alike[1], tmp_path, change)
    notes = document(capsys, alike[0], second, "--over", "hidden_size")["notes"]
    assert words in " ".join(notes)
    assert any(note.startswith("beware") for note in notes) == (what != "learning_rate")


def test_another_length_of_training_is_a_line(
    alike: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter = changed(alike[1], tmp_path, f"delete from evaluations where tokens = {TOKENS[-1]}")
    notes = " ".join(document(capsys, alike[0], shorter, "--over", "flops")["notes"])
    assert "12,800,000 in w64, 6,400,000 in w96" in notes


@pytest.mark.parametrize(
    ("change", "over", "words"),
    [
        ("update models set flops_per_token = 409600", ["flops"], "two or more sizes"),
        (None, ["flops"], "is named twice"),
        ("select 1", ["hiden_size"], "did you mean 'hidden_size'"),
        (
            "update internal.evaluation_versions set data_version = 'other'",
            ["flops"],
            "do not ask the same questions",
        ),
        ("update models set place = 9 where variant = 'LA'", ["flops"], "different baselines"),
        ("delete from internal.computed_ratios", ["flops"], "w96 has no ratio"),
        ("select 1", ["flops", "--csv", "--json"], "give one of them"),
        ("select 1", ["flops", "--tokens"], "are two comparisons"),
    ],
)
def test_what_cannot_be_compared_by_size_is_one_line(
    change: str | None,
    over: list[str],
    words: str,
    alike: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second, _ = alike
    second = changed(second, tmp_path, change) if change else first
    capsys.readouterr()
    assert main(["compare", str(first), str(second), "--over", *over]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1, "one line"


def test_more_than_two_studies_need_a_form(
    alike: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *map(str, alike)]) == 2
    assert "with --over SIZE" in capsys.readouterr().err
    assert main(["compare", *map(str, alike[:2]), "--plot", "sizes.svg"]) == 2
    assert "--plot belongs to --over" in capsys.readouterr().err


def test_finished_studies_of_two_widths_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From study files to the line: what trains differs in its width and in nothing else."""
    files = []
    for width in (32, 48):
        folder = tmp_path / str(width)
        folder.mkdir()
        path = small_study(folder, tokens=6000, checkpoints=3, seeds=[0, 1], screening=0)
        content = yaml.safe_load(path.read_text())
        content |= {"name": f"width-{width}", "store": str(tmp_path / "store")}
        content["models"]["variants"] = ["LA", "DR"]
        content["models"]["dreamer"] |= {"hidden_size": width, "query_heads": width // 16}
        content["evaluation"]["bootstrap_replicates"] = 50
        content["workers"] = 1  # each further process imports torch anew
        path.write_text(yaml.safe_dump(content))
        command = ["run", str(path), "--root", str(folder / "run"), "--plain"]
        assert main([*command, "--until", "evaluate"]) == 0
        files.append(folder / "run")
    found = document(capsys, *files, "--over", "hidden_size")
    by_size = {row["size"]: row["flops_per_token"] for row in found["ratios"]}
    assert sorted(by_size) == [32, 48]
    assert by_size[32] < by_size[48]
    assert {row["study"] for row in found["ratios"]} == {"width-32", "width-48"}
    held_out = [row for row in found["trends"] if row["task"] == "validation"]
    assert [row["sizes"] for row in held_out] == [2]
    assert held_out[0]["per_tenfold_low"] < held_out[0]["per_tenfold"]
    assert not [note for note in found["notes"] if "beside its size" in note], "width alone differs"
