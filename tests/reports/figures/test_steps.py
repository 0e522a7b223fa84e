"""Accuracy by the steps of the built-in problems."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dreamer_study.reports.figures.steps import accuracy_by_steps
from tests.reports.figures.frames import DRAWN, data


def runs(seeds: int = 4, **columns: Any) -> pd.DataFrame:
    """Rows of `StudyData.by_steps`: LA is right in 80 % of one step, 40 % of two; DR less so."""
    rows = [
        {
            "depth": 4,
            "variant": variant,
            "run_id": f"{variant}-{seed}",
            "task": "world_expressions",
            "steps": float(steps),
            "tokens": 100,
            "accuracy": accuracy + 0.01 * seed,
            "stderr": 0.05,
            "items": 50,
            "chance": 0.2,
        }
        for variant, at_one in (("LA", 0.8), ("DR", 0.6))
        for steps, accuracy in ((1, at_one), (2, at_one / 2))
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows).assign(**columns)


def test_a_point_is_the_mean_of_the_seeds_with_its_interval() -> None:
    figure = accuracy_by_steps(runs(), DRAWN)
    (panel,) = figure.panels
    (points,) = (rows for rows in data(panel.specification) if len(rows) > 1)
    assert [(row["variant"], row["steps"]) for row in points] == [
        ("LA", "1"),
        ("LA", "2"),
        ("DR", "1"),
        ("DR", "2"),
    ]
    first = points[0]
    assert float(first["accuracy"]) == pytest.approx(0.815)
    # 0.00645 is the standard error of the mean of 0.80, 0.81, 0.82 and 0.83
    half = ((3.18245 * 0.0064550) ** 2 + (1.96 * 0.05) ** 2) ** 0.5
    assert float(first["low"]) == pytest.approx(0.815 - half, rel=1e-4)
    assert panel.keys == {"depth": "4", "task": "world_expressions", "metric": "accuracy"}
    assert figure.finding == (
        "world_expressions, depth 4: LA from 81.5% at 1 to 41.5% at 2 and DR from 61.5% at 1 to"
        " 31.5% at 2."
    )
    assert "Steps are operations of an expression." in figure.caption
    assert "Bands are 95 % intervals" in figure.caption


def test_few_seeds_are_thin_lines() -> None:
    figure = accuracy_by_steps(runs(seeds=2), DRAWN)
    (panel,) = figure.panels
    assert any(layer.get("name") == "seeds" for layer in panel.specification["layer"])
    assert "hin lines" in figure.caption


def test_problems_that_all_have_as_many_steps_have_no_figure() -> None:
    assert accuracy_by_steps(runs(steps=1.0), DRAWN) is None
    assert accuracy_by_steps(runs().iloc[:0], DRAWN) is None


def test_own_benchmarks_have_steps_of_their_own() -> None:
    figure = accuracy_by_steps(runs(task="mine", chance=float("nan")), DRAWN)
    assert "Steps are" not in figure.caption
    assert "chance" not in figure.caption
