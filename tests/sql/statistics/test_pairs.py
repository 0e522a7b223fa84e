"""Ratios of two models with their intervals, tests and bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as t_distribution

from dreamer_study.sql.statistics.curves import SeedCurves
from dreamer_study.sql.statistics.errors import jackknife
from dreamer_study.sql.statistics.pairs import compare_models, comparison_rows
from dreamer_study.sql.statistics.token_ratios import log_ratios

TOKENS = np.array([10, 20, 40, 80, 160])
LINE = 0.1 * np.arange(1, 6)  # a tenth for each doubling of the tokens
DOUBLING = np.log(2) / 0.1  # log tokens for a unit of score on this line


def lines(*shifts: float, noise_floor: float = -np.inf) -> SeedCurves:
    """Make the curves of seeds that lie above the line by these shifts."""
    scores = np.array([LINE + shift for shift in shifts])
    return SeedCurves(np.log(TOKENS), scores, None, noise_floor)


def test_without_items_the_interval_is_that_of_the_seeds() -> None:
    shifts = (0.0, 0.02, 0.07)
    found = compare_models(lines(0.0, 0.0, 0.0), lines(*shifts))
    error = np.std(shifts, ddof=1) / np.sqrt(3) * DOUBLING
    half = t_distribution.ppf(0.975, 2) * error
    assert found.seed_error == pytest.approx(error)
    assert found.degrees_of_freedom == pytest.approx(2)
    assert found.ratio == pytest.approx(2**-0.3)
    assert np.log([found.low, found.high]) == pytest.approx(
        -np.mean(shifts) * DOUBLING + np.array([-half, half])
    )
    assert found.item_error is None
    assert 1 / found.mean_factor_high == pytest.approx(found.low)


def test_both_models_add_their_spread_and_their_degrees_of_freedom() -> None:
    shifts = ((0.0, 0.03, 0.01, 0.04), (0.05, 0.02, 0.08))
    found = compare_models(*(lines(*own) for own in shifts))
    parts = [np.var(own, ddof=1) / len(own) * DOUBLING**2 for own in shifts]
    assert found.seed_error**2 == pytest.approx(sum(parts))
    assert found.degrees_of_freedom == pytest.approx(
        sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2)
    )


def test_curves_without_a_seed_give_what_each_of_them_gives_alone() -> None:
    random = np.random.default_rng(0)
    baseline, variant = (
        SeedCurves(np.log(TOKENS), LINE + random.normal(0, 0.03, (seeds, 5)), None)
        for seeds in (4, 3)
    )
    alone = [
        [log_ratios(baseline.without_one_seed.of_rows([seed]), variant.mean) for seed in range(4)],
        [log_ratios(baseline.mean, variant.without_one_seed.of_rows([seed])) for seed in range(3)],
    ]
    variance = sum(jackknife(np.array(ratios))[0] for ratios in alone)
    found = compare_models(baseline, variant)
    assert found.seed_error == np.sqrt(variance)
    assert found.ratio == np.exp(log_ratios(baseline.mean, variant.mean)[0])


def test_the_range_is_computed_anew_without_each_seed() -> None:
    # The variant stops at about 0.3: each seed moves where the common range ends.
    stops = (0.28, 0.3, 0.35)
    variant = SeedCurves(np.log(TOKENS), np.minimum(LINE, np.array(stops)[:, None]), None)
    found = compare_models(lines(0.0, 0.0, 0.0), variant)
    assert found.score_high == pytest.approx(np.mean(stops))
    without_one = []
    for left_out in range(3):
        kept = np.delete(variant.scores, left_out, axis=0).mean(axis=0, keepdims=True)
        one_run = SeedCurves(np.log(TOKENS), kept, None)
        without_one.append(np.log(compare_models(lines(0.0), one_run).ratio))
    error = np.sqrt(2 / 3 * ((without_one - np.mean(without_one)) ** 2).sum())
    assert found.seed_error == pytest.approx(error)


def test_what_the_variant_never_reached_is_in_the_lower_bound() -> None:
    variant = SeedCurves(np.log(TOKENS), np.minimum(LINE, np.array([[0.28], [0.3], [0.35]])), None)
    found = compare_models(lines(0.0, 0.01, 0.02), variant)
    assert found.reached is False
    assert found.at_least > 1
    assert found.at_least_low <= found.at_least <= found.at_least_high


@pytest.mark.parametrize(
    ("shifts", "reached"),
    [((0.0, 0.02, -0.03), True), ((-0.01, 0.01, -0.03), True), ((-0.2, -0.21, -0.19), False)],
)
def test_a_best_within_noise_of_the_baselines_is_reached(shifts: tuple, reached: bool) -> None:
    assert compare_models(lines(0.0, 0.01, 0.02), lines(*shifts)).reached is reached


@pytest.mark.slow
@given(st.lists(st.floats(-0.1, 0.1), min_size=4, max_size=8))
def test_p_is_below_five_percent_where_the_interval_leaves_out_one(shifts: list[float]) -> None:
    found = compare_models(lines(*shifts[:2]), lines(*shifts[2:]))
    if found.p is not None:
        leaves_out = found.high < 1 or found.low > 1
        assert (found.p < 0.05) == leaves_out or found.p == pytest.approx(0.05)


def test_four_of_five_studies_with_such_errors_detect_the_smallest_ratio() -> None:
    found = compare_models(lines(0.0, 0.03, 0.01, 0.02, 0.05), lines(0.05, 0.02, 0.08, 0.04, 0.01))
    random = np.random.default_rng(0)
    studies = 20_000
    freedom = found.degrees_of_freedom
    error = found.seed_error
    estimates = np.log(found.detectable) + error * random.standard_normal(studies)
    errors = error * np.sqrt(random.chisquare(freedom, studies) / freedom)
    detected = np.abs(estimates) > t_distribution.ppf(0.975, freedom) * errors
    assert detected.mean() == pytest.approx(0.8, abs=0.01)


def test_one_seed_has_a_ratio_and_no_interval() -> None:
    found = compare_models(lines(0.0), lines(0.0, 0.05))
    assert found.ratio == pytest.approx(2**-0.25)
    assert (found.low, found.high, found.p, found.degrees_of_freedom) == (None,) * 4
    assert found.reached


def test_a_model_against_itself_has_the_ratio_one() -> None:
    model = lines(0.0, 0.1)
    found = compare_models(model, model)
    assert (found.ratio, found.low, found.high, found.at_least, found.mean_factor) == (1,) * 5
    assert (found.range_low, found.range_high) == (pytest.approx(0.15), pytest.approx(0.55))


def test_two_models_at_chance_have_no_number() -> None:
    found = compare_models(lines(0.0, 0.01, noise_floor=0.9), lines(0.02, 0.03))
    assert (found.ratio, found.low, found.high, found.p) == (None,) * 4


def test_a_bound_without_a_common_range_has_the_interval_of_the_seeds() -> None:
    # The variant stays below the baseline's start, which each seed has at other tokens.
    shifts = (0.0, 0.03, 0.01)
    low = SeedCurves(np.log(TOKENS), np.array([[0.1, 0.15, 0.15, 0.15, 0.15]] * 3), None, 0.25)
    found = compare_models(lines(*shifts), low)
    bound = np.log(160) - (np.log(10) + (0.25 - 0.1 - np.mean(shifts)) * DOUBLING)
    error = np.std(shifts, ddof=1) / np.sqrt(3) * DOUBLING
    half = t_distribution.ppf(0.975, 2) * error
    assert np.log(found.low) == pytest.approx(bound - half)
    assert (found.ratio, found.high, found.reached) == (None, None, False)
    assert found.p < 0.05
    turned = compare_models(low, lines(*shifts))
    assert turned.high == pytest.approx(1 / found.low)
    assert turned.low is None


SPREAD = (0.0, 0.02, -0.02)  # of the seeds, around a best of 0.5


@pytest.mark.parametrize(
    ("variant", "target", "kinds"),
    [
        pytest.param(SPREAD, 0.4, (True, True, True), id="every curve reaches the score"),
        pytest.param(SPREAD, 0.495, (True, True, False), id="one seed fewer misses the score"),
        pytest.param((-0.2, -0.19, -0.21), 0.4, (False, True, False), id="never reached"),
    ],
)
def test_a_score_fixed_in_advance_has_an_interval_where_every_curve_reaches_it(
    variant: tuple, target: float, kinds: tuple[bool, bool, bool]
) -> None:
    baseline = lines(0.05, 0.04, 0.06)
    found = compare_models(baseline, lines(*variant), target=target)
    known = tuple(value is not None for value in (found.ratio, found.low, found.high))
    assert known == kinds
    assert (found.score_low, found.score_high, found.target) == (target,) * 3
    assert found.reached is kinds[0]
    turned = compare_models(lines(*variant), baseline, target=target)
    assert (turned.ratio is not None, turned.high is not None, turned.low is not None) == kinds


def test_a_bound_below_one_is_no_evidence_that_a_variant_needs_fewer() -> None:
    # The variant was trained on a quarter of the tokens, and never reached the score.
    short = SeedCurves(np.log(TOKENS[:3]), np.array([LINE[:3], LINE[:3] + 0.01]), None)
    found = compare_models(lines(0.0, 0.01), short, target=0.45)
    assert (found.ratio, found.high, found.p) == (None, None, 1.0)


def test_a_loss_counts_downwards() -> None:
    def rows(metric: str, targets: dict[str, float]) -> dict:
        curves = {(4, "LA", "t"): lines(0.0, 0.01), (4, "DR", "t"): lines(0.05, 0.08)}
        digests = dict.fromkeys(curves, "")
        found = comparison_rows(metric, curves, digests, targets)
        return next(row for row in found if (row["variant"], row["baseline"]) == ("DR", "LA"))

    accuracy = rows("accuracy", {"t": 0.4})
    loss = rows("loss", {"t": -0.4})
    assert loss["ratio"] == accuracy["ratio"]
    assert loss["score_low"] == -accuracy["score_high"]
    without = (rows("accuracy", {}), rows("loss", {}))
    assert without[1]["score_low"] == -without[0]["score_high"]
    assert without[1]["range_high"] == -without[0]["range_low"]


def test_the_interval_at_a_target_is_that_of_the_seeds_where_the_range_is() -> None:
    # Seeds that are shifted lines have one factor at every target, and the interval of the mean.
    found = compare_models(lines(0.0, 0.03, 0.01), lines(0.05, 0.02, 0.08))
    half = np.log(found.mean_factor_high / found.mean_factor_low) / 2
    assert found.target_halves == pytest.approx([half] * 25)
    # A variant whose seeds differ at the top alone is unsure there alone.
    tops = np.array([[0.1, 0.2, 0.3, 0.4, top] for top in (0.42, 0.5, 0.56)])
    fan = SeedCurves(np.log(TOKENS), tops, None)
    halves = compare_models(lines(0.0, 0.0, 0.0), fan).target_halves
    assert halves[0] < 0.1 < halves[-1]
