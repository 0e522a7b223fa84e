"""The resolution of a study: smaller with more seeds and items, and true in simulated studies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from sql.statistics.resolution import Noise, smallest_factor


def test_the_example() -> None:
    assert smallest_factor(Noise(0.15, 0.03, "a study"), 5) == pytest.approx(1.375, abs=0.01)


def test_one_seed_tells_nothing_and_no_noise_tells_everything() -> None:
    assert smallest_factor(Noise(0.15, 0.03, "a study"), 1) == math.inf
    assert smallest_factor(Noise(0.0, 0.0, "a study"), 3) == 1.0


@settings(max_examples=30)
@given(st.floats(0.01, 1), st.floats(0, 0.5), st.integers(2, 10))
def test_one_more_seed_never_hurts(deviation: float, item_error: float, seeds: int) -> None:
    noise = Noise(deviation, item_error, "a study")
    assert 1 < smallest_factor(noise, seeds + 1) < 1.01 * smallest_factor(noise, seeds)  # simulated
    assert smallest_factor(Noise(deviation, item_error + 0.1, ""), seeds) > 1


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_four_of_five_studies_tell_the_smallest_factor_from_one(seeds: int) -> None:
    noise, random, studies = Noise(0.2, 0.05, "a study"), np.random.default_rng(0), 4000
    truth = math.log(smallest_factor(noise, seeds))
    baseline = random.normal(truth, noise.seed_deviation, (studies, seeds))
    variant = random.normal(0, noise.seed_deviation, (studies, seeds))
    found = baseline.mean(axis=1) - variant.mean(axis=1) + random.normal(0, noise.item_error, studies)
    variances = np.stack([baseline.var(axis=1, ddof=1), variant.var(axis=1, ddof=1)]) / seeds
    variance = variances.sum(axis=0) + noise.item_error**2
    freedom = variance**2 / (variances**2 / (seeds - 1)).sum(axis=0)
    told = found > t.ppf(0.975, freedom) * np.sqrt(variance)
    assert told.mean() == pytest.approx(0.8, abs=0.02)


def test_more_items_make_their_own_error_smaller():
    noise = Noise(0.15, 0.04, "a study", items=1000)
    assert noise.with_items(4000) == Noise(0.15, 0.02, "a study", items=4000)
    assert noise.with_items(0) == noise
    assert Noise(0.15, 0.04, "a study").with_items(4000).item_error == 0.04
