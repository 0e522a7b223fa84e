"""The first screen's figure: the distance between two curves is drawn where it is the mean factor."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.figures.answer import answer
from tests.reports.figures.frames import DRAWN, curve, data

CURVES = curve().rename(columns={"accuracy": "value"}).assign(metric="accuracy")
CHOSEN = pd.DataFrame({"variant": ["DR"], "depth": 4, "task": "average", "metric": "accuracy", "factor": [2.0]})
TARGETS = pd.DataFrame({"target": np.linspace(0.3, 0.4, 25), "factor": np.linspace(1.5, 2.6, 25)})
TARGETS = TARGETS.assign(variant="DR", depth=4, task="average", metric="accuracy", variant_tokens=2e6)
TARGETS = TARGETS.assign(baseline_tokens=TARGETS["variant_tokens"] * TARGETS["factor"])


def test_the_distance_is_the_mean_factor() -> None:
    drawn = answer(CHOSEN, CURVES, TARGETS, DRAWN)
    assert drawn is not None
    (panel,) = drawn.panels
    assert "DR 2.00× fewer tokens than LA" in panel.description
    rows = next(rows for rows in data(panel.specification) if "to" in rows[0])
    assert [row["label"] for row in rows] == ["2.00× fewer tokens"]
    assert abs(float(rows[0]["to"]) / float(rows[0]["tokens"]) - 2) < 0.05


def test_two_distances_have_heights_of_their_own() -> None:
    both = pd.concat([CHOSEN, CHOSEN.assign(variant="LA")])
    targets = pd.concat([TARGETS, TARGETS.assign(variant="LA")])
    drawn = answer(both, CURVES, targets, DRAWN)
    assert drawn is not None
    heights = {float(row["value"]) for rows in data(drawn.panels[0].specification) if "to" in rows[0] for row in rows}
    first, second = sorted(heights)
    assert second - first > 0.015


def test_no_headline_no_figure() -> None:
    assert answer(CHOSEN.iloc[:0], CURVES, TARGETS, DRAWN) is None
