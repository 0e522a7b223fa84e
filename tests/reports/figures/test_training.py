"""Figures of training: losses of the runs, and the search for learning rates."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from dreamer_study.reports.figures.rendering import Figure
from dreamer_study.reports.figures.training import loss, rates
from tests.reports.figures.frames import (
    DRAWN,
    data,
)

RUN_CURVES = pd.DataFrame(
    {"tokens": [1e6, 4e6, 8e6], "loss": [5.0, 3.0, 2.9], "losses_not_finite": 0}
)

RUN_CURVES = RUN_CURVES.assign(depth=4, variant="LA", run_id="r", seed=0, status="complete")


def means_of(curves: pd.DataFrame) -> pd.DataFrame:
    """The rows of `training_means` that the view has of these curves."""
    counted = curves[~curves["status"].isin(["screened", "failed"])]
    means = counted.groupby(["depth", "variant", "tokens"], as_index=False).agg(
        loss=("loss", "mean"), seed_error=("loss", "sem"), seeds=("run_id", "nunique")
    )
    return means[means["loss"].notna()]


def training_loss(curves: pd.DataFrame, bytes_per_token: float | None = None) -> Figure:
    drawn = loss(curves, means_of(curves), DRAWN, bytes_per_token)
    assert drawn is not None
    return drawn


def seeds_of(curves: pd.DataFrame, count: int) -> pd.DataFrame:
    """Runs whose losses are 0.1 apart."""
    parts = [
        curves.assign(run_id=f"r{seed}", seed=seed, loss=curves["loss"] + 0.1 * seed)
        for seed in range(count)
    ]
    return pd.concat(parts, ignore_index=True)


def thin_lines(figure: Figure) -> int:
    layers = figure.panels[0].specification["layer"]
    return len([layer for layer in layers if layer.get("name") == "seeds"])


def test_the_later_half_has_a_panel_of_its_own() -> None:
    drawn = training_loss(RUN_CURVES)
    assert drawn.finding == "Depth 4, at the end, mean over the runs: LA 2.900."
    assert [one.title for one in drawn.panels] == ["Depth 4", "Depth 4, later half"]
    (whole,), (late,) = (data(one.specification) for one in drawn.panels)
    assert [row["loss"] for row in whole] == ["5", "3", "2.9"]
    assert [row["loss"] for row in late] == ["3", "2.9"]
    none = RUN_CURVES.assign(loss=float("nan"))
    assert loss(none, means_of(none), DRAWN) is None


@pytest.mark.slow
def test_the_mean_at_the_end_is_over_runs_that_have_ended() -> None:
    for status, mean in (
        ("evaluating", "2.950"),
        ("training", "2.900"),
        ("failed", "2.900"),
        ("screened", "2.900"),
    ):
        other = RUN_CURVES.assign(
            run_id="other", seed=1, status=status, loss=RUN_CURVES["loss"] + 0.1
        )
        drawn = training_loss(pd.concat([RUN_CURVES, other], ignore_index=True))
        assert drawn.finding == f"Depth 4, at the end, mean over the runs: LA {mean}."


def test_losses_that_are_no_numbers_are_said() -> None:
    drawn = training_loss(RUN_CURVES.assign(losses_not_finite=[0, 0, 7]))
    assert "The loss was not a finite number in r (7 steps)" in drawn.caption


def test_the_training_loss_of_four_seeds_is_a_mean_with_a_band_over_seeds() -> None:
    drawn = training_loss(seeds_of(RUN_CURVES, 4))
    (rows,) = data(drawn.panels[0].specification)
    error = np.std([0, 0.1, 0.2, 0.3], ddof=1) / 2
    assert float(rows[0]["loss"]) == pytest.approx(5.15)
    assert float(rows[0]["low"]) == pytest.approx(5.15 - 3.18245 * error, rel=1e-5)
    assert "Bands are 95 % intervals of the mean, over seeds." in drawn.caption
    assert not thin_lines(drawn)


def test_few_seeds_and_runs_in_no_mean_are_thin_lines() -> None:
    two = training_loss(seeds_of(RUN_CURVES, 2))
    assert thin_lines(two) == 1
    assert "fewer than 4 have no interval" in two.caption
    assert "count in no mean" not in two.caption
    failed = RUN_CURVES.assign(run_id="failed", status="failed")
    more = training_loss(pd.concat([seeds_of(RUN_CURVES, 4), failed], ignore_index=True))
    (thin,) = (part for part in data(more.panels[0].specification) if "run_id" in part[0])
    assert len(thin) == 3
    assert "count in no mean" in more.caption


@pytest.mark.slow
def test_the_training_loss_is_in_bits_per_byte_where_the_bytes_of_a_token_are_known() -> None:
    drawn = training_loss(RUN_CURVES, bytes_per_token=2.5)
    (rows,) = data(drawn.panels[0].specification)
    assert float(rows[-1]["value"]) == pytest.approx(2.9 / np.log(2) / 2.5, rel=1e-5)
    assert "Bits per byte, with 2.50 bytes to a token" in drawn.caption
    assert drawn.finding == "Depth 4, at the end, mean over the runs: LA 1.674."
    assert "loss (bits per byte)" in json.dumps(drawn.panels[0].specification)
    nats = training_loss(RUN_CURVES)
    assert "Nats per token." in nats.caption
    assert "loss (nats per token)" in json.dumps(nats.panels[0].specification)


def test_the_search_for_learning_rates_is_a_line_over_means_with_a_ring_at_what_was_chosen() -> (
    None
):
    rows = pd.DataFrame(
        {
            "learning_rate": [1e-3, 2e-3, 4e-3],
            "loss": [3.0, 2.0, None],
            "chosen": [False, True, False],
        }
    )
    rows = rows.assign(depth=4, variant="LA")
    drawn = rates(pd.concat([rows, rows.assign(loss=[3.2, 2.2, 1.0])]), DRAWN)
    line, ring = data(drawn.panels[0].specification)
    assert [(row["learning_rate"], row["value"]) for row in line] == [
        ("0.001", "3.1"),
        ("0.002", "2.1"),
    ], "none failed"
    assert [row["learning_rate"] for row in ring] == ["0.002"]
    assert drawn.finding == "Depth 4, chosen: LA 0.002 (the highest tried)."
    assert "loss (bits per byte)" in json.dumps(drawn.panels[0].specification)
    assert rates(rows[:0], DRAWN) is None
