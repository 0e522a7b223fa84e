"""Seeds are added until the interval is narrow, and the interval at stopping holds the truth as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from sql.statistics.sequential import LOOKS, NOMINAL, look, looks_until


def test_the_looks_follow_each_other_to_the_most_that_is_allowed() -> None:
    assert [looks_until(most) for most in (24, 16, 12)] == [[4, 8, 16, 24], [4, 8, 16], [4, 8, 12]]


@given(st.floats(-1, 1), st.floats(0.001, 0.3), st.floats(2, 40), st.sampled_from(LOOKS), st.floats(1.05, 3))
def test_a_study_stops_where_its_interval_is_narrow_or_all_seeds_are_used(value, error, freedom, seeds, ratio) -> None:
    found = look(value, error, freedom, seeds=seeds, high_over_low=ratio)
    assert found.low <= math.exp(value) <= found.high
    assert found.stop == (found.high / found.low <= ratio or seeds == 24) or found.high / found.low == pytest.approx(
        ratio
    )
    assert math.log(found.high / found.low) == pytest.approx(2 * error * t.ppf(1 - NOMINAL / 2, freedom))


def test_an_unknown_error_goes_on() -> None:
    assert not look(0.1, math.nan, math.nan, seeds=4, high_over_low=2).stop
    assert look(0.1, math.nan, math.nan, seeds=24, high_over_low=2).stop


def test_any_of_the_looks_leaves_out_the_truth_in_five_percent() -> None:
    # Known errors: the sharpest case, as estimated ones have the t quantile's own margin.
    means = np.random.default_rng(0).standard_normal((200_000, LOOKS[-1])).cumsum(axis=1)
    missed = np.zeros(len(means), bool)
    for seeds in LOOKS:
        half = math.log(look(0.0, 1 / math.sqrt(seeds), math.inf, seeds=seeds, high_over_low=1.2).high)
        missed |= np.abs(means[:, seeds - 1] / seeds) > half
    assert missed.mean() == pytest.approx(0.05, abs=0.002)
