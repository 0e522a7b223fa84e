"""A line through log ratios over log sizes: planted slopes, exchanged models, and its crossing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import stdtr
from scipy.stats import ttest_ind

from dreamer_study.sql.statistics.trends import Points, fit_trend, line_at

SIZES = 2 * np.log([64.0, 96.0, 128.0])
FREEDOM = np.array([4.0, 5.0, 6.0])
RATIOS = st.lists(st.floats(-1, 1), min_size=3, max_size=3)
ERRORS = st.lists(st.floats(0.01, 0.5), min_size=3, max_size=3)


def points(
    ratios: np.ndarray | list[float],
    errors: np.ndarray | list[float],
    *,
    of_items: float = 0.0,
    freedom: np.ndarray = FREEDOM,
    sizes: np.ndarray = SIZES,
) -> Points:
    """Points whose errors are by this share errors of items."""
    errors = np.array(errors)
    return Points(sizes, np.array(ratios), errors, of_items * errors, freedom)


@pytest.mark.slow
@given(st.floats(-2, 2), st.floats(-2, 2), ERRORS, st.floats(0, 1))
def test_a_planted_slope_is_found(
    level: float, slope: float, errors: list[float], of_items: float
) -> None:
    line = level + slope * (SIZES - SIZES.mean())
    trend = fit_trend(points(line, errors, of_items=of_items))
    assert trend.slope == pytest.approx(slope, abs=1e-9)
    assert trend.low <= slope <= trend.high
    assert trend.p_of_line == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
@given(RATIOS, ERRORS)
def test_exchanged_models_have_the_slope_turned_round(
    ratios: list[float], errors: list[float]
) -> None:
    trend = fit_trend(points(ratios, errors))
    turned = fit_trend(points(-np.array(ratios), errors))
    assert (turned.slope, turned.low, turned.high) == pytest.approx(
        (-trend.slope, -trend.high, -trend.low)
    )
    assert turned.p == pytest.approx(trend.p)
    assert turned.p_of_line == pytest.approx(trend.p_of_line)


def test_a_better_known_size_counts_for_more() -> None:
    ratios = np.array([0.0, 0.5, 0.2])
    sure_of_last = fit_trend(points(ratios, [0.05, 1.0, 0.01]))
    between_ends = (ratios[2] - ratios[0]) / (SIZES[2] - SIZES[0])
    assert sure_of_last.slope == pytest.approx(between_ends, abs=0.02)


def test_with_two_sizes_the_slope_is_that_between_them_and_no_line_is_tested() -> None:
    trend = fit_trend(points([0.1, 0.3], [0.1, 0.2], sizes=SIZES[:2], freedom=FREEDOM[:2]))
    assert trend.slope == pytest.approx(0.2 / (SIZES[1] - SIZES[0]))
    assert trend.p_of_line is None


def test_between_two_sizes_the_test_is_that_of_welch() -> None:
    first = np.array([0.1, 0.4, 0.2, 0.3])
    second = np.array([0.7, 0.5, 0.9, 1.4])
    samples = (first, second)
    errors = [sample.std(ddof=1) / 2 for sample in samples]
    means = [sample.mean() for sample in samples]
    freedom = np.array([3.0, 3.0])
    trend = fit_trend(points(means, errors, sizes=SIZES[:2], freedom=freedom))
    assert trend.p == pytest.approx(ttest_ind(first, second, equal_var=False).pvalue)


@given(RATIOS, ERRORS, st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_errors_by_items_that_all_sizes_share_are_covered_whatever_their_correlation(
    ratios: list[float], errors: list[float], correlation: float, seed: int
) -> None:
    """The line's variance is never below that of items of any correlation from 0 to 1."""
    of_items = points(ratios, errors, of_items=1.0, freedom=np.full(3, np.inf))
    at = np.random.default_rng(seed).uniform(SIZES[0] - 1, SIZES[-1] + 1)
    _, low, high = line_at(of_items, np.array([at]))[:, 0]
    precision = 1 / np.array(errors) ** 2
    design = np.stack([np.ones(3), SIZES - at], axis=1)
    weights = np.linalg.solve((design.T * precision) @ design, design.T * precision)[0]
    covariance = np.outer(errors, errors) * (correlation + (1 - correlation) * np.eye(3))
    true_half = 1.959964 * np.sqrt(weights @ covariance @ weights)
    assert (high - low) / 2 >= true_half * (1 - 1e-6)


def test_ratios_that_lie_on_no_line_are_found() -> None:
    errors = np.full(3, 0.05)
    bent = fit_trend(points([0.0, 0.6, 0.0], errors))
    assert bent.p_of_line is not None
    assert bent.p_of_line < 0.01
    straight = fit_trend(points([0.0, 0.3, 0.6], errors))
    assert straight.p_of_line is not None
    assert straight.p_of_line > 0.05


@pytest.mark.slow
@given(ERRORS, RATIOS)
def test_of_three_sizes_the_line_is_tested_as_one_contrast_is(
    errors: list[float], ratios: list[float]
) -> None:
    """With one degree of freedom Johansen's test is Welch's, of the contrast around the line."""
    contrast = np.array(
        [SIZES[1] - SIZES[2], SIZES[2] - SIZES[0], SIZES[0] - SIZES[1]]
    )  # 0 for every line
    value = abs(contrast @ ratios)
    parts = (contrast * np.array(errors)) ** 2
    freedom = parts.sum() ** 2 / (parts**2 / FREEDOM).sum()
    assume(value > 1e-3)
    expected = 2 * stdtr(freedom, -value / np.sqrt(parts.sum()))
    assert fit_trend(points(ratios, errors)).p_of_line == pytest.approx(expected, rel=1e-5)


def test_a_line_crosses_one_only_where_its_slope_is_known() -> None:
    errors = np.full(3, 0.02)
    falling = 0.3 - 0.5 * (SIZES - SIZES.mean())
    crossing = fit_trend(points(falling, errors)).crossing
    assert crossing is not None
    at, low, high = crossing
    assert at == pytest.approx(SIZES.mean() + 0.6)
    assert low < at < high
    assert fit_trend(points([0.1, 0.09, 0.11], errors)).crossing is None


@pytest.mark.parametrize(("distance", "is_said"), [(0.6, True), (0.8, False), (-0.8, False)])
def test_a_crossing_is_said_no_further_than_a_factor_of_two_outside_the_sizes(
    distance: float, is_said: bool
) -> None:
    end = SIZES[-1] if distance > 0 else SIZES[0]
    line = -0.5 * (SIZES - end - distance)
    crossing = fit_trend(points(line, np.full(3, 0.01))).crossing
    assert (crossing is not None) == is_said


def test_at_the_ends_of_a_crossing_the_line_is_just_significant() -> None:
    """Fieller: the interval through the ends has 0 on its edge."""
    ratios = 0.2 - 0.9 * (SIZES - SIZES.mean())
    given = points(ratios, np.full(3, 0.1), of_items=0.5)
    crossing = fit_trend(given).crossing
    assert crossing is not None
    _, lows, highs = line_at(given, np.array(crossing[1:]))
    assert np.minimum(abs(lows), abs(highs)) == pytest.approx([0, 0], abs=1e-6)
