"""Ratios of tokens at equal final quality, on curves whose ratio is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dreamer_study.sql.statistics.curves import Curves, SeedCurves
from dreamer_study.sql.statistics.token_ratios import (
    checkpoint_distance,
    common_range,
    log_bounds,
    log_lower_bounds,
    log_ratios,
    log_ratios_at,
    missing_model,
)

TOKENS = np.array([10, 20, 40, 80, 160, 320])
LINE = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])  # a tenth for each doubling of the tokens


def curve(scores: dict[float, float], noise_floor: float = -math.inf) -> Curves:
    """Make the curve of one run, given as scores by tokens."""
    return SeedCurves(
        np.log(list(scores)), np.array([list(scores.values())]), None, noise_floor
    ).mean


def line(shift: float = 0.0, *, tokens: np.ndarray = TOKENS, **options: float) -> Curves:
    """Make the line that lies above LINE by a shift."""
    return curve(dict(zip(tokens, LINE + shift, strict=True)), **options)


def ratio(baseline: Curves, variant: Curves) -> float:
    return float(np.exp(log_ratios(baseline, variant)[0]))


@pytest.mark.parametrize("times", [0.5, 1, 2, 3.7])
def test_a_variant_of_so_many_times_the_tokens_has_that_ratio(times: float) -> None:
    assert ratio(line(), line(tokens=TOKENS * times)) == pytest.approx(times)


def test_only_the_upper_fifth_counts() -> None:
    # Up to 0.55 the variant is four times as slow; from there on it is as fast as the baseline.
    # The range is 0.268 (the baseline at a tenth of 320 tokens) to 0.6, its top from 0.5336.
    slow = {40: 0.1, 80: 0.2, 160: 0.3, 200: 0.53, 320 / 2**0.5: 0.55, 320: 0.6, 640: 0.7}
    scores = common_range(line(), curve(slow))
    assert (scores.low[0], scores.high[0]) == pytest.approx((0.6 - math.log2(10) / 10, 0.6))
    assert scores.cut[0] == pytest.approx(0.6 - math.log2(10) / 50)
    low = scores.cut[0]
    # From `cut` to 0.55 the variant's line goes from 200 to 226.3 tokens, from 0.55 on it is LINE.
    of_variant = [math.log2(200), math.log2(320) - 0.5]
    start = of_variant[0] + (low - 0.53) / 0.02 * (of_variant[1] - of_variant[0])
    doublings = (start + of_variant[1]) / 2 - (math.log2(10) + (low + 0.55) / 2 * 10 - 1)
    expected = 2 ** (doublings * (0.55 - low) / (0.6 - low))
    assert ratio(line(), curve(slow)) == pytest.approx(expected)


def test_where_the_log_begins_does_not_count() -> None:
    other = curve({15: 0.02, 30: 0.12, 60: 0.25, 120: 0.4, 240: 0.5, 480: 0.62})
    earlier = curve({1: -3.0, 15: 0.02, 30: 0.12, 60: 0.25, 120: 0.4, 240: 0.5, 480: 0.62})
    assert ratio(line(), earlier) == pytest.approx(ratio(line(), other))


def test_the_range_ends_at_the_lower_of_the_two_bests_and_never_reaches_below_chance() -> None:
    lower = curve({10: 0.1, 20: 0.15, 40: 0.2, 80: 0.25})
    scores = common_range(line(), lower)
    assert scores.high[0] == 0.25
    assert scores.low[0] == pytest.approx(0.1)  # a tenth of 80 tokens is before the first point
    floored = common_range(line(noise_floor=0.22), lower)
    assert floored.low[0] == 0.22
    assert np.isnan(common_range(line(noise_floor=0.25), lower).high[0])


curves = st.lists(st.integers(0, 20), min_size=2, max_size=7)


def from_list(values: list[int], spacing: float = 2.0) -> Curves:
    return curve({100 * spacing**n: value / 20 for n, value in enumerate(values)})


@pytest.mark.slow
@given(curves, curves)
def test_exchanging_the_models_gives_the_inverse(first: list, second: list) -> None:
    there = log_ratios(from_list(first), from_list(second, 1.7))[0]
    back = log_ratios(from_list(second, 1.7), from_list(first))[0]
    assert np.isnan(there) == np.isnan(back)
    assert np.isnan(there) or there == pytest.approx(-back, abs=1e-9)


@pytest.mark.slow
@given(curves, curves, st.integers(2, 9))
def test_more_tokens_of_the_variant_multiply_its_ratio(
    first: list, second: list, scale: int
) -> None:
    before = from_list(second)
    after = Curves(before.log_tokens + math.log(scale), before.best, before.noise_floor)
    baseline = from_list(first)
    ratios = log_ratios(baseline, after)[0] - log_ratios(baseline, before)[0]
    bounds = log_lower_bounds(baseline, after)[0] - log_lower_bounds(baseline, before)[0]
    for difference in (ratios, bounds):
        assert np.isnan(difference) or difference == pytest.approx(math.log(scale))


@pytest.mark.slow
@given(curves, curves, st.lists(st.integers(0, 20), max_size=3))
def test_more_training_only_raises_the_lower_bound_of_what_was_never_reached(
    first: list, second: list, more: list
) -> None:
    baseline = from_list(first)
    before = log_lower_bounds(baseline, from_list(second))[0]
    assume(np.isfinite(before))
    assert log_lower_bounds(baseline, from_list(second + more))[0] >= before - 1e-9


def test_the_lower_bound_is_the_ratio_where_the_variant_reaches_the_best_of_the_baseline() -> None:
    ahead = line(0.1)
    assert log_lower_bounds(line(), ahead) == pytest.approx(log_ratios(line(), ahead))
    behind = line(-0.3)  # ends at 0.3, below the upper fifth of the baseline's range
    low = 0.6 - math.log2(10) / 50
    doublings = math.log2(320) - (math.log2(10) + ((low + 0.6) / 2 - 0.1) * 10)
    assert np.exp(log_lower_bounds(line(), behind)[0]) == pytest.approx(2**doublings)


@pytest.mark.parametrize(
    ("variant", "missing", "bound"),
    [
        pytest.param({10: 0.01, 80: 0.05}, "variant", 8.0, id="never had the baseline's start"),
        pytest.param({30: 0.7, 60: 0.8}, "baseline", 320 / 30, id="starts above the best"),
        pytest.param({30: 0.1, 60: 0.1}, "variant", 6.0, id="stays at the baseline's start"),
    ],
)
def test_without_a_common_range_there_is_a_one_sided_bound(
    variant: dict, missing: str, bound: float
) -> None:
    other = curve(variant)
    assert np.isnan(log_ratios(line(), other)[0])
    assert missing_model(line(), other) == missing
    models = {"variant": (other, line()), "baseline": (line(), other)}
    assert np.exp(log_bounds(*models[missing])[0]) == pytest.approx(bound)


def test_two_models_at_chance_have_no_bound() -> None:
    assert missing_model(line(noise_floor=0.9), line(-0.1)) is None
    assert np.isnan(log_bounds(line(noise_floor=0.9), line(-0.1))[0])


def test_a_score_fixed_in_advance_counts_the_last_token_of_a_model_that_missed_it() -> None:
    slow = curve({20: 0.1, 640: 0.35})
    assert np.exp(log_ratios_at(line(), slow, 0.3)[0]) == pytest.approx(
        math.exp(np.interp(0.3, [0.1, 0.35], np.log([20, 640]))) / 40
    )
    assert np.exp(log_ratios_at(line(), slow, 0.5)[0]) == pytest.approx(640 / 160)
    assert np.exp(log_ratios_at(slow, line(), 0.5)[0]) == pytest.approx(160 / 640)
    assert np.isnan(log_ratios_at(line(), slow, 0.9)[0])


def test_the_distance_of_checkpoints_is_that_of_the_coarser_curve_within_the_range() -> None:
    fine = curve(dict(zip(10 * 1.1 ** np.arange(40), np.linspace(0.1, 0.62, 40), strict=True)))
    scores = common_range(fine, line())
    assert checkpoint_distance(fine, line(), scores) == pytest.approx(math.log(2))
    assert checkpoint_distance(fine, fine, common_range(fine, fine)) == pytest.approx(math.log(1.1))
