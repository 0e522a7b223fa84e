"""One fitted curve: known curves come out again, and what cannot be fitted says so; how much noise training has."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.statistics.power_law import FEWEST_POINTS, ObservedCurve, fit_power_law, fit_replicates, training_variance

TOKENS = np.arange(1, 13) * 100_000.0


def law(floor, ceiling, scale, exponent, tokens=TOKENS):
    return ceiling - (ceiling - floor) / (1 + (tokens / scale) ** exponent)


def points(accuracy, *, items=401, chance=0.1, tokens=TOKENS):
    return ObservedCurve(tokens, accuracy, np.sqrt(accuracy * (1 - accuracy) / (items - 1)), chance)


@pytest.mark.parametrize(
    "parameters",
    [(0.1, 0.9, 800_000, 1.3), (0.1, 0.6, 200_000, 2.0), (0.05, 0.7, 400_000, 1.0), (0.1, 0.3, 600_000, 5.0)],
)
def test_a_curve_without_noise_comes_out_again(parameters):
    fit = fit_power_law(points(law(*parameters)))
    assert fit.status == "fitted"
    assert (fit.floor, fit.ceiling, fit.scale, fit.exponent) == pytest.approx(parameters, rel=1e-3)


def test_percentages_give_the_same_curve():
    share, percent = (
        fit_power_law(points(law(0.1, 0.8, 5e5, 1.5))),
        fit_power_law(ObservedCurve(TOKENS, 100 * law(0.1, 0.8, 5e5, 1.5), np.full(12, 2.0), 10.0)),
    )
    assert percent.ceiling == pytest.approx(100 * share.ceiling, rel=1e-3)
    assert percent.scale == pytest.approx(share.scale, rel=1e-3)


def test_what_cannot_be_fitted_says_why():
    few = fit_power_law(points(law(0.1, 0.9, 8e5, 1.3)[: FEWEST_POINTS - 1], tokens=TOKENS[: FEWEST_POINTS - 1]))
    assert (few.status, math.isnan(few.ceiling)) == ("too few points", True)
    noise = np.random.default_rng(0).normal(0, 0.005, 12)
    assert fit_power_law(points(0.1 + noise)).status == "near chance"
    plateau = fit_power_law(points(0.5 + noise))
    assert plateau.status == "flat"
    assert plateau.floor == plateau.ceiling == pytest.approx(0.5, abs=0.01)
    assert fit_power_law(points(np.full(12, 0.5))).status == "flat"
    assert fit_power_law(points(np.linspace(0.6, 0.4, 12))).status == "flat"  # it falls: no curve of ours does


def test_unknown_errors_and_chance_are_no_obstacle():
    accuracy = law(0.0, 0.8, 5e5, 1.5)
    fit = fit_power_law(ObservedCurve(TOKENS, accuracy, np.full(12, np.nan), math.nan))
    assert (fit.status, fit.floor, fit.ceiling) == ("fitted", pytest.approx(0, abs=1e-6), pytest.approx(0.8, rel=1e-3))
    late = law(0.0, 0.8, 6e5, 3)
    late[0] = 0.0  # nothing right: an error of 0 must not weigh for ever
    assert fit_power_law(points(late, chance=0)).ceiling == pytest.approx(0.8, abs=0.02)


def test_a_plateau_after_a_rise_is_the_ceiling():
    fit = fit_power_law(points(np.minimum(0.5, 0.1 + 0.1 * np.arange(12))))
    assert (fit.status, fit.ceiling) == ("fitted", pytest.approx(0.5, abs=0.02))


def test_draws_spread_as_the_items_do_and_wider_when_training_is_noisy():
    accuracy, random = law(0.1, 0.9, 8e5, 1.3), np.random.default_rng(1)
    drawn = np.vstack([accuracy, accuracy + random.normal(0, 0.01, (300, 1))])  # the items of all checkpoints together
    ends = []
    for noise in (0.0, 0.04):
        observed = points(accuracy + np.random.default_rng(2).normal(0, noise, 12) if noise else accuracy)
        fit = fit_power_law(observed)
        spread = fit_replicates(observed, fit, drawn, np.random.default_rng(3))(TOKENS)[:, 6].std()
        ends.append(spread)
    assert ends[0] == pytest.approx(0.01, rel=0.2)
    assert ends[1] > 1.3 * ends[0]


def found_variance(noise, items, studies=200):
    """The mean of the variances found in studies with this noise of training and independent errors of items."""
    accuracy, random = law(0.1, 0.9, 8e5, 1.3), np.random.default_rng(0)
    errors = np.sqrt(accuracy * (1 - accuracy) / items)
    found = []
    for _ in range(studies):
        observed = accuracy + random.normal(0, errors) + random.normal(0, noise, 12)
        drawn = np.vstack([observed, observed + random.normal(0, errors, (200, 12))])
        seen = points(observed, items=items)
        found.append(training_variance(seen, fit_power_law(seen), drawn))
    return np.mean(found)


@pytest.mark.slow
def test_the_noise_of_training_is_what_items_do_not_explain():
    assert found_variance(0.04, 400) == pytest.approx(0.04**2, rel=0.15)
    assert found_variance(0.04, 10**6) == pytest.approx(0.04**2, rel=0.15)
    # Never negative, so that without noise it is a little above none: half of the items' own 0.0005 at most.
    assert found_variance(0, 400) < 0.25 * 0.5 * 0.5 / 400 * 1.5


@settings(max_examples=20, deadline=None)
@given(st.floats(0.001, 0.05))
def test_an_error_that_all_checkpoints_share_is_no_noise_of_training(size):
    observed = points(law(0.1, 0.9, 8e5, 1.3))
    shared = np.random.default_rng(0).normal(0, size, (300, 1))
    drawn = np.vstack([observed.accuracy, observed.accuracy + shared])
    assert training_variance(observed, fit_power_law(observed), drawn) == pytest.approx(0, abs=1e-8)


def test_scatter_around_the_mean_of_a_flat_curve_is_noise_too():
    flat = points(0.5 + 0.05 * np.resize([1.0, -1.0], 12))
    assert fit_power_law(flat).status == "flat"
    unmoved = np.tile(flat.accuracy, (10, 1))
    assert training_variance(flat, fit_power_law(flat), unmoved) == pytest.approx(0.05**2 * 12 / 11)
    few = points(law(0.1, 0.9, 8e5, 1.3)[:4], tokens=TOKENS[:4])
    assert training_variance(few, fit_power_law(few), np.tile(few.accuracy, (10, 1))) == 0
