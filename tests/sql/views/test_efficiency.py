"""Data-efficiency factors of small curves with known answers, and against a short reference on any
curves."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.sql.by_hand import Crossing, efficiency, enter, pair, put

# Data efficiency
# ----------------------------------------------------------------------------------------------------


CASES = {
    "never reached: over all tokens, also where the best was before the end": (
        ({10: 0.1, 20: 0.5}, {10: 0.1, 20: 0.3, 40: 0.2}),
        Crossing(goal=0.5, goal_tokens=20, tokens=None, factor=0.5, bound="at most"),
    ),
    "a checkpoint before training gives no factor": (
        ({0: 0.6, 10: 0.1, 20: 0.5}, {0: 0.6, 10: 0.5, 20: 0.6}),
        Crossing(goal=0.5, goal_tokens=20, tokens=10, factor=2.0, bound="at least"),
    ),
    "values that are no numbers are no checkpoints": (
        ({10: 0.1, 20: 0.5, 30: float("nan"), 40: None}, {10: 0.1, 20: 0.5, 40: float("inf")}),
        Crossing(goal=0.5, goal_tokens=20, tokens=20, factor=1.0, bound="exact"),
    ),
    "percentages are taken as they come": (
        ({10: 20.0, 20: 43.8}, {10: 30.0, 20: 43.8}),
        Crossing(goal=43.8, goal_tokens=20, tokens=20, factor=1.0, bound="exact"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_factor_of_two_curves(sql, case):
    curves, found = CASES[case]
    pair(sql, *curves)
    assert efficiency(sql) == efficiency(sql, view="data_efficiency_interpolated") == found
    assert efficiency(sql, "LA").factor == 1


@pytest.mark.slow
def test_a_tie_with_the_target_counts_as_reached(sql):
    # 0.1 + 0.2 is not 0.3 in floating point: the same average summed over other values must still
    # be a tie.
    enter(
        sql,
        {
            "LA": {"a": {10: 0.1, 20: 0.3}, "b": {10: 0.1, 20: 0.3}},
            "DR": {"a": {10: 0.0, 20: 0.1}, "b": {10: 0.0, 20: 0.5}},
        },
    )
    found = efficiency(sql, task="average")
    assert (found.tokens, found.factor, found.bound) == (20, 1.0, "exact")


@pytest.mark.slow
def test_a_missing_curve_is_a_row_without_numbers(sql):
    enter(sql, {"LA": {"t": {10: 0.5}}, "DR": {"t": {10: 0.5}, "u": {10: 0.3}}, "mine": {}})
    assert efficiency(sql, "mine", "t") == Crossing(
        goal=0.5, goal_tokens=10, tokens=None, factor=None, bound=None
    )
    assert efficiency(sql, "DR", "u") == Crossing(*[None] * 5)  # LA has no accuracy there
    rows = sql.execute("select variant, task from data_efficiency").fetchall()
    assert rows == list(itertools.product(("LA", "DR", "mine"), ("t", "u", "average")))


@pytest.mark.slow
def test_depths_and_studies_have_their_own_baselines(sql):
    pair(sql, {10: 0.1, 20: 0.5}, {10: 0.5, 20: 0.6})
    pair(sql, {10: 0.7, 20: 0.6}, {10: 0.1, 20: 0.7}, depth=8)
    pair(sql, {10: 0.2, 20: 0.3}, {10: 0.1, 20: 0.2}, study="other")
    pair(sql, {10: 0.2, 20: 0.3}, {10: 0.1, 20: 0.3}, study="no depth", depth=None)
    assert efficiency(sql) == Crossing(
        goal=0.5, goal_tokens=20, tokens=10, factor=2.0, bound="at least"
    )
    assert efficiency(sql, depth=8) == Crossing(
        goal=0.7, goal_tokens=10, tokens=20, factor=0.5, bound="exact"
    )
    other, unknown = efficiency(sql, study="other"), efficiency(sql, study="no depth", depth=None)
    assert other == Crossing(goal=0.3, goal_tokens=20, tokens=None, factor=1.0, bound="at most")
    assert unknown == Crossing(goal=0.3, goal_tokens=20, tokens=20, factor=1.0, bound="exact")


@pytest.mark.slow
def test_a_run_shared_by_two_studies_counts_in_both(sql):
    pair(sql, {10: 0.1, 20: 0.5}, {10: 0.1, 20: 0.5})
    sql.execute("insert into models select 'two', * exclude (study_id) from models")
    sql.execute("insert into runs by name select * replace ('two' as study_id) from runs")
    assert efficiency(sql, study="two") == efficiency(sql, study="s")
    assert efficiency(sql).bound == "exact"


def test_a_run_without_its_model_is_not_lost(sql):
    put(sql, "studies", [{"study_id": "s", "baseline": "LA"}])
    sql.execute(
        "insert into runs (run_id, study_id, model_id) values ('1', 's', 'LA'), ('2', 's', 'DR'), ('3', 's', null)"
    )
    for run, value in (("1", 0.5), ("2", 0.4), ("3", 0.6)):
        put(
            sql,
            "evaluations",
            [{"run_id": run, "tokens": 10, "task": "t", "metric": "acc", "value": value}],
        )
    rows = sql.execute("select variant, bound from data_efficiency where task = 't'").fetchall()
    assert rows == [("LA", "at least"), ("3", "at least"), ("DR", "at most")]


@pytest.mark.parametrize(
    ("options", "near"),
    [
        ({"chance": 0.25, "items": 101}, True),  # 0.3 is 1.1 standard errors above
        ({"chance": 0.25, "items": 10_001}, False),
        ({"chance": 0.4, "items": 10_001}, True),  # far below chance is not above it
        ({"chance": None, "items": 101}, None),  # not known
        ({"chance": 0.25, "items": None}, False),  # above by an unknown number of errors
    ],
)
def test_near_chance(sql, options, near):
    pair(sql, {10: 0.2, 20: 0.3}, {10: 0.5, 20: 0.6}, **options)
    assert sql.execute(
        "select distinct near_chance from data_efficiency where task = 't'"
    ).fetchall() == [(near,)]


@pytest.mark.slow
def test_near_chance_uses_the_given_error_and_the_declared_chance(sql):
    enter(sql, {"LA": {"mathqa": {10: 0.229}}, "DR": {"mathqa": {10: 0.456}}}, metric="acc")
    for error, near in ((0.0077, False), (0.0150, True)):
        sql.execute("update evaluations set stderr = ?", [error])
        assert sql.execute("select distinct near_chance from data_efficiency").fetchall() == [
            (near,)
        ]


def test_efficiency_against_another_baseline(sql):
    enter(
        sql,
        {
            "LA": {"t": {10: 0.1, 20: 0.2}},
            "DR": {"t": {10: 0.1, 20: 0.4}},
            "DR+DA": {"t": {10: 0.4, 20: 0.5}},
        },
    )
    asked = "select variant, factor, bound from score_efficiency('DR') where task = 't' and measure = 'accuracy'"
    rows = sql.execute(asked).fetchall()
    assert rows == [("LA", 1.0, "at most"), ("DR", 1.0, "exact"), ("DR+DA", 2.0, "at least")]


@pytest.mark.slow
def test_compute_efficiency_weighs_tokens_with_flops_and_the_seconds_of_all_devices(sql):
    pair(sql, {10: 0.1, 20: 0.5}, {10: 0.5, 20: 0.6})
    sql.execute("update models set flops_per_token = if(variant = 'LA', 100, 110)")
    sql.execute("update runs set tokens_per_second = if(model_id = 'LA-4', 1000, 500)")
    columns = "variant, factor_tokens, factor_flops, factor_seconds, baseline_device_seconds, variant_device_seconds"
    asked = f"select {columns} from compute_efficiency where task = 't'"
    assert sql.execute(asked).fetchall() == [
        ("LA", 1.0, 1.0, 1.0, 0.02, 0.02),
        ("DR", 2.0, pytest.approx(2 / 1.1), 1.0, 0.02, 0.02),
    ]
    sql.execute(
        "insert into run_details select run_id, if(model_id = 'LA-4', 1, 4), null, null from runs"
    )
    assert sql.execute(asked).fetchall()[1][3:] == (0.25, 0.02, 0.08)


# The paper's table, and tokens to any accuracy
# ------------------------------------------------------------------------


@pytest.mark.slow
def test_table_2_has_a_row_for_each_model_and_task(sql):
    for variant, best in (("DR+DA", 0.5), ("LA", 0.4), ("DR", 0.3)):
        enter(sql, {variant: {"gsm8k": {10: 0.1, 20: best}, "math": {10: 0.1, 20: best}}})
    rows = sql.execute("from table_2").df()
    models = itertools.product(("LA", "DR", "DR+DA"), ("gsm8k", "math", "average"))
    assert list(zip(rows["variant"], rows["task"], strict=True)) == list(models)
    found = rows.iloc[4][["accuracy", "data_efficiency", "bound", "metric"]]
    assert found.tolist() == [0.3, 1.0, "at most", "exact_match"]


def test_tokens_to(sql):
    enter(
        sql,
        {
            "LA": {"t": {10: 0.1, 1000: 0.5}},
            "DR": {"t": {10: 0.3, 1000: 0.6}},
            "mine": {"t": {10: 0.1, 1000: 0.2}},
        },
    )
    rows = sql.execute(
        "select variant, tokens, tokens_interpolated, bound, tokens_trained from tokens_to('t', 0.3)"
    ).fetchall()
    assert rows == [
        ("DR", 10, 10.0, "at most", 1000),
        ("LA", 1000, pytest.approx(100), "exactly", 1000),
        ("mine", None, None, "more than", 1000),
    ]


# Interpolation
# ------------------------------------------------------------------------------------------------------


def test_interpolation_is_linear_in_log_tokens(sql):
    # half way from 10 to 1000 in log tokens: 100
    pair(sql, {10: 0.1, 100: 0.5}, {10: 0.4, 1000: 0.6})
    found = efficiency(sql, view="data_efficiency_interpolated")
    assert (found.goal_tokens, found.bound) == (100, "exact")
    assert (found.tokens, found.factor) == (pytest.approx(100), pytest.approx(1))


@pytest.mark.slow
def test_interpolation_starts_from_the_checkpoint_before_not_the_best_before(sql):
    pair(sql, {10: 0.5}, {10: 0.4, 100: 0.0, 10_000: 1.0})
    assert efficiency(sql, view="data_efficiency_interpolated").tokens == pytest.approx(1000)


# Seeds
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_seeds_give_the_mean_curve_where_both_have_a_checkpoint(sql):
    enter(
        sql,
        {"LA": {"t": {10: 0.1, 20: 0.5, 40: 0.5}}, "DR": {"t": {10: 0.2, 20: 0.3, 40: 0.9}}},
        seed=0,
    )
    enter(sql, {"LA": {"t": {10: 0.1, 20: 0.3, 40: 0.5}}, "DR": {"t": {10: 0.4, 20: 0.7}}}, seed=1)
    assert efficiency(sql, "LA") == Crossing(
        goal=0.5, goal_tokens=40, tokens=40, factor=1.0, bound="exact"
    )
    assert efficiency(sql) == Crossing(
        goal=0.5, goal_tokens=40, tokens=20, factor=2.0, bound="exact"
    )
    curve = sql.execute(
        "select tokens, value, seeds from mean_curves where variant = 'DR' and task = 't' order by tokens"
    ).fetchall()
    assert curve == [(10, pytest.approx(0.3), 2), (20, 0.5, 2)]


def test_checkpoints_of_seeds_a_few_tokens_apart_belong_together(sql):
    enter(sql, {"LA": {"t": {1000: 0.1, 1100: 0.2, 2003: 0.3}}}, seed=0)
    enter(sql, {"LA": {"t": {1008: 0.3, 1204: 0.2, 1997: 0.5}}}, seed=1)
    curve = sql.execute(
        "select tokens, value from mean_curves where task = 't' order by tokens"
    ).fetchall()
    assert curve == [(1004, pytest.approx(0.2)), (2000, pytest.approx(0.4))]


def test_equal_token_counts_pair_up_however_dense_the_checkpoints(sql):
    tokens = range(1000, 1200, 10)
    enter(sql, {"LA": {"t": {t: t / 2000 for t in tokens}}}, seed=0)
    enter(sql, {"LA": {"t": {t: t / 2000 for t in tokens if t != 1050}}}, seed=1)
    curve = sql.execute(
        "select tokens, value from mean_curves where task = 't' order by tokens"
    ).fetchall()
    assert curve == [(t, pytest.approx(t / 2000)) for t in tokens if t != 1050]


@pytest.mark.slow
@pytest.mark.parametrize("status", ["screened", "failed", "waiting", "training", "evaluating"])
def test_runs_that_ended_early_or_go_on_or_were_not_evaluated_do_not_shorten_a_curve(sql, status):
    pair(sql, {10: 0.1, 20: 0.5}, {10: 0.3, 20: 0.6}, seed=0)
    pair(sql, {10: 0.9}, {10: 0.0}, seed=1)
    sql.execute("update runs set status = 'complete' where seed = 0")
    sql.execute("update runs set status = ? where seed = 1", [status])
    sql.execute(
        "insert into runs (run_id, study_id, model_id, seed) values ('idle', 's', 'LA-4', 2)"
    )
    assert efficiency(sql) == Crossing(
        goal=0.5, goal_tokens=20, tokens=20, factor=1.0, bound="exact"
    )
    points = sql.execute("select count(*) from counted_scores where task = 't'").fetchall()
    assert points == [(4,)]


def test_runs_under_way_count_where_no_run_of_their_model_has_ended(sql):
    pair(sql, {10: 0.1, 20: 0.5}, {10: 0.3, 20: 0.6}, seed=0)
    pair(sql, {10: 0.3}, {10: 0.5}, seed=1)
    sql.execute("update runs set status = 'training'")
    curve = sql.execute(
        "select variant, tokens, value from mean_curves where task = 't' order by all"
    ).fetchall()
    assert curve == [("DR", 10, pytest.approx(0.4)), ("LA", 10, pytest.approx(0.2))]


# Against a reference on any curves
# ----------------------------------------------------------------------------------

TOKENS = (1000, 2000, 5000, 7000, 20_000)
curve_of_tasks = st.dictionaries(
    st.sampled_from(TOKENS),
    st.fixed_dictionaries({}, optional={"a": st.integers(0, 6), "b": st.integers(0, 6)}),
    max_size=5,
)


def reference(baseline: dict, variant: dict) -> tuple:
    """The definition of design section 5, in whole numbers of right answers."""
    if not baseline:
        return None, None, None, None, None
    best = max(baseline.values())
    baseline_tokens = min(t for t in baseline if baseline[t] == best)
    if not variant:
        return best, baseline_tokens, None, None, None
    reached = [t for t in variant if variant[t] >= best]
    if not reached:
        return best, baseline_tokens, None, baseline_tokens / max(variant), "at most"
    return (
        best,
        baseline_tokens,
        min(reached),
        baseline_tokens / min(reached),
        "at least" if min(reached) == min(variant) else "exact",
    )


@pytest.mark.slow
# Without shrinking: each try reads all views, and a wrong factor took two minutes to be told.
@settings(
    max_examples=10,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(curve_of_tasks, curve_of_tasks), min_size=1, max_size=30))
def test_the_views_equal_the_definition_on_any_curves(sql, studies):
    for table in ("studies", "runs", "evaluations"):
        sql.execute(f"delete from {table}")
    put(
        sql,
        "studies",
        [{"study_id": str(number), "baseline": "LA"} for number in range(len(studies))],
    )
    runs, rows, expected = [], [], {}
    for number, both in enumerate(studies):
        study = str(number)
        present = {task for curve in both for point in curve.values() for task in point}
        for variant, curve in zip(("LA", "DR"), both, strict=True):
            runs.append({"study_id": study, "run_id": study + variant, "model_id": variant})
            rows += [
                {
                    "run_id": study + variant,
                    "tokens": tokens,
                    "task": task,
                    "metric": "acc",
                    "value": right / 6,
                }
                for tokens, point in curve.items()
                for task, right in point.items()
            ]
        for task in sorted(present) + ["average"] * bool(present):
            tasks = present if task == "average" else {task}
            curves = [
                {
                    t: Fraction(sum(point[one] for one in tasks), 6 * len(tasks))
                    for t, point in curve.items()
                    if tasks <= set(point)
                }
                for curve in both
            ]
            expected[study, "LA", task] = reference(curves[0], curves[0])
            expected[study, "DR", task] = reference(*curves)
    put(sql, "runs", runs)
    if rows:
        put(sql, "evaluations", rows)
    columns = (
        "study_id, variant, task, baseline_accuracy, baseline_tokens, variant_tokens, factor, bound"
    )
    first, interpolated = (
        {tuple(row[:3]): row[3:] for row in sql.execute(f"select {columns} from {view}").fetchall()}
        for view in ("data_efficiency", "data_efficiency_interpolated")
    )
    assert first.keys() == interpolated.keys() == expected.keys()
    for key, (accuracy, *others) in expected.items():
        assert first[key] == (
            accuracy if accuracy is None else pytest.approx(float(accuracy)),
            *others,
        ), key
        assert interpolated[key][4] == others[-1]
        if others[-1] == "exact":
            # met at the checkpoint or before
            assert others[2] * (1 - 1e-12) <= interpolated[key][3]


# Losses and other metrics
# -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_lowest_loss_is_the_goal(sql):
    pair(
        sql,
        {10: 0.9, 20: 0.7, 40: 0.5, 80: 0.6},
        {10: 0.8, 20: 0.5, 40: 0.4},
        metric="gold_bits_per_byte",
    )
    rows = sql.execute("from score_efficiency(null) where measure = 'loss'").df()
    assert rows["variant"].tolist() == ["LA", "DR"]
    assert rows["baseline_value"].tolist() == [0.5, 0.5]
    assert rows["variant_tokens"].tolist() == [40, 20]
    assert rows["factor"].tolist() == [1, 2]
    assert not rows["near_chance"].any()
    assert sql.execute("from data_efficiency").fetchall() == []


def test_a_loss_that_is_never_reached_is_a_limit(sql):
    pair(sql, {10: 0.9, 20: 0.7}, {10: 0.8, 40: 0.75}, metric="bits_per_byte")
    found = "select variant_tokens, factor, bound from score_efficiency(null) where variant = 'DR'"
    assert sql.execute(found).fetchall() == [(None, 0.5, "at most")]


@pytest.mark.slow
def test_a_metric_that_is_declared_has_factors(sql):
    pair(sql, {10: 0.1, 20: 0.3, 40: 0.5}, {10: 0.2, 20: 0.5, 40: 0.7}, metric="my own")
    assert sql.execute("from score_efficiency(null)").fetchall() == []
    sql.execute("insert into metrics values ('my own', 'accuracy', 9, 'for this test')")
    found = efficiency(sql)
    sql.execute("delete from metrics where metric = 'my own'")
    assert found.factor == 2
