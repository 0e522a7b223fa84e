"""Mean factors of small curves with known answers, in accuracy and in loss."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.by_hand import enter, pair, put

LA = {10: 0.1, 20: 0.3, 40: 0.5, 80: 0.6}
DR = {10: 0.2, 20: 0.5, 40: 0.6, 80: 0.7}
# Both cover 0.2 to 0.6. Doublings of 10 tokens, averaged over that range: LA (0.1 * 0.75 + 0.2 * 1.5 + 0.1 * 2.5) / 0.4
# = 1.5625, DR (0.3 * 0.5 + 0.1 * 1.5) / 0.4 = 0.75.
FACTOR = 2 ** (1.5625 - 0.75)


def factor(sql, variant="DR", task="t", metric="accuracy", column="factor"):
    rows = sql.execute(
        f"select {column} from mean_factors_against('LA') where variant = ? and task = ? and metric = ?",
        [variant, task, metric],
    ).fetchall()
    assert len(rows) == 1
    return rows[0][0]


def as_loss(curve):
    return {tokens: 1 - value for tokens, value in curve.items()}


def test_the_columns_are_the_agreed_ones(sql):
    key = ["study_id", "depth", "variant", "task", "metric"]
    columns = {
        "mean_factors": [*key, "factor", "low", "high", "seeds"],
        "factor_by_target": [*key, "target", "baseline_tokens", "variant_tokens", "factor"],
    }
    for view, agreed in columns.items():
        assert list(sql.execute(f"from {view}").df().columns) == agreed


def test_the_factor_is_the_mean_over_the_accuracies_that_both_curves_cover(sql):
    pair(sql, LA, DR)
    assert factor(sql) == pytest.approx(FACTOR)
    assert (factor(sql, column="range_low"), factor(sql, column="range_high")) == (0.2, 0.6)
    assert factor(sql, column="baseline_share") == pytest.approx(0.8)  # 0.4 of the rise from 0.1 to 0.6
    assert factor(sql, column="variant_share") == pytest.approx(0.8)
    assert factor(sql, "LA") == 1
    rows = sql.execute("select variant, task, metric, seeds, low, high from mean_factors").fetchall()
    assert rows == [(v, task, "accuracy", 1, None, None) for v in ("LA", "DR") for task in ("t", "average")]


def test_a_loss_counts_downwards(sql):
    pair(sql, as_loss(LA), as_loss(DR), metric="gold_bits_per_byte")
    assert factor(sql, metric="loss") == pytest.approx(FACTOR)
    assert factor(sql, metric="loss", column="range_low") == pytest.approx(0.4)
    assert factor(sql, metric="loss", column="range_high") == pytest.approx(0.8)
    targets = sql.execute("select target, factor from factor_by_target where variant = 'DR'").fetchall()
    assert len(targets) == 25
    assert all(0.4 < target < 0.8 for target, _ in targets)
    assert targets[0][1] == pytest.approx(2)  # the lowest losses, the highest accuracies


def test_a_dip_is_not_unlearning(sql):
    pair(sql, LA, DR)
    enter(sql, {"LA": {"t": LA | {30: 0.2}}, "DR": {"t": DR | {15: 0.0}}}, study="dips")
    with_dips = sql.execute("select factor from mean_factors where study_id = 'dips' and variant = 'DR'").fetchall()
    # LA stays at 0.3 until 30 tokens; DR needs from 15 to 20 tokens for the rise from 0.2 to 0.5.
    late = math.log2(3)
    la = (0.1 * 0.75 + 0.2 * (late + 2) / 2 + 0.1 * 2.5) / 0.4
    dr = (0.3 * (math.log2(1.5) + 1) / 2 + 0.1 * 1.5) / 0.4
    assert with_dips[0][0] == pytest.approx(2 ** (la - dr))


def test_equal_curves_have_the_factor_one(sql):
    pair(sql, LA, LA)
    assert factor(sql) == 1
    assert {row[0] for row in sql.execute("select factor from factor_by_target").fetchall()} == {1.0}


def test_no_common_range_is_a_row_without_a_factor(sql):
    enter(
        sql,
        {
            "LA": {"t": {10: 0.1, 20: 0.2}},
            "DR": {"t": {10: 0.3, 20: 0.4}},
            "one": {"t": {10: 0.15}},
            "flat": {"t": {10: 0.15, 20: 0.15}},
            "none": {},
        },
    )
    for variant in ("DR", "one", "flat", "none"):
        assert factor(sql, variant) is None
        assert factor(sql, variant, column="range_low") is None
    assert factor(sql, "LA") == 1
    assert sql.execute("select distinct variant from factor_by_target").fetchall() == [("LA",)]


def test_a_single_checkpoint_of_the_baseline_is_no_curve(sql):
    pair(sql, {10: 0.3}, {10: 0.2, 20: 0.4})
    assert factor(sql) is None
    assert factor(sql, "LA") == 1


def test_ties_up_to_rounding_are_no_range(sql):
    pair(sql, {10: 0.1, 20: 0.1 + 0.2}, {10: 0.3, 20: 0.5})
    assert factor(sql) is None


def test_targets_show_where_a_model_is_ahead(sql):
    pair(sql, LA, DR)
    rows = sql.execute(
        "select target, baseline_tokens, variant_tokens, factor from factor_by_target "
        "where variant = 'DR' and task = 't'"
    ).fetchall()
    assert [row[0] for row in rows] == pytest.approx([0.2 + 0.4 * (n + 0.5) / 25 for n in range(25)])
    by_target = {round(target, 3): row for target, *row in rows}
    assert by_target[0.4] == pytest.approx([10 * 2**1.5, 10 * 2 ** (2 / 3), 2 ** (1.5 - 2 / 3)])
    assert rows[0][3] < rows[-1][3] == pytest.approx(2)
    assert math.exp(sum(math.log(row[3]) for row in rows) / 25) == pytest.approx(FACTOR, rel=0.01)


curves = st.lists(st.integers(0, 20), min_size=2, max_size=6)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(curves, curves, st.integers(2, 9))
def test_scaling_the_tokens_of_a_variant_divides_its_factor(sql, baseline, variant, scale):
    for table in ("models", "runs", "evaluations"):
        sql.execute(f"delete from {table}")
    la, dr = ({100 * 2**n: value / 20 for n, value in enumerate(curve)} for curve in (baseline, variant))
    slower = {tokens * scale: value for tokens, value in dr.items()}
    enter(sql, {"LA": {"t": la}, "DR": {"t": dr}, "slower": {"t": slower}, "LA slower": {"t": dict(
        zip([tokens * scale for tokens in la], la.values(), strict=True)
    )}})  # fmt: skip
    asked = "select variant, factor from mean_factors_against('LA') where task = 't' and metric = 'accuracy'"
    found = dict(sql.execute(asked).fetchall())
    before, after, shifted = (found[name] for name in ("DR", "slower", "LA slower"))
    assert (before is None) == (after is None)
    if before is not None:
        assert after == pytest.approx(before / scale)
    if max(baseline) > baseline[0]:
        assert shifted == pytest.approx(1 / scale)


def test_seeds_count_in_the_mean_curve(sql):
    for seed, change in enumerate((-0.05, 0.05, 0.0)):
        enter(sql, {"LA": {"t": LA}, "DR": {"t": {t: v + change for t, v in DR.items()}}}, seed=seed)
    sql.execute("delete from evaluations where run_id = 's-4-LA-2'")
    assert factor(sql) == pytest.approx(FACTOR)
    assert sql.execute("select seeds from mean_factors where variant = 'DR' and task = 't'").fetchall() == [(2,)]


def test_another_baseline(sql):
    pair(sql, LA, DR)
    rows = sql.execute("select variant, factor from mean_factors_against('DR') where task = 't'").fetchall()
    assert rows == [("LA", pytest.approx(1 / FACTOR)), ("DR", 1)]


@pytest.mark.parametrize(
    ("options", "noise"),
    [
        ({"items": 10_001}, False),
        ({"items": 17}, True),  # two standard errors of 0.125 are more than the range's 0.24
        ({"items": 401, "chance": 0.58}, True),
        ({"items": None, "chance": 0.1}, False),  # unknown errors
    ],
)
def test_a_range_within_noise_says_little(sql, options, noise):
    pair(sql, LA, DR, **options)
    sql.execute("delete from evaluations where tokens = 80 and run_id like '%DR%'")
    sql.execute("update evaluations set value = 0.36 where tokens = 10 and run_id like '%DR%'")
    assert factor(sql, column="within_noise") is noise


def test_a_text_has_a_factor_beside_the_average(sql):
    pair(sql, as_loss(LA), as_loss(DR), metric="gold_bits_per_byte")
    for variant, curve in (("LA", LA), ("DR", LA)):
        rows = [
            {
                "run_id": f"s-4-{variant}-None",
                "tokens": t,
                "task": "validation",
                "metric": "bits_per_byte",
                "value": 2 - v,
            }
            for t, v in curve.items()
        ]
        put(sql, "evaluations", rows)
    assert factor(sql, task="validation", metric="loss") == 1
    assert sql.execute("select distinct task from token_loss order by 1").fetchall() == [("t",), ("validation",)]


def test_the_noise_of_a_study_is_pooled_over_its_variants(sql):
    rows = [
        {"variant": variant, "task": task, "seed_error": seed_error, "item_error": 0.03, "seeds": 4}
        for variant, task, seed_error in (
            ("LA", "average", None), ("DR", "average", 0.1), ("DR+DA", "average", 0.3), ("DR", "t", None),
        )
    ]  # fmt: skip
    put(sql, "mean_factor_intervals", [{"study_id": "s", "depth": 4, "metric": "loss", **row} for row in rows])
    (found,) = sql.execute("from study_noise").fetchall()
    pooled = ((0.1**2 + 0.3**2) / 2 * 4 / 2) ** 0.5
    assert found == ("s", "average", "loss", pytest.approx(pooled), pytest.approx(0.03), 4)


def test_the_noise_of_a_study_counts_the_seeds_of_each_model(sql):
    for seed in range(10):
        models = ("LA", "DR") if seed < 2 else ("LA",)
        enter(sql, {variant: {"t": {10: 0.1, 20: 0.2}} for variant in models}, seed=seed)
    error = (0.15**2 * (1 / 10 + 1 / 2)) ** 0.5
    row = {"study_id": "s", "depth": 4, "variant": "DR", "task": "t", "metric": "accuracy", "seeds": 2}
    put(sql, "mean_factor_intervals", [{**row, "seed_error": error}])
    assert sql.execute("select seed_deviation, seeds from study_noise").fetchall() == [(pytest.approx(0.15), 2)]
