"""Mean factors and the resampling under their intervals."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as t_distribution

from dreamer_study.sql import results
from dreamer_study.sql.statistics.bootstrap import replicate_values, resample
from dreamer_study.sql.statistics.compute import compute_statistics
from dreamer_study.sql.statistics.mean_factors import MeanFactor, SeedCurves, mean_factor_interval
from tests.sql.by_hand import enter_scores

LA = {10: 0.1, 20: 0.3, 40: 0.5, 80: 0.6}
DR = {10: 0.2, 20: 0.5, 40: 0.6, 80: 0.7}
# Both cover 0.2 to 0.6. Doublings of 10 tokens, averaged over that range: LA (0.1 * 0.75 + 0.2 *
# 1.5 + 0.1 * 2.5) / 0.4 = 1.5625, DR (0.3 * 0.5 + 0.1 * 1.5) / 0.4 = 0.75.
FACTOR = 2 ** (1.5625 - 0.75)

TOKENS = np.array([10, 20, 40, 80, 160])
LINE = 0.1 * np.arange(1, 6)  # a tenth for each doubling of the tokens
DOUBLING = np.log(2) / 0.1  # log tokens for a unit of score on this line


def compared(baseline: dict[int, float], variant: dict[int, float]) -> MeanFactor:
    """Compare curves of one seed, given as scores by tokens."""
    both = (
        SeedCurves(np.log(list(curve)), np.array([list(curve.values())]), None)
        for curve in (baseline, variant)
    )
    return mean_factor_interval(*both)


def lines(*shifts: float) -> SeedCurves:
    """Make the curves of seeds that lie above the line by these shifts."""
    return SeedCurves(np.log(TOKENS), np.array([LINE + shift for shift in shifts]), None)


def test_a_dip_is_not_unlearning() -> None:
    # LA stays at 0.3 until 30 tokens; DR needs from 15 to 20 tokens for the rise from 0.2 to 0.5.
    la = (0.1 * 0.75 + 0.2 * (math.log2(3) + 2) / 2 + 0.1 * 2.5) / 0.4
    dr = (0.3 * (math.log2(1.5) + 1) / 2 + 0.1 * 1.5) / 0.4
    dips = (
        dict(sorted((curve | dip).items())) for curve, dip in ((LA, {30: 0.2}), (DR, {15: 0.0}))
    )
    assert compared(*dips).factor == pytest.approx(2 ** (la - dr))


@pytest.mark.parametrize(
    ("baseline", "variant"),
    [
        pytest.param({10: 0.1, 20: 0.2}, {10: 0.3, 20: 0.4}, id="starts above the best"),
        pytest.param({10: 0.3}, {10: 0.2, 20: 0.4}, id="one checkpoint of the baseline"),
        pytest.param({10: 0.1, 20: 0.1 + 0.2}, {10: 0.3, 20: 0.5}, id="a tie up to rounding"),
    ],
)
def test_without_a_common_range_nothing_is_known(
    baseline: dict[int, float], variant: dict[int, float]
) -> None:
    assert compared(baseline, variant) == MeanFactor()


def test_what_the_variant_never_reached_counts_with_its_last_token() -> None:
    # DR goes from 0.2 to 0.7; LA ends at 0.6, with 80 tokens, and DR goes on from there between 2
    # and 3 doublings.
    found = compared(DR, LA)
    assert (found.range_low, found.range_high, found.covered) == (0.2, 0.6, pytest.approx(0.8))
    assert (found.missed_low, found.missed_high) == (0.6, 0.7)
    doublings = (0.4 * (0.75 - 1.5625) + 0.1 * (2.5 - 3)) / 0.5
    assert found.bound == pytest.approx(2**doublings)


@pytest.mark.parametrize(
    ("variant", "doublings"),
    [
        ({10: 0.15}, 0.75 - 0),
        ({10: 0.15, 20: 0.15}, 0.75 - 1),
        ({10: 0.0, 20: 0.1, 40: 0.05}, 0.5 - 2),
    ],
)
def test_a_variant_that_never_rises_into_the_range_has_a_bound_and_no_factor(
    variant: dict, doublings: float
) -> None:
    found = compared({10: 0.1, 20: 0.2}, variant)
    assert (found.factor, found.low, found.range_low, found.covered) == (None, None, None, 0)
    assert found.bound == pytest.approx(2**doublings)


curves = st.lists(st.integers(0, 20), min_size=2, max_size=6)


@given(curves, curves, st.integers(2, 9))
def test_scaling_the_tokens_of_a_variant_divides_its_factor(
    baseline: list, variant: list, scale: int
) -> None:
    la, dr = (
        {100 * 2**n: value / 20 for n, value in enumerate(curve)} for curve in (baseline, variant)
    )
    before, after = (
        compared(la, dr),
        compared(la, {tokens * scale: score for tokens, score in dr.items()}),
    )
    assert after.factor == (before.factor and pytest.approx(before.factor / scale))
    assert after.bound == (before.bound and pytest.approx(before.bound / scale))


@given(curves, curves, st.lists(st.integers(0, 20), max_size=3))
def test_more_training_only_lowers_the_bound_of_what_was_never_reached(
    baseline: list, variant: list, more: list
) -> None:
    la, dr = (
        {100 * 2**n: value / 20 for n, value in enumerate(curve)} for curve in (baseline, variant)
    )
    found, later = (
        compared(la, dr),
        compared(la, {100 * 2**n: value / 20 for n, value in enumerate(variant + more)}),
    )
    if found.covered == 1:
        assert found.bound == pytest.approx(found.factor)
        assert found.missed_low is None
    if found.bound is not None:
        assert later.bound <= found.bound * (1 + 1e-9)
        assert later.covered >= found.covered


def test_without_items_the_interval_is_that_of_the_seeds() -> None:
    shifts = (0.0, 0.02, 0.07)
    found = mean_factor_interval(lines(0.0, 0.0, 0.0), lines(*shifts))
    error = np.std(shifts, ddof=1) / np.sqrt(3) * DOUBLING
    half = t_distribution.ppf(0.975, 2) * error
    assert found.seed_error == pytest.approx(error)
    assert found.degrees_of_freedom == pytest.approx(2)
    assert found.factor == pytest.approx(2**0.3)
    assert np.log([found.low, found.high]) == pytest.approx(
        np.mean(shifts) * DOUBLING + np.array([-half, half])
    )
    assert found.item_error is None


def test_both_models_add_their_spread_and_their_degrees_of_freedom() -> None:
    shifts = ((0.0, 0.03, 0.01, 0.04), (0.05, 0.02, 0.08))
    found = mean_factor_interval(*(lines(*own) for own in shifts))
    parts = [np.var(own, ddof=1) / len(own) * DOUBLING**2 for own in shifts]
    assert found.seed_error**2 == pytest.approx(sum(parts))
    assert found.degrees_of_freedom == pytest.approx(
        sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2)
    )


def test_the_bound_has_the_interval_of_its_own_resampling() -> None:
    # The variant stops at 0.3 of the baseline's 0.1 to 0.5: each seed's stop moves the bound
    # through what it missed.
    stops = (0.28, 0.3, 0.35)
    variant = SeedCurves(np.log(TOKENS), np.minimum(LINE, np.array(stops)[:, None]), None)
    found = mean_factor_interval(lines(0.0, 0.0, 0.0), variant)
    missing = [
        compared(dict(zip(TOKENS, LINE, strict=True)), dict(zip(TOKENS, curve, strict=True))).bound
        for curve in variant.without_one_seed
    ]
    error = np.sqrt(2 / 3 * ((np.log(missing) - np.log(missing).mean()) ** 2).sum())
    assert found.bound_high < 1
    half = t_distribution.ppf(0.975, 2) * error
    assert np.log([found.bound_low, found.bound_high]) == pytest.approx(
        np.log(found.bound) + np.array([-half, half])
    )


def test_the_interval_at_a_target_is_that_of_the_seeds_where_the_range_is() -> None:
    # Seeds that are shifted lines have one factor at every target, and the same interval as the
    # mean's.
    found = mean_factor_interval(lines(0.0, 0.03, 0.01), lines(0.05, 0.02, 0.08))
    half = np.log(found.high / found.low) / 2
    assert found.target_halves == pytest.approx([half] * 25)
    # A variant whose seeds differ at the top alone is unsure there alone.
    fan = SeedCurves(
        np.log(TOKENS), np.array([[0.1, 0.2, 0.3, 0.4, top] for top in (0.42, 0.5, 0.56)]), None
    )
    halves = mean_factor_interval(lines(0.0, 0.0, 0.0), fan).target_halves
    assert halves[0] < 0.1 < halves[-1]


@given(st.lists(st.floats(-0.1, 0.1), min_size=4, max_size=8))
def test_p_is_below_five_percent_where_the_interval_of_what_is_said_leaves_out_one(
    shifts: list[float],
) -> None:
    found = mean_factor_interval(lines(*shifts[:2]), lines(*shifts[2:]))
    if found.p is not None:
        low, high = (
            (found.bound_low, found.bound_high) if found.bounded else (found.low, found.high)
        )
        decided = high < 1 or (low > 1 and not found.bounded)
        assert (found.p < 0.05) == decided or found.p == pytest.approx(0.05)
        assert found.bounded == (found.covered < 0.9)


def test_four_of_five_studies_with_such_errors_tell_the_smallest_factor() -> None:
    found = mean_factor_interval(
        lines(0.0, 0.03, 0.01, 0.02, 0.05), lines(0.05, 0.02, 0.08, 0.04, 0.01)
    )
    random, studies = np.random.default_rng(0), 20_000
    freedom, error = found.degrees_of_freedom, found.seed_error
    estimates = np.log(found.detectable) + error * random.standard_normal(studies)
    errors = error * np.sqrt(random.chisquare(freedom, studies) / freedom)
    told = np.abs(estimates) > t_distribution.ppf(0.975, freedom) * errors
    assert told.mean() == pytest.approx(0.8, abs=0.01)


def test_one_seed_has_a_factor_and_no_interval() -> None:
    found = mean_factor_interval(lines(0.0), lines(0.0, 0.05))
    assert found.factor == pytest.approx(2**0.25)
    assert (found.low, found.high, found.degrees_of_freedom, found.seed_error) == (None,) * 4


def test_a_model_against_itself_has_the_factor_one_over_its_rise() -> None:
    model = lines(0.0, 0.1)
    found = mean_factor_interval(model, model)
    assert (found.factor, found.low, found.high, found.covered, found.bound) == (1, 1, 1, 1, 1)
    assert (found.range_low, found.range_high) == (pytest.approx(0.15), pytest.approx(0.55))


def test_resampled_means_are_those_of_drawn_items():
    scores = np.random.default_rng(0).random((7, 3))
    means = resample(scores, 50, np.random.default_rng(1))
    counts = np.random.default_rng(1).multinomial(7, np.full(7, 1 / 7), size=50)
    drawn = [
        np.mean([row for row, n in zip(scores, times, strict=True) for _ in range(n)], axis=0)
        for times in counts
    ]
    np.testing.assert_allclose(means, drawn)


def test_blocks_of_replicates_fit_together(monkeypatch):
    monkeypatch.setattr("dreamer_study.sql.statistics.bootstrap.COUNTS_IN_MEMORY", 30)
    scores = np.random.default_rng(0).random((10, 2))
    means = resample(scores, 101, np.random.default_rng(1))
    assert means.shape == (101, 2)
    assert means.std(axis=0).min() > 0
    assert len(np.unique(means[:, 0])) == 101


def drawn(path, seed=0):
    """The accuracies of every checkpoint, as observed and in 20 replicates, by task."""
    with results.connect(path, read_only=True) as connection:
        return replicate_values(connection, "s", "accuracy", 20, seed)


def answers(levels, items=60, seed=0):
    """Scores of items at each number of tokens, an item by its difficulty."""
    difficulty = np.random.default_rng(seed).random(items)
    return {tokens: difficulty < level for tokens, level in levels.items()}


def test_models_and_checkpoints_get_the_same_draw(path):
    # The variant answers item by item as the baseline did with twice the tokens: whatever is drawn,
    # the factor is 2.
    la = answers({20: 0.1, 40: 0.3, 80: 0.5, 160: 0.7})
    for seed in range(2):
        enter_scores(
            path,
            {"LA": {"t": la}, "DR": {"t": {tokens // 2: row for tokens, row in la.items()}}},
            seed=seed,
        )
    means = drawn(path)["t"]
    assert means["s-LA-0", 40].std() > 0
    np.testing.assert_array_equal(means["s-LA-0", 40], means["s-DR-1", 20])
    with results.connect(path) as connection:
        found = (
            compute_statistics(connection, "s", replicates=50)
            .query("variant == 'DR' and baseline == 'LA'")
            .iloc[0]
        )
    assert found["item_error"] == pytest.approx(0, abs=1e-12)
    assert (found["low"], found["factor"], found["high"]) == (
        pytest.approx(2),
        pytest.approx(2),
        pytest.approx(2),
    )


def test_the_average_of_a_replicate_is_that_of_its_tasks(path):
    curves = {task: answers({10: 0.3, 20: 0.6}, seed=place) for place, task in enumerate("ab")}
    enter_scores(path, {"LA": curves})
    means = drawn(path)
    for place, average in means["average"].items():
        np.testing.assert_allclose(average, (means["a"][place] + means["b"][place]) / 2)


def test_draws_depend_on_the_seed_and_the_task_alone(path):
    enter_scores(path, {"LA": {"t": answers({10: 0.3, 20: 0.6})}})
    first = drawn(path)["t"]["s-LA-0", 20]
    enter_scores(path, {"LA": {"another": answers({10: 0.3, 20: 0.6})}})
    again = drawn(path)
    np.testing.assert_array_equal(again["t"]["s-LA-0", 20], first)
    assert (again["another"]["s-LA-0", 20] != first).any()
    assert (drawn(path, seed=1)["t"]["s-LA-0", 20] != first).any()


def test_a_checkpoint_is_averaged_over_its_own_items_and_changes_no_other(path):
    enter_scores(path, {"LA": {"t": answers({10: 0.3, 20: 0.6})}})
    before = drawn(path)["t"]
    enter_scores(path, {"DR": {"t": {10: np.full(7, 0.5)}}}, item_ids=[f"t/{n}" for n in range(7)])
    after = drawn(path)["t"]
    for place, means in before.items():
        np.testing.assert_allclose(after[place], means)
    assert after["s-DR-0", 10] == pytest.approx(np.full(21, 0.5))


def test_a_checkpoint_without_scores_of_items_leaves_the_error_of_items_unknown(path):
    for seed, shift in enumerate((0.0, 0.1)):
        curve = answers({10: 0.2 + shift, 20: 0.6})
        enter_scores(
            path, {variant: dict.fromkeys("tu", curve) for variant in ("LA", "DR")}, seed=seed
        )
    with results.connect(path) as connection:
        connection.execute(
            "delete from items where task = 'u' and tokens = 20 and run_id = 's-DR-0'"
        )
        found = compute_statistics(connection, "s", replicates=20).query(
            "variant == 'DR' and baseline == 'LA'"
        )
    error = found.set_index("task")["item_error"]
    assert pd.notna(error["t"])
    assert error[["u", "average"]].isna().all()
    assert found["low"].notna().all()
