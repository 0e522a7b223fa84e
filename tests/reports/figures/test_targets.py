"""What it takes to reach each accuracy or loss."""

from __future__ import annotations

import json

import pandas as pd

from reports.figures.targets import by_target, cost_by_target
from tests.reports.figures.frames import DRAWN, data


def test_factors_by_target_have_a_panel_for_each_measure() -> None:
    rows = pd.concat(
        pd.DataFrame({"depth": 4, "variant": "DR", "task": "average", "metric": metric, "target": [0.2, 0.8]}).assign(
            factor=[1.0, 1.5], baseline="LA"
        )
        for metric in ("accuracy", "loss")
    )
    drawn = by_target(rows, DRAWN)
    assert drawn.finding == (
        "Average accuracy, depth 4, by best estimate from the easiest to the hardest value: DR from 1.00 to 1.50."
    )
    assert [one.title for one in drawn.panels] == ["Average accuracy, depth 4", "Average loss, depth 4"]
    assert "DR from 1.00 to 1.50" in drawn.panels[0].description
    assert by_target(rows.iloc[:0], DRAWN) is None


def test_the_cost_of_each_target_is_drawn_in_hours_of_all_devices() -> None:
    rows = pd.DataFrame({"variant": ["LA", "DR"], "target": 0.4, "tokens": [2e6, 1e6], "device_seconds": [7200, 3600]})
    rows = rows.assign(baseline="LA", depth=4, metric="accuracy", task="average")
    drawn = cost_by_target(rows, DRAWN)
    assert drawn.finding == "Average accuracy, depth 4: LA up to 2.0\u202fh and DR up to 60.0\u202fmin."
    assert drawn.panels[0].description.endswith(
        "Average accuracy, depth 4: LA up to 2.0\u202fh and DR up to 60.0\u202fmin."
    )
    (points,) = data(drawn.panels[0].specification)
    assert [(row["variant"], row["time"]) for row in points] == [("LA", "2"), ("DR", "1")]


def test_the_cost_of_short_trainings_is_drawn_in_seconds() -> None:
    rows = pd.DataFrame({"variant": ["LA", "DR"], "target": 0.4, "tokens": [2e6, 1e6], "device_seconds": [9, 8]})
    drawn = cost_by_target(rows.assign(baseline="LA", depth=4, metric="accuracy", task="average"), DRAWN)
    (points,) = data(drawn.panels[0].specification)
    assert [row["time"] for row in points] == ["9", "8"]
    assert '"device-seconds"' in json.dumps(drawn.panels[0].specification)
    assert cost_by_target(rows.assign(device_seconds=None), DRAWN) is None
