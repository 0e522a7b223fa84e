"""How many experts do the work, by depth and over training."""

from __future__ import annotations

import pandas as pd

from reports.figures.balance import balance, concentration
from tests.reports.figures.frames import DRAWN, MODEL_RUNS, data

# Two experts: the most selected has three quarters of the selections.
POINTS = pd.DataFrame({"experts": [1, 2], "share": [0.75, 1]})
CURVES = pd.concat([POINTS.assign(depth=depth) for depth in (1, 2, None)]).assign(
    model_depth=2, tokens=5, baseline="LA"
)
GINI = pd.DataFrame({"run_id": ["s", "a"], "tokens": 5, "depth": None, "gini": [0.25, 0.5]})


def test_a_panel_has_the_depths_the_whole_model_and_the_baseline() -> None:
    runs = pd.concat([MODEL_RUNS, MODEL_RUNS.iloc[1:2].assign(run_id="a", variant="LA")])
    curves = pd.concat([CURVES.assign(run_id="s", variant="DR"), CURVES.assign(run_id="a", variant="LA")])
    drawn = concentration(curves, GINI, runs, DRAWN)
    assert drawn.finding == "DR, depth 2: Gini coefficient DR 0.250 and LA 0.500."
    (panel,) = drawn.panels
    assert panel.title == "DR, depth 2"
    assert panel.description.endswith("Gini coefficient DR 0.250 and LA 0.500.")
    lines = [[(row.get("depth"), row["experts"], row["share"]) for row in rows] for rows in data(panel.specification)]
    most, all_of_them = ("1", "0.75"), ("2", "1")
    assert [(None, *most), (None, *all_of_them)] in lines
    assert [(depth, *point) for depth in ("1", "2") for point in (most, all_of_them)] in lines
    assert panel.specification["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"


def test_the_baseline_alone_has_a_panel() -> None:
    drawn = concentration(CURVES.assign(run_id="s", variant="LA"), GINI, MODEL_RUNS.assign(variant="LA"), DRAWN)
    assert [one.title for one in drawn.panels] == ["LA, depth 2"]


def test_balance_shows_the_whole_model_over_training_and_each_depth_against_the_baseline() -> None:
    gini = pd.DataFrame({"depth": [None, None, 1], "tokens": [1e6, 2e6, 2e6], "gini": [0.2, 0.1, 0.5]})
    gini = gini.assign(variant="DR", model_depth=2, run_id="s")
    ratios = pd.DataFrame({"variant": ["LA", "DR", "DR"], "depth": [1, 1, 2], "ratio": [1, 2.5, 11]})
    ratios = ratios.assign(baseline="LA", model_depth=2, experts_for_90=5.0, baseline_experts_for_90=2.0)
    drawn = balance(gini, ratios, DRAWN)
    assert drawn.finding == "Gini coefficient of expert selection at depth 2, at the end: DR 0.100."
    assert [one.title for one in drawn.panels] == ["Depth 2: Gini coefficient", "Depth 2: experts used, against LA"]
    assert "at the end: DR 0.100" in drawn.panels[0].description
    assert "experts used, against LA’s: DR 2.5 to 11 times" in drawn.panels[1].description
    assert balance(gini.iloc[2:], ratios.iloc[:1], DRAWN) is None
