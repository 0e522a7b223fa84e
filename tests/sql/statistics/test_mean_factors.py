"""Intervals of mean factors: known spreads of seeds and items, agreement with the view, and what has no interval."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import t as t_distribution

from sql import results
from sql.statistics.compute import compute_statistics
from sql.statistics.mean_factors import SeedCurves, mean_factor_interval, mean_log_factor
from tests.sql.by_hand import enter, enter_scores
from tests.sql.empty import empty_file

TOKENS = np.array([10, 20, 40, 80, 160])
DOUBLING = np.log(2) / 0.1  # log tokens for a unit of score on the lines below


def line(shift=0.0):
    """A tenth of accuracy for each doubling of the tokens."""
    return dict(zip(TOKENS.tolist(), (0.1 * np.arange(1, 6) + shift).tolist(), strict=True))


def computed(sql, variant="DR", task="t", metric="accuracy", **options):
    frame = compute_statistics(sql, "s", **{"replicates": 100} | options)["mean_factor_intervals"]
    found = frame[(frame["variant"] == variant) & (frame["task"] == task) & (frame["metric"] == metric)]
    assert len(found) == 1
    return found.iloc[0]


def curve(*seeds, drawn=None):
    return SeedCurves(np.log(TOKENS), np.array(seeds), drawn)


def test_without_items_the_interval_is_that_of_the_seeds(sql):
    shifts = (0.0, 0.02, 0.07)
    for seed, shift in enumerate(shifts):
        enter(sql, {"LA": {"t": line()}, "DR": {"t": line(shift)}}, seed=seed)
    found = computed(sql)
    error = np.std(shifts, ddof=1) / np.sqrt(3) * DOUBLING
    half = t_distribution.ppf(0.975, 2) * error
    assert found["seed_error"] == pytest.approx(error)
    assert found["degrees_of_freedom"] == pytest.approx(2)
    assert np.log([found["low"], found["high"]]) == pytest.approx(np.mean(shifts) * DOUBLING + np.array([-half, half]))
    assert pd.isna(found["item_error"])
    shown = sql.execute(
        "select factor, low, high, seeds from mean_factors where variant = 'DR' and task = 't'"
    ).fetchone()
    assert shown == (pytest.approx(2**0.3), found["low"], found["high"], 3)
    assert sql.execute("select low, high from mean_factors where variant = 'LA' and task = 't'").fetchone() == (1, 1)


def test_both_models_add_their_spread_and_their_degrees_of_freedom(sql):
    shifts = {"LA": (0.0, 0.03, 0.01, 0.04), "DR": (0.05, 0.02, 0.08)}
    for variant, own in shifts.items():
        for seed, shift in enumerate(own):
            enter(sql, {variant: {"t": line(shift)}}, seed=seed)
    found = computed(sql)
    parts = {variant: np.var(own, ddof=1) / len(own) * DOUBLING**2 for variant, own in shifts.items()}
    total = sum(parts.values())
    assert found["seed_error"] ** 2 == pytest.approx(total)
    assert found["degrees_of_freedom"] == pytest.approx(total**2 / (parts["LA"] ** 2 / 3 + parts["DR"] ** 2 / 2))
    assert found["seeds"] == 3


def test_one_seed_has_no_interval(sql):
    for seed in range(2):
        enter(sql, {"DR": {"t": line(0.05 * seed)}}, seed=seed)
    enter(sql, {"LA": {"t": line()}}, seed=0)
    found = computed(sql)
    assert found[["low", "high", "degrees_of_freedom", "seed_error"]].isna().all()
    assert found["seeds"] == 1


def test_a_loss_has_the_interval_of_its_mirror_image(sql):
    for seed, shift in enumerate((0.0, 0.02, 0.07)):
        enter(sql, {"LA": {"t": line()}, "DR": {"t": line(shift)}}, seed=seed)
    mirrored = "select * replace ('bits_per_byte' as metric, 1 - value as value) from evaluations"
    sql.execute(f"insert into evaluations by name {mirrored}")
    accuracy, loss = (computed(sql, metric=metric) for metric in ("accuracy", "loss"))
    assert loss[["low", "high"]].to_numpy(float) == pytest.approx(accuracy[["low", "high"]].to_numpy(float))


@pytest.fixture
def scored(tmp_path):
    return empty_file(tmp_path / "results.duckdb")


def answers(level, difficulty, random):
    return (0.5 * difficulty + 0.5 * random.random(len(difficulty))) < level


def enter_seeds(path, seeds, items=300, spread=0.0):
    random = np.random.default_rng(1)
    difficulty = random.random(items)
    for seed in range(seeds):
        shifts = spread * random.standard_normal(2)
        curves = {
            variant: {"t": {t: answers(level + by, difficulty, random) for t, level in line(shift).items()}}
            for variant, by, shift in zip(("LA", "DR"), (0.0, 0.1), shifts, strict=True)
        }
        enter_scores(path, curves, seed=seed)


def test_items_add_their_error(scored):
    enter_seeds(scored, 3, spread=0.02)
    with results.connect(scored) as connection:
        found = computed(connection, replicates=300)
        again = computed(connection, replicates=300)
    assert found["item_error"] > 0
    variance = found["seed_error"] ** 2 + found["item_error"] ** 2
    half = t_distribution.ppf(0.975, found["degrees_of_freedom"]) * variance**0.5
    assert np.log(found["high"] / found["low"]) == pytest.approx(2 * half)
    assert found["low"] < 2 < found["high"]
    assert again.equals(found)


def test_the_same_scores_at_half_the_tokens_have_no_item_error(scored):
    random = np.random.default_rng(0)
    difficulty = random.random(200)
    la = {t: difficulty < level for t, level in line().items()}
    for seed in range(2):
        enter_scores(scored, {"LA": {"t": la}, "DR": {"t": {t // 2: row for t, row in la.items()}}}, seed=seed)
    with results.connect(scored) as connection:
        found = computed(connection)
    assert found["item_error"] == pytest.approx(0, abs=1e-12)  # whatever is drawn, the factor is 2
    assert (found["low"], found["high"]) == (pytest.approx(2), pytest.approx(2))


def test_without_a_common_range_there_is_no_interval():
    low, high = curve(np.linspace(0.1, 0.2, 5), np.linspace(0.1, 0.2, 5)), curve(*np.full((2, 5), 0.5))
    found = mean_factor_interval(low, high)
    assert (found.low, found.high) == (None, None)


levels = st.lists(st.integers(0, 20), min_size=5, max_size=5)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(levels, levels)
def test_the_log_factor_is_that_of_the_view(sql, baseline, variant):
    for table in ("models", "runs", "evaluations"):
        sql.execute(f"delete from {table}")
    both = [dict(zip(TOKENS.tolist(), (np.array(one) / 20).tolist(), strict=True)) for one in (baseline, variant)]
    enter(sql, {"LA": {"t": both[0]}, "DR": {"t": both[1]}})
    shown = sql.execute("select factor from mean_factors where variant = 'DR' and task = 't'").fetchone()[0]
    la, dr = (curve(list(one.values())) for one in both)
    found = np.exp(mean_log_factor(la, dr, la.mean, dr.mean)[0])
    assert np.isnan(found) if shown is None else found == pytest.approx(shown)


def test_without_replicates_the_interval_is_over_the_seeds(path):
    def right(count):
        return [1.0] * count + [0.0] * (20 - count)

    for seed, (la, dr) in enumerate(((0, 1), (1, 3), (0, 2))):
        curves = {
            variant: {"t": {10 * 2**place: right(2 + more + 4 * place) for place in range(4)}}
            for variant, more in (("LA", la), ("DR", dr))
        }
        enter_scores(path, curves, seed=seed)
    with results.connect(path) as connection:
        found = compute_statistics(connection, "s", replicates=0)
    means = found["mean_factor_intervals"]
    interval = means[(means["variant"] == "DR") & (means["task"] == "t") & (means["metric"] == "accuracy")].iloc[0]
    assert interval["low"] < interval["high"]
    assert pd.isna(interval["item_error"])
    assert found["factor_intervals"].query("variant == 'DR'")["low"].isna().all()
