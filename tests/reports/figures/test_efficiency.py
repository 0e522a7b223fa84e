"""The figures of the factors."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.figures.efficiency import crossing_factors, mean_factors
from reports.figures.rendering import Figure, composed
from tests.reports.figures.frames import DRAWN, FACTORS, data


def factors_of(drawn: Figure | None) -> list[dict[str, str]]:
    """The rows of the only panel that the factors are drawn from."""
    return next(rows for rows in data(drawn.panels[0].specification) if "label" in rows[0])


def test_factors_by_the_papers_rule_have_a_bound_and_no_interval() -> None:
    drawn = crossing_factors(FACTORS, DRAWN)
    rows = factors_of(drawn)
    assert [(row["variant"], row["label"]) for row in rows] == [("DR", "≥ 2.0×"), ("DR", "≤ 1.0×")]
    assert {row["low"] + row["high"] for row in rows} == {""}
    assert {style.shape for style in drawn.marks} == {"circle"}


def test_factors_that_are_missing_or_all_the_baseline_give_no_figure() -> None:
    assert crossing_factors(FACTORS[FACTORS["variant"] == "LA"], DRAWN) is None
    assert crossing_factors(FACTORS.assign(factor=float("nan")), DRAWN) is None


def test_bounds_keep_their_shapes_beside_the_legend() -> None:
    drawn = crossing_factors(FACTORS, DRAWN)
    resolved = composed(drawn)
    assert resolved["resolve"]["scale"]["shape"] == resolved["vconcat"][1]["resolve"]["scale"]["shape"] == "independent"


MEANS = pd.DataFrame(
    {"depth": 4, "variant": "DR", "task": ["average", "gsm8k", "average"], "metric": ["accuracy", "accuracy", "loss"]}
    | {"baseline": "LA", "factor": [1.24, 1.1, 1.3], "low": [1.1, np.nan, 0.9], "high": [1.4, np.nan, 1.8]}
    | {"within_noise": [False, True, False]}
)


def test_mean_factors_show_the_averages_first_and_both_measures() -> None:
    drawn = mean_factors(MEANS, DRAWN)
    assert (
        drawn.finding
        == "Intervals that lie above 1: 1 of 3 factors; below 1: 0. The study does not decide the other 2."
    )
    assert [(row["name"], row["label"]) for row in factors_of(drawn)] == [
        ("Average accuracy", "1.24×"),
        ("Average loss", "1.30×"),
        ("GSM8K", "1.10×"),
    ]
    assert mean_factors(MEANS.assign(factor=np.nan), DRAWN) is None
