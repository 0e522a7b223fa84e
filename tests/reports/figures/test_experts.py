"""Figures of experts and of depth attention: how even, at which depths, how strong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dreamer_study.reports.data import read_study
from dreamer_study.reports.figures.balance import balance, concentration
from dreamer_study.reports.figures.depth_attention import depth_attention
from dreamer_study.reports.figures.experts import experts_of_depths, order_of_experts, selections
from dreamer_study.reports.figures.rendering import Panel, page_drawing
from dreamer_study.sql.results import connect
from tests.reports.figures.frames import (
    DRAWN,
    SCORES,
    data,
)
from tests.reports.small_results import RIGHT, STUDY, whole_study

# Two experts: the most selected has three quarters of the selections.
POINTS = pd.DataFrame({"experts": [1, 2], "share": [0.75, 1]})

BALANCE_CURVES = pd.concat([POINTS.assign(depth=depth) for depth in (1, 2, None)]).assign(
    model_depth=2, tokens=5, baseline="LA"
)

GINI = pd.DataFrame({"variant": ["DR", "LA"], "model_depth": 2, "gini": [0.25, 0.5]})

GINI = GINI.assign(lowest=[0.2, 0.5], highest=[0.3, 0.5])


def test_a_panel_has_the_depths_the_whole_model_and_the_baseline() -> None:
    curves = pd.concat(
        [
            BALANCE_CURVES.assign(run_id="s", variant="DR"),
            BALANCE_CURVES.assign(run_id="a", variant="LA"),
        ]
    )
    drawn = concentration(curves, GINI, DRAWN)
    assert drawn.finding == "DR, depth 2: Gini coefficient DR 0.250 and LA 0.500."
    (panel,) = drawn.panels
    assert panel.title == "DR, depth 2"
    assert panel.description.endswith("Gini coefficient DR 0.250 and LA 0.500.")
    lines = [
        [(row.get("depth"), row["experts"], row["share"]) for row in rows]
        for rows in data(panel.specification)
    ]
    most, all_of_them = ("1", "0.75"), ("2", "1")
    assert [(None, *most), (None, *all_of_them)] in lines
    assert [(depth, *point) for depth in ("1", "2") for point in (most, all_of_them)] in lines
    assert panel.specification["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"


def test_the_baseline_alone_has_a_panel() -> None:
    drawn = concentration(BALANCE_CURVES.assign(run_id="s", variant="LA"), GINI, DRAWN)
    assert [one.title for one in drawn.panels] == ["LA, depth 2"]


def test_balance_shows_the_whole_model_over_training_and_each_depth_against_the_baseline() -> None:
    gini = pd.DataFrame(
        {"depth": [None, None, 1], "tokens": [1e6, 2e6, 2e6], "gini": [0.2, 0.1, 0.5]}
    )
    gini = gini.assign(variant="DR", model_depth=2, run_id="s")
    ratios = pd.DataFrame(
        {"variant": ["LA", "DR", "DR"], "depth": [1, 1, 2], "ratio": [1, 2.5, 11]}
    )
    ratios = ratios.assign(
        baseline="LA", model_depth=2, experts_for_90=5.0, baseline_experts_for_90=2.0
    )
    drawn = balance(gini, GINI.iloc[:1], ratios, DRAWN)
    assert drawn.finding == (
        "Gini coefficient of expert selection at depth 2, at the end: DR 0.250 (0.200 to 0.300)."
    )
    assert [one.title for one in drawn.panels] == [
        "Depth 2: Gini coefficient",
        "Depth 2: experts used, against LA",
    ]
    assert "experts used, against LA’s: DR 2.5 to 11 times" in drawn.panels[1].description
    assert balance(gini.iloc[2:], GINI, ratios.iloc[:1], DRAWN) is None


@pytest.mark.slow
def test_figures_side_by_side_give_one_gini_coefficient(tmp_path: Path) -> None:
    database = whole_study(tmp_path / "results.duckdb", {name: RIGHT[name] for name in DRAWN})
    with connect(database) as connection:
        connection.execute(
            "insert into runs by name select * replace ('other' as run_id, 1 as seed) from runs"
            " where run_id = 'DR-4-s0'"
        )
        connection.execute(
            "insert into expert_usage by name select * replace ('other' as run_id, 1 as selections)"
            " from expert_usage where run_id = 'DR-4-s0'"
        )
    data = read_study(
        database, STUDY, ("order", "concentration", "gini", "gini_at_end", "diversity")
    )
    lines = concentration(data.concentration, data.gini_at_end, DRAWN)
    training = balance(data.gini, data.gini_at_end, data.diversity, DRAWN)
    even, uneven = sorted(data.gini.loc[data.gini["variant"] == "DR", "gini"])
    assert even == 0
    assert f"DR {uneven / 2:.3f}" in lines.finding
    assert f"DR {uneven / 2:.3f} (0.000 to {uneven:.3f})" in training.finding


@pytest.mark.slow
def test_every_row_of_a_depth_attention_map_is_scaled_by_its_strongest() -> None:
    drawn = depth_attention(SCORES, DRAWN)
    assert drawn.finding == (
        "DR, depth 2: of 1 depth after the first, most attention goes to the depth itself in 1, to the depth before "
        "in 0."
    )
    (rows,) = data(drawn.panels[0].specification)
    assert [float(row["strength"]) for row in rows] == pytest.approx([1, 3 / 7, 1], rel=1e-4)
    drawing = page_drawing(drawn.panels[0], 1)
    assert all(f">{label}</text>" in drawing for label in ("100", "30", "70"))
    assert "1 to 1 (100%) and 2 to 2 (70%)" in drawn.panels[0].description


COUNTS = {
    (1, 0): 50,
    (2, 0): 50,
    (1, 1): 0,
    (2, 1): 100,
    (1, 2): 100,
    (2, 2): 0,
    (1, 3): 0,
    (2, 3): 0,
}

FRAME = pd.DataFrame([{"depth": d, "expert": e, "selections": n} for (d, e), n in COUNTS.items()])

FRAME = FRAME.assign(variant="DR", model_depth=2, run_id="s", tokens=5)


def map_of(panel: Panel) -> np.ndarray:
    """The shares [depth, expert] of a map."""
    (rows,) = data(panel.specification)
    cells = pd.DataFrame(rows).astype(float)
    assert not cells.duplicated(["depth", "expert"]).any()
    return cells.pivot_table(index="depth", columns="expert", values="share").to_numpy()


def test_experts_are_ordered_from_those_of_few_depths_to_those_of_many() -> None:
    drawn = selections(FRAME, DRAWN)
    # Experts 2 and 1 have one depth, the first and the second; expert 0 has both; expert 3 was
    # never selected.
    assert map_of(drawn.panels[0]).tolist() == [[1, 0, 0.5], [0, 1, 0.5]]
    assert "each of 3 experts" in drawn.panels[0].description
    assert "specialised has 100% of its selections, the most general 50%" in drawn.panels[0].finding
    assert selections(FRAME.iloc[:0], DRAWN) is None


def test_the_experts_of_a_depth_are_shares_of_its_selections() -> None:
    drawn = experts_of_depths(FRAME, DRAWN)
    # Both depths make 150 selections: 100 of an expert of their own, 50 of expert 0.
    assert map_of(drawn.panels[0]) == pytest.approx(np.array([[2, 0, 1], [0, 2, 1]]) / 3, abs=1e-5)
    assert (
        "gives one expert 66.7% of its selections, where even use would be 33.33%"
        in drawn.panels[0].description
    )


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
