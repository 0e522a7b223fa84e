"""Curves of the training: loss, gradient norm and speed."""

from __future__ import annotations

import pandas as pd

from reports.figures.training import course, loss, rates
from tests.reports.figures.frames import DRAWN, data

CURVES = pd.DataFrame({"tokens": [1e6, 4e6, 8e6], "loss": [5.0, 3.0, 2.9], "gradient_norm": 0.5})
CURVES = CURVES.assign(tokens_per_second=[None, 900.0, 1100.0], mfu=None, losses_not_finite=0)
CURVES = CURVES.assign(depth=4, variant="LA", run_id="r", seed=0, status="complete").astype({"mfu": float})


def test_the_later_half_has_a_panel_of_its_own() -> None:
    drawn = loss(CURVES, DRAWN)
    assert drawn.finding == "Depth 4, at the end, mean over the runs: LA 2.900."
    assert [one.title for one in drawn.panels] == ["Depth 4", "Depth 4, later half"]
    (whole,), (late,) = (data(one.specification) for one in drawn.panels)
    assert [row["loss"] for row in whole] == ["5", "3", "2.9"]
    assert [row["loss"] for row in late] == ["3", "2.9"]
    assert loss(CURVES.assign(loss=float("nan")), DRAWN) is None


def test_the_mean_at_the_end_is_over_runs_that_have_ended() -> None:
    for status, mean in (("evaluating", "2.950"), ("training", "2.900"), ("failed", "2.900"), ("screened", "2.900")):
        other = CURVES.assign(run_id="other", seed=1, status=status, loss=CURVES["loss"] + 0.1)
        drawn = loss(pd.concat([CURVES, other]), DRAWN)
        assert drawn is not None
        assert drawn.finding == f"Depth 4, at the end, mean over the runs: LA {mean}."


def test_losses_that_are_no_numbers_are_said() -> None:
    drawn = loss(CURVES.assign(losses_not_finite=[0, 0, 7]), DRAWN)
    assert "The loss was not a finite number in r (7 steps)" in drawn.caption


def test_gradients_and_speed_are_drawn_where_they_were_recorded() -> None:
    drawn = course(CURVES, DRAWN)
    assert drawn.finding == "Gradient norm, depth 4, on average: LA 0.5."
    assert [one.title for one in drawn.panels] == ["Gradient norm, depth 4", "Tokens per second, depth 4"]
    assert drawn.panels[1].description == "Tokens per second, depth 4, on average: LA 1K."


def test_the_search_for_learning_rates_is_a_line_over_means_with_a_ring_at_what_was_chosen() -> None:
    rows = pd.DataFrame({"learning_rate": [1e-3, 2e-3, 4e-3], "loss": [3.0, 2.0, None], "chosen": [False, True, False]})
    rows = rows.assign(depth=4, variant="LA")
    drawn = rates(pd.concat([rows, rows.assign(loss=[3.2, 2.2, 1.0])]), DRAWN)
    line, ring = data(drawn.panels[0].specification)
    assert [(row["learning_rate"], row["loss"]) for row in line] == [("0.001", "3.1"), ("0.002", "2.1")], "none failed"
    assert [row["learning_rate"] for row in ring] == ["0.002"]
    assert drawn.finding == "Depth 4, chosen: LA 0.002 (the highest tried)."
    assert rates(rows[:0], DRAWN) is None
