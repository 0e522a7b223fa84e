"""Which experts serve which depths."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from reports.figures.experts import experts_of_depths, order_of_experts, selections
from reports.figures.rendering import Panel
from tests.reports.figures.frames import DRAWN, MODEL_RUNS, data

COUNTS = {(1, 0): 50, (2, 0): 50, (1, 1): 0, (2, 1): 100, (1, 2): 100, (2, 2): 0, (1, 3): 0, (2, 3): 0}
FRAME = pd.DataFrame([{"depth": d, "expert": e, "selections": n} for (d, e), n in COUNTS.items()])
FRAME = FRAME.assign(variant="DR", model_depth=2, run_id="s", tokens=5)


def map_of(panel: Panel) -> np.ndarray:
    """The shares [depth, expert] of a map."""
    (rows,) = data(panel.specification)
    cells = pd.DataFrame(rows).astype(float)
    assert not cells.duplicated(["depth", "expert"]).any()
    return cells.pivot_table(index="depth", columns="expert", values="share").to_numpy()


def test_experts_are_ordered_from_those_of_few_depths_to_those_of_many() -> None:
    drawn = selections(FRAME, MODEL_RUNS, DRAWN)
    # Experts 2 and 1 have one depth, the first and the second; expert 0 has both; expert 3 was never selected.
    assert map_of(drawn.panels[0]).tolist() == [[1, 0, 0.5], [0, 1, 0.5]]
    assert "each of 3 experts" in drawn.panels[0].description
    assert selections(FRAME.iloc[:0], MODEL_RUNS, DRAWN) is None


def test_the_experts_of_a_depth_are_shares_of_its_selections() -> None:
    drawn = experts_of_depths(FRAME, MODEL_RUNS, DRAWN)
    # Both depths make 150 selections: 100 of an expert of their own, 50 of expert 0.
    assert map_of(drawn.panels[0]) == pytest.approx(np.array([[2, 0, 1], [0, 2, 1]]) / 3, abs=1e-5)
    assert "gives one expert 66.7% of its selections, where even use would be 33.33%" in drawn.panels[0].description


def test_groups_of_experts_are_sorted_by_depths_drawn_from_their_selections() -> None:
    shares = np.zeros((4, 60))
    shares[np.arange(60) % 4, np.arange(60)] = 1  # one depth each
    order = order_of_experts(shares)
    depths = shares[:, order].argmax(axis=0)
    assert depths.tolist() == sorted(depths.tolist())
    even = np.full((4, 400), 0.25)
    assert len(set(order_of_experts(even).tolist())) == 400
    mixed = order_of_experts(np.hstack([even, shares]))
    assert set(mixed[:60]) == set(range(400, 460)), "experts of one depth come first"
