"""A line through log ratios over log sizes: planted slopes, exchanged models, and its crossing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.sql.statistics.trends import fit_trend

SIZES = 2 * np.log([64.0, 96.0, 128.0])
FREEDOM = np.array([4.0, 5.0, 6.0])


def test_a_planted_slope_is_found() -> None:
    ratios = 0.4 - 0.25 * (SIZES - SIZES.mean())
    trend = fit_trend(SIZES, ratios, np.array([0.05, 0.02, 0.03]), FREEDOM)
    assert trend.slope == pytest.approx(-0.25)
    assert trend.low < -0.25 < trend.high


@given(
    st.lists(st.floats(-1, 1), min_size=3, max_size=3),
    st.lists(st.floats(0.01, 0.5), min_size=3, max_size=3),
)
def test_exchanged_models_have_the_slope_turned_round(
    ratios: list[float], errors: list[float]
) -> None:
    trend = fit_trend(SIZES, np.array(ratios), np.array(errors), FREEDOM)
    turned = fit_trend(SIZES, -np.array(ratios), np.array(errors), FREEDOM)
    assert (turned.slope, turned.low, turned.high) == pytest.approx(
        (-trend.slope, -trend.high, -trend.low)
    )
    assert turned.p == pytest.approx(trend.p)


def test_a_better_known_size_counts_for_more() -> None:
    ratios = np.array([0.0, 0.5, 0.2])
    sure_of_last = fit_trend(SIZES, ratios, np.array([0.05, 1.0, 0.01]), FREEDOM)
    between_ends = (ratios[2] - ratios[0]) / (SIZES[2] - SIZES[0])
    assert sure_of_last.slope == pytest.approx(between_ends, abs=0.02)


def test_with_two_sizes_the_slope_is_that_between_them() -> None:
    trend = fit_trend(SIZES[:2], np.array([0.1, 0.3]), np.array([0.1, 0.2]), FREEDOM[:2])
    assert trend.slope == pytest.approx(0.2 / (SIZES[1] - SIZES[0]))


def test_a_line_crosses_one_only_where_its_slope_is_known() -> None:
    errors = np.full(3, 0.02)
    falling = 0.3 - 0.5 * (SIZES - SIZES.mean())
    crossing = fit_trend(SIZES, falling, errors, FREEDOM).crossing
    assert crossing is not None
    at, low, high = crossing
    assert at == pytest.approx(SIZES.mean() + 0.6)
    assert low < at < high
    flat = np.array([0.1, 0.09, 0.11])
    assert fit_trend(SIZES, flat, errors, FREEDOM).crossing is None


def test_at_the_ends_of_a_crossing_the_line_is_just_significant() -> None:
    """Fieller: the interval through the ends has 0 on its edge."""
    errors = np.full(3, 0.1)
    ratios = 0.2 - 0.9 * (SIZES - SIZES.mean())
    _, low, high = fit_trend(SIZES, ratios, errors, np.full(3, np.inf)).crossing
    for end in (low, high):
        centred = SIZES - SIZES.mean()
        weights = 1 / 3 + centred * (end - SIZES.mean()) / (centred**2).sum()
        error = np.sqrt(((weights * errors) ** 2).sum())
        assert abs(weights @ ratios) == pytest.approx(1.959964 * error, rel=1e-3)
