"""Accuracy curves: what is drawn, and what the captions say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from reports.figures.accuracy import accuracy, accuracy_at_other_depths
from reports.tables.results import other_depths
from tests.reports.figures.frames import COUNTED, DRAWN, FACTORS, NO_RAW, RUNS, curve, data


def test_the_average_is_the_first_panel() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert [one.title for one in drawn.panels] == ["Average", "GSM8K"]
    assert "at best: LA 40.0% and DR 50.0%, each at 16M tokens" in drawn.panels[0].description
    assert accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=8) is None


def bands(**columns: Any) -> list[tuple[float, float]]:
    """The ends of the bands of the average, point by point."""
    drawn = accuracy(curve(**columns), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    rows = next(rows for rows in data(drawn.panels[0].specification) if "low" in rows[0])
    return [(float(row["low"]), float(row["high"])) for row in rows]


def test_the_band_of_one_seed_is_of_the_items_within_what_is_possible() -> None:
    low, high = zip(*bands(stderr=[0.2, 0.05, 0.02, 0.4]), strict=True)
    assert low == pytest.approx([0, 0.302, 0.2608, 0])
    assert high == pytest.approx([0.592, 0.498, 0.3392, 1])


def test_the_band_of_seeds_is_the_t_interval_of_their_mean() -> None:
    seeds = np.array([0.38, 0.43, 0.39])
    error = seeds.std(ddof=1) / np.sqrt(3)
    expected = ttest_1samp(seeds, 0).confidence_interval(0.95)
    assert bands(seeds=3, seed_error=error)[1] == pytest.approx(tuple(expected), rel=1e-5)


def test_the_caption_says_what_the_bands_are_of() -> None:
    captions = [
        accuracy(curve(seeds=seeds), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4).caption
        for seeds in (1, 3, [3, 3, 1, 1])
    ]
    assert ["Bands are 95% t-intervals" in words for words in captions] == [False, True, True]
    assert ["says nothing of other seeds" in words for words in captions] == [True, False, True]
    assert ["Faint lines are the seeds" in words for words in captions] == [False, True, True]


def test_raw_weights_are_drawn_where_they_were_evaluated() -> None:
    raw = pd.DataFrame({"depth": 4, "variant": "DR", "task": "gsm8k", "tokens": [1e6, 16e6], "accuracy": [0.2, 0.4]})
    drawn = accuracy(curve(), RUNS, FACTORS, raw, COUNTED, DRAWN, depth=4)
    average, gsm8k = (data(one.specification) for one in drawn.panels)
    line = [{"variant": "DR", "tokens": t, "accuracy": a} for t, a in (("1e+06", "0.2"), ("1.6e+07", "0.4"))]
    assert line in gsm8k
    assert line not in average
    assert "Dotted coloured lines are the raw weights" in drawn.caption


def test_documents_seen_before_are_said_with_the_curves() -> None:
    said = [
        accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, 4, second_epoch_from=beyond).caption
        for beyond in (None, 2e6, 17e6)
    ]
    assert ["From 2M tokens on the models had seen all documents before." in words for words in said] == [
        False,
        True,
        False,
    ]


OTHER_DEPTHS = pd.DataFrame({"depth": [1, 2, 3], "accuracy": [0.1, 0.4, 0.3]})
OTHER_DEPTHS = OTHER_DEPTHS.assign(
    study_id="a", variant="DR", model_depth=2, run_id="s", task="gsm8k", stderr=0.1, chance=0, items=9
)


def test_other_depths_show_the_mean_of_the_seeds_and_each_seed() -> None:
    rows = pd.concat([OTHER_DEPTHS, OTHER_DEPTHS.assign(run_id="t", accuracy=[0.3, 0.6, 0.3])])
    drawn = accuracy_at_other_depths(rows, DRAWN)
    assert drawn.panels[0].description.endswith("at best: DR 50.0% at depth 2.")
    (seeds,) = (part for part in data(drawn.panels[0].specification) if "run_id" in part[0])
    assert {row["run_id"] for row in seeds} == {"s", "t"}
    (row,) = other_depths(rows, DRAWN).rows
    assert [cell.text for cell in row.cells[2:]] == ["20.0% ± 10.0", "50.0% ± 10.0", "30.0% ± 10.0"]


def test_accuracy_at_other_depths_marks_the_trained_one() -> None:
    drawn = accuracy_at_other_depths(OTHER_DEPTHS, DRAWN)
    rings = next(rows for rows in data(drawn.panels[0].specification) if {*rows[0]} == {"variant", "depth", "accuracy"})
    assert [row["depth"] for row in rings] == ["2"]
    assert drawn.panels[0].description.endswith("at best: DR 40.0% at depth 2.")
    cells = [cell.text for cell in other_depths(OTHER_DEPTHS, DRAWN).rows[0].cells]
    assert cells == ["DR", "GSM8K", "10.0% ± 10.0", "40.0% ± 10.0", "30.0% ± 10.0"]
    assert accuracy_at_other_depths(OTHER_DEPTHS[OTHER_DEPTHS["depth"] == 2], DRAWN) is None
