"""`dreamer compare --over`: a planted change of the ratio with size is found, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.sql.results import ingest
from tests.sql.by_hand import enter_scores

ITEMS = 400
TOKENS = [1e5 * 2**step for step in range(8)]
WIDTHS = (64, 96, 128)


def a_study(path: Path, width: int, ratio: float, *, items: int = ITEMS, seeds: int = 4) -> Path:
    """A results file of LA and DR, where DR takes `ratio` times the tokens to any accuracy."""
    random = np.random.default_rng(width)
    difficulty = np.linspace(0, 1, items, endpoint=False)

    def scores(speed: float) -> dict[float, list[float]]:
        rise = {tokens: 0.1 + 0.1 * np.log2(tokens * speed / 1e5) for tokens in TOKENS}
        return {tokens: (difficulty < share).astype(float) for tokens, share in rise.items()}

    for seed in range(seeds):
        spread = np.exp(random.normal(0, 0.02, 2))
        curves = {
            "LA": {"t": scores(spread[0])},
            "DR": {"t": scores(spread[1] / ratio)},
        }
        enter_scores(path, curves, seed=seed, study=f"w{width}", chance=0.0)
    models = [
        {
            "study_id": f"w{width}",
            "model_id": name,
            "flops_per_token": 100.0 * width**2,
            "parameters": width**2,
            "config": json.dumps({"hidden_size": width}),
        }
        for name in ("LA", "DR")
    ]
    versions = [
        {"run_id": f"w{width}-{name}-{seed}", "tokens": int(tokens), "task": "t"}
        | {"data_version": f"{items} items"}
        for name in ("LA", "DR")
        for seed in range(seeds)
        for tokens in TOKENS
    ]
    entered = {"models": models, "evaluation_versions": versions}
    ingest(path, {name: pa.Table.from_pylist(rows) for name, rows in entered.items()})
    assert main(["intervals", str(path)]) == 0
    return path


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
    assert trend["times"] == pytest.approx(2**slope, rel=0.05)
    assert trend["times_low"] < 2**slope < trend["times_high"]
    assert trend["times_low"] > 1
    assert trend["crossing"] == pytest.approx(100 * 64**2 * (1 / 0.8) ** (1 / slope), rel=0.1)
    average = [row for row in found["ratios"] if row["task"] == "average"]
    assert [row["size"] for row in average] == list(WIDTHS)
    assert [row["ratio"] for row in average] == pytest.approx(ratios, rel=0.05)

    assert main(["compare", *map(str, files), "--over", "flops"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "makes the ratio to LA 1.2" in printed
    assert "equal tokens at" in printed


def test_a_ratio_that_stays_the_same_does_not_change_and_crosses_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [a_study(tmp_path / f"{width}.duckdb", width, 1.3) for width in WIDTHS]
    found = document(capsys, *files, "--over", "parameters")
    (trend,) = [row for row in found["trends"] if row["task"] == "average"]
    assert trend["times_low"] < 1 < trend["times_high"]
    assert trend["crossing"] is None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("same size", "two or more sizes"),
        ("no such size", "did you mean 'hidden_size'"),
        ("other items", "do not ask the same questions"),
        ("one seed", "no variant has a ratio with an interval at two sizes"),
        ("without --over", "with --over SIZE"),
    ],
)
def test_what_cannot_be_compared_by_size_is_one_line(
    kind: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = a_study(tmp_path / "a.duckdb", 64, 1.2, seeds=1 if kind == "one seed" else 2)
    if kind == "same size":
        second = a_study(tmp_path / "b.duckdb", 64, 1.2, seeds=2)
    else:
        items = ITEMS // 2 if kind == "other items" else ITEMS
        seeds = 1 if kind == "one seed" else 2
        second = a_study(tmp_path / "b.duckdb", 96, 1.2, items=items, seeds=seeds)
    over = {
        "no such size": ["--over", "hiden_size"],
        "without --over": [str(second)],
    }.get(kind, ["--over", "flops"])
    capsys.readouterr()
    assert main(["compare", str(first), str(second), *over]) == 2
    assert words in capsys.readouterr().err
