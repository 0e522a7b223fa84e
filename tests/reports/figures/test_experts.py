"""Which experts serve which depths, and how evenly."""

from __future__ import annotations

import pandas as pd

from reports.figures.experts import CELLS, balance, selections
from reports.figures.rendering import page_drawing
from tests.reports.figures.frames import DRAWN, MODEL_RUNS, data


def test_experts_are_ordered_from_those_of_few_depths_to_those_of_many() -> None:
    counts = {(1, 0): 50, (2, 0): 50, (1, 1): 0, (2, 1): 100, (1, 2): 100, (2, 2): 0, (1, 3): 0, (2, 3): 0}
    rows = [{"depth": d, "expert": e, "selections": n} for (d, e), n in counts.items()]
    frame = pd.DataFrame(rows).assign(variant="DR", model_depth=2, run_id="s", tokens=5)
    drawn = selections(frame, MODEL_RUNS, DRAWN)
    assert drawn is not None
    (cells,) = data(drawn.panels[0].specification)
    places = [(row["depth"], round(3 * float(row["start"])), float(row["share"])) for row in cells]
    assert places == [("1", 0, 1), ("2", 1, 1), ("1", 2, 0.5), ("2", 2, 0.5)]  # an expert never selected has no column
    assert "each of 3 experts" in drawn.panels[0].description
    assert selections(frame.assign(variant="LA"), MODEL_RUNS.assign(variant="LA"), DRAWN) is None


def test_a_map_of_many_experts_has_a_bounded_number_of_cells() -> None:
    rows = [{"depth": d, "expert": e, "selections": 1 + (d * e) % 5} for d in range(1, 33) for e in range(1000)]
    frame = pd.DataFrame(rows).assign(variant="DR", model_depth=32, run_id="s", tokens=5)
    drawn = selections(frame, MODEL_RUNS.assign(depth=32), DRAWN)
    assert drawn is not None
    (cells,) = data(drawn.panels[0].specification)
    assert 700 < len(cells) <= CELLS
    assert len(page_drawing(drawn.panels[0], 1)) < 80_000


def test_balance_shows_the_whole_model_over_training_and_each_depth_against_the_baseline() -> None:
    gini = pd.DataFrame({"depth": [None, None, 1], "tokens": [1e6, 2e6, 2e6], "gini": [0.2, 0.1, 0.5]})
    gini = gini.assign(variant="DR", model_depth=2, run_id="s")
    ratios = pd.DataFrame({"variant": ["LA", "DR", "DR"], "depth": [1, 1, 2], "ratio": [1, 2.5, 11]})
    ratios = ratios.assign(model_depth=2, experts_for_90=5.0, baseline_experts_for_90=2.0)
    drawn = balance(gini, ratios, DRAWN)
    assert drawn is not None
    assert [one.title for one in drawn.panels] == ["Depth 2: Gini coefficient", "Depth 2: experts used, against LA"]
    assert "at the end DR 0.100" in drawn.panels[0].description
    assert "experts used, against LA’s: DR 2.5 to 11 times" in drawn.panels[1].description
    assert balance(gini.iloc[2:], ratios.iloc[:1], DRAWN) is None
