"""Figures of accuracy against tokens, and at other depths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from dreamer_study.reports.figures.accuracy import accuracy, accuracy_at_other_depths
from dreamer_study.reports.tables.results import other_depths
from tests.reports.figures.frames import (
    COUNTED,
    DRAWN,
    FACTORS,
    NO_RAW,
    RUNS,
    curve,
    data,
)


def test_the_average_is_the_first_panel() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert [one.title for one in drawn.panels] == ["Average", "GSM8K"]
    assert "at best: LA 40.0% and DR 50.0%, each at 16M tokens" in drawn.panels[0].description
    assert accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=8) is None


def bands(**columns: Any) -> list[tuple[float, float]]:
    """Draw the curve of the average accuracy, and return its confidence band: low and high at every
    checkpoint."""
    drawn = accuracy(curve(**columns), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    rows = next(rows for rows in data(drawn.panels[0].specification) if "low" in rows[0])
    return [(float(row["low"]), float(row["high"])) for row in rows]


@pytest.mark.parametrize("seeds", [1, 3])
def test_few_seeds_have_no_band(seeds: int) -> None:
    drawn = accuracy(curve(seeds=seeds), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    layers = drawn.panels[0].specification["layer"]
    assert not [layer for layer in layers if layer.get("mark", {}).get("type") == "area"]
    assert len([layer for layer in layers if layer.get("name") == "seeds"]) == (seeds > 1)


@pytest.mark.slow
def test_the_band_of_four_seeds_is_over_seeds_and_items_within_what_is_possible() -> None:
    seeds = np.array([0.38, 0.43, 0.39, 0.42])
    error = seeds.std(ddof=1) / 2
    interval = ttest_1samp(seeds, 0).confidence_interval(0.95)
    of_seeds = interval.high - seeds.mean()
    half = np.hypot(of_seeds, 1.96 * 0.02)
    low, high = bands(seeds=4, seed_error=error, stderr=0.02)[1]
    assert (low, high) == pytest.approx((0.4 - half, 0.4 + half), rel=1e-5)
    assert bands(seeds=4, seed_error=0.4)[1] == (0, 1)


@pytest.mark.slow
def test_the_caption_says_how_uncertainty_is_drawn() -> None:
    captions = [
        accuracy(curve(seeds=seeds), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4).caption
        for seeds in (1, 3, 4, [4, 4, 2, 2])
    ]
    assert ["95 % intervals of the mean" in words for words in captions] == [
        *(False, False, True, True)
    ]
    assert ["With one seed no interval" in words for words in captions] == [
        *(True, False, False, False)
    ]
    assert ["hin lines" in words for words in captions] == [False, True, False, True]


def test_raw_weights_are_drawn_where_they_were_evaluated() -> None:
    raw = pd.DataFrame(
        {
            "depth": 4,
            "variant": "DR",
            "task": "gsm8k",
            "tokens": [1e6, 16e6],
            "accuracy": [0.2, 0.4],
        }
    )
    drawn = accuracy(curve(), RUNS, FACTORS, raw, COUNTED, DRAWN, depth=4)
    average, gsm8k = (data(one.specification) for one in drawn.panels)
    line = [
        {"variant": "DR", "tokens": t, "accuracy": a}
        for t, a in (("1e+06", "0.2"), ("1.6e+07", "0.4"))
    ]
    assert line in gsm8k
    assert line not in average
    assert "Dotted coloured lines are the raw weights" in drawn.caption


@pytest.mark.slow
def test_documents_seen_before_are_said_with_the_curves() -> None:
    said = [
        accuracy(
            curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, 4, second_epoch_from=beyond
        ).caption
        for beyond in (None, 2e6, 17e6)
    ]
    assert [
        "From 2M tokens on the models had seen all documents before." in words for words in said
    ] == [
        False,
        True,
        False,
    ]


OTHER_DEPTHS = pd.DataFrame({"depth": [1, 2, 3], "accuracy": [0.1, 0.4, 0.3]})

OTHER_DEPTHS = OTHER_DEPTHS.assign(
    study_id="a",
    variant="DR",
    model_depth=2,
    run_id="s",
    task="gsm8k",
    stderr=0.1,
    chance=0,
    items=9,
)


def test_other_depths_show_the_mean_of_the_seeds_and_each_seed() -> None:
    rows = pd.concat([OTHER_DEPTHS, OTHER_DEPTHS.assign(run_id="t", accuracy=[0.3, 0.6, 0.3])])
    drawn = accuracy_at_other_depths(rows, DRAWN)
    assert drawn.panels[0].description.endswith("at best: DR 50.0% at depth 2.")
    (seeds,) = (part for part in data(drawn.panels[0].specification) if "run_id" in part[0])
    assert {row["run_id"] for row in seeds} == {"s", "t"}
    (row,) = other_depths(rows, DRAWN).rows
    assert [cell.text for cell in row.cells[2:]] == ["20.0% ± 14.1", "50.0% ± 14.1", "30.0% ± 10.0"]


def test_accuracy_at_other_depths_marks_the_trained_one() -> None:
    drawn = accuracy_at_other_depths(OTHER_DEPTHS, DRAWN)
    rings = next(
        rows
        for rows in data(drawn.panels[0].specification)
        if {*rows[0]} == {"variant", "depth", "accuracy"}
    )
    assert [row["depth"] for row in rings] == ["2"]
    assert drawn.panels[0].description.endswith("at best: DR 40.0% at depth 2.")
    cells = [cell.text for cell in other_depths(OTHER_DEPTHS, DRAWN).rows[0].cells]
    assert cells == ["DR", "GSM8K", "10.0%", "40.0%", "30.0%"]
    assert accuracy_at_other_depths(OTHER_DEPTHS.iloc[:0], DRAWN) is None
