"""Mean factors as the views show them: of these very curves or not at all, and target by target."""

from __future__ import annotations

import math

import pytest

from dreamer_study.sql.statistics.compute import compute_statistics
from tests.sql.by_hand import PLACES, enter, pair, put
from tests.sql.statistics.test_mean_factors import DR, FACTOR, LA


def mean_factor(sql, variant="DR", task="t", metric="accuracy", baseline="LA", compute=True):
    """The row of a model in mean_factors_against, by column; computed first unless told
    otherwise."""
    if compute:
        compute_statistics(sql, "s", replicates=0)
    found = sql.execute(
        "from mean_factors_against($1) where variant = $2 and task = $3 and metric = $4",
        [baseline, variant, task, metric],
    )
    (row,) = found.df().replace({math.nan: None}).to_dict("records")
    return row


def as_loss(curve):
    return {tokens: 1 - value for tokens, value in curve.items()}


@pytest.mark.slow
def test_every_model_and_task_has_a_row_with_its_factor_and_range(sql):
    pair(sql, LA, DR)
    found = mean_factor(sql)
    assert found["factor"] == pytest.approx(FACTOR)
    assert (found["range_low"], found["range_high"], found["outdated"]) == (0.2, 0.6, False)
    rows = sql.execute(
        "select variant, task, metric, factor, seeds, low from mean_factors"
    ).fetchall()
    dr = pytest.approx(FACTOR)
    assert rows == [
        (variant, task, "accuracy", factor, 1, low)
        for variant, factor, low in (("LA", 1, 1), ("DR", dr, None))
        for task in ("t", "average")
    ]
    assert mean_factor(sql, "LA", baseline="DR")["factor"] == pytest.approx(1 / FACTOR)


CHANGES = {
    "a value": "update evaluations set value = 0.55 where run_id = 's-4-DR-1' and tokens = 40",
    "a value of the baseline": "update evaluations set value = 0.55 where run_id = 's-4-LA-1' and tokens = 80",
    "a seed": "delete from runs where seed = 1",
    "a checkpoint": "delete from evaluations where tokens = 80 and run_id like '%DR%'",
    "a status": "update runs set status = 'failed' where run_id = 's-4-DR-1'",
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_factor_of_other_points_is_not_shown(sql, change):
    for seed, shift in enumerate((0.0, 0.05, -0.02)):
        pair(sql, LA, {tokens: value + shift for tokens, value in DR.items()}, seed=seed)
    before = mean_factor(sql)
    assert before["low"] < before["factor"] < before["high"]
    sql.execute(CHANGES[change])
    after = mean_factor(sql, compute=False)
    hidden = ("factor", "low", "high", "ratio", "range_low", "range_high")
    assert after["outdated"]
    assert [after[name] for name in hidden] == [None] * 6
    shown = "select factor, low, high from mean_factors where variant = 'DR' and task = 't'"
    assert sql.execute(shown).fetchall() == [(None, None, None)]
    assert sql.execute("from factor_by_target where variant = 'DR'").fetchall() == []
    again = mean_factor(sql)
    assert not again["outdated"]
    assert again["low"] < again["factor"] < again["high"]


@pytest.mark.slow
def test_points_in_another_order_are_the_same_points(sql):
    pair(sql, LA, DR)
    before = mean_factor(sql)
    rows = sql.execute("from evaluations order by tokens desc").df()
    sql.execute("delete from evaluations")
    put(sql, "evaluations", rows)
    assert mean_factor(sql, compute=False) == before


@pytest.mark.slow
def test_a_loss_counts_downwards(sql):
    pair(sql, as_loss(LA), as_loss(DR), metric="gold_bits_per_byte")
    found = mean_factor(sql, metric="loss")
    assert found["factor"] == pytest.approx(FACTOR)
    assert (found["range_low"], found["range_high"]) == pytest.approx((0.4, 0.8))
    targets = sql.execute(
        "select target, factor from factor_by_target where variant = 'DR'"
    ).fetchall()
    assert len(targets) == 25
    assert all(0.4 < target < 0.8 for target, _ in targets)
    assert targets[0][1] == pytest.approx(2)  # the lowest losses, the highest accuracies


@pytest.mark.slow
def test_a_model_without_a_common_range_or_without_a_curve_is_a_row_without_a_factor(sql):
    enter(sql, {"LA": {"t": {10: 0.1, 20: 0.2}}, "DR": {"t": {10: 0.3, 20: 0.4}}, "none": {}})
    for variant, seeds in (("DR", 1), ("none", None)):
        found = mean_factor(sql, variant)
        assert (found["factor"], found["range_low"], found["seeds"]) == (None, None, seeds)
        assert not found["outdated"]
    assert mean_factor(sql, "LA")["factor"] == 1
    assert sql.execute("select distinct variant from factor_by_target").fetchall() == [("LA",)]


@pytest.mark.slow
def test_a_model_of_an_unknown_depth_has_its_factor(sql):
    pair(sql, LA, DR, depth=None)
    assert mean_factor(sql)["factor"] == pytest.approx(FACTOR)


@pytest.mark.slow
def test_targets_show_where_a_model_is_ahead(sql):
    pair(sql, LA, DR)
    mean_factor(sql)
    turned = "select factor * ratio, ratio_low, low from factor_by_target where task = 't'"
    assert all(row[0] == pytest.approx(1) for row in sql.execute(turned).fetchall())
    rows = sql.execute(
        "select target, baseline_tokens, variant_tokens, factor from factor_by_target "
        "where variant = 'DR' and task = 't'"
    ).fetchall()
    assert [row[0] for row in rows] == pytest.approx(
        [0.2 + 0.4 * (n + 0.5) / 25 for n in range(25)]
    )
    by_target = {round(target, 3): row for target, *row in rows}
    assert by_target[0.4] == pytest.approx([10 * 2**1.5, 10 * 2 ** (2 / 3), 2 ** (1.5 - 2 / 3)])
    assert rows[0][3] < rows[-1][3] == pytest.approx(2)
    assert math.exp(sum(math.log(row[3]) for row in rows) / 25) == pytest.approx(FACTOR, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "best_first"), [("exact_match", False), ("gold_bits_per_byte", True)]
)
def test_a_target_has_the_interval_of_its_part_of_the_range(sql, metric, best_first):
    for seed, top in enumerate((0.55, 0.6, 0.65)):
        curves = LA, {10: 0.2, 20: 0.5, 40: top}
        pair(sql, *(map(as_loss, curves) if best_first else curves), metric=metric, seed=seed)
    mean_factor(sql, metric="loss" if best_first else "accuracy")
    rows = sql.execute(
        "select factor, low, high from factor_by_target where variant = 'DR' and task = 't'"
    ).fetchall()
    widths = [high / low for _, low, high in rows][:: -1 if best_first else 1]
    assert widths[0] < 1.01 < widths[-1]
    assert all(low <= factor <= high for factor, low, high in rows)


@pytest.mark.slow
def test_seeds_count_in_the_mean_curve(sql):
    for seed, change in enumerate((-0.05, 0.05, 0.0)):
        enter(
            sql, {"LA": {"t": LA}, "DR": {"t": {t: v + change for t, v in DR.items()}}}, seed=seed
        )
    sql.execute("delete from evaluations where run_id = 's-4-LA-2'")
    found = mean_factor(sql)
    assert (found["factor"], found["seeds"]) == (pytest.approx(FACTOR), 2)


@pytest.mark.slow
def test_a_text_has_a_factor_beside_the_average(sql):
    pair(sql, as_loss(LA), as_loss(DR), metric="gold_bits_per_byte")
    for variant in ("LA", "DR"):
        place = {"run_id": f"s-4-{variant}-None", "task": "validation", "metric": "bits_per_byte"}
        put(
            sql,
            "evaluations",
            [{**place, "tokens": tokens, "value": 2 - value} for tokens, value in LA.items()],
        )
    assert mean_factor(sql, task="validation", metric="loss")["factor"] == 1
    assert sql.execute("select distinct task from token_loss order by 1").fetchall() == [
        ("t",),
        ("validation",),
    ]


def test_the_noise_of_a_study_is_pooled_over_its_variants_by_the_seeds_of_each(sql):
    errors = {"DR": 0.1, "DR+DA": 0.3, "LA": None}
    put(
        sql,
        "models",
        [{"study_id": "s", "model_id": name, "place": PLACES[name]} for name in errors],
    )
    place = {
        "study_id": "s",
        "depth": 4,
        "task": "average",
        "metric": "loss",
        "baseline": "LA",
        "digest": "",
    }
    numbers = {"item_error": 0.03, "seeds": 2, "baseline_seeds": 10}
    rows = [
        {**place, **numbers, "variant": variant, "seed_error": error}
        for variant, error in errors.items()
    ]
    put(sql, "computed_ratios", [*rows, {**rows[0], "baseline": "DR+DA", "seed_error": 9.0}])
    (found,) = sql.execute("from study_noise").df().to_dict("records")
    assert found["seed_deviation"] == pytest.approx(
        ((0.1**2 + 0.3**2) / 2 / (1 / 2 + 1 / 10)) ** 0.5
    )
    assert (found["item_error"], found["seeds"]) == (pytest.approx(0.03), 2)
    put(sql, "computed_ratios", [{**rows[0], "variant": "LA", "baseline": "DR", "seed_error": 0.1}])
    sql.execute("update computed_ratios set seeds = 4 where variant = 'DR+DA'")
    assert sql.execute("select seeds from study_noise").fetchall() == [(4,)], (
        "DR is a control with fewer"
    )
