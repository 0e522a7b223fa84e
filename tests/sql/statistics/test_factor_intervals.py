"""Intervals of the factors: cases with known answers, agreement with the views, pairing, and speed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql import results
from sql.statistics.bootstrap import ReplicatedCurve
from sql.statistics.compute import compute_statistics
from sql.statistics.factor_intervals import (
    ERROR,
    FEWEST_FOR_NOISE,
    Factors,
    crossing_factors,
    factor_interval,
    grid_interval,
    interval,
    possible_goals,
    with_training_noise,
)
from tests.sql.by_hand import enter_scores as enter
from tests.sql.empty import empty_file


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return empty_file(tmp_path_factory.mktemp("bootstrap") / "results.duckdb")


@pytest.fixture
def empty(path):
    """A results file without rows."""
    with results.connect(path) as connection:
        for table in ("models", "runs", "evaluations", "items", "factor_intervals"):
            connection.execute(f"delete from {table}")
    return path


def intervals(path, study="s", **options):
    """{(variant, task, rule): (low, high, share_reached)}."""
    with results.connect(path) as connection:
        frame = compute_statistics(connection, study, **{"replicates": 200} | options)["factor_intervals"]
    return {(r.variant, r.task, r.rule): (r.low, r.high, r.share_reached) for r in frame.itertuples()}


def share(count, of=100):
    """Scores of `of` items, the first `count` of them right."""
    return np.arange(of) < count


def flat(count, of=100):
    """Scores that are the same for every item, so that every draw has the same mean."""
    return np.full(of, count / of)


# The parts ------------------------------------------------------------------------------------------------------------


def test_an_interval_is_open_where_too_many_replicates_are_limits():
    value = np.linspace(1, 2, 101)
    none, some = np.zeros(101, bool), np.arange(101) % 10 == 0
    assert interval(Factors(value, at_most=none, at_least=none), ERROR) == (pytest.approx(1.03), pytest.approx(1.97))
    assert interval(Factors(value, at_most=some, at_least=none), ERROR) == (0, pytest.approx(1.97))
    assert interval(Factors(value, at_most=none, at_least=some), ERROR) == (pytest.approx(1.03), np.inf)
    one = np.arange(101) == 50  # one in a hundred limits does not reach the 2.5 % of either end
    assert interval(Factors(value, at_most=one, at_least=none), ERROR) == (pytest.approx(1.02), pytest.approx(1.97))


@pytest.mark.parametrize(
    ("equal", "low", "high"),
    [
        ((4, 92, 4), 2, 2),  # half of four in a hundred are less than 2.5 %
        ((5, 90, 5), 1, 3),
        ((2, 4, 94), 2, 3),  # two and half of four
        ((0, 100, 0), 2, 2),
    ],
)
def test_half_of_the_replicates_equal_to_an_end_count_towards_its_share(equal, low, high):
    value, none = np.repeat([1.0, 2.0, 3.0], equal), np.zeros(100, bool)
    assert interval(Factors(value, at_most=none, at_least=none), ERROR) == (low, high)
    at_most, at_least = value == 1, value == 3
    open_ends = (0 if low == 1 else low, np.inf if high == 3 else high)
    assert interval(Factors(value, at_most=at_most, at_least=at_least), ERROR) == open_ends


curves = st.dictionaries(st.sampled_from([1000, 2000, 5000, 7000]), st.integers(0, 5), min_size=1)


@settings(max_examples=6)
@given(st.lists(st.tuples(curves, curves), min_size=1, max_size=30))
def test_one_replicate_with_every_item_once_gives_the_factors_of_the_views(path, pairs):
    runs, rows = [], []
    for number, pair in enumerate(pairs):
        for variant, curve in zip(("LA", "DR"), pair, strict=True):
            runs.append({"study_id": str(number), "run_id": f"{number}{variant}", "model_id": variant})
            for tokens, right in curve.items():
                place = {"run_id": f"{number}{variant}", "tokens": tokens, "task": "t"}
                rows.append({**place, "metric": "acc", "filter": "none", "value": right / 5})
    with results.connect(path) as connection:
        connection.execute("delete from runs; delete from evaluations")
    results.ingest(path, {"runs": pa.Table.from_pylist(runs), "evaluations": pa.Table.from_pylist(rows)})
    for view, interpolated in (("data_efficiency", False), ("data_efficiency_interpolated", True)):
        found = results.query(path, f"select study_id, factor, bound from {view} where variant = 'DR' and task = 't'")
        for study, factor, bound in found.itertuples(index=False):
            both = [dict(sorted(curve.items())) for curve in pairs[int(study)]]
            baseline, own = (ReplicatedCurve(np.array(list(c)), np.array([list(c.values())]) / 5) for c in both)
            best = baseline.scores[0].argmax()
            goal = baseline.tokens[best], baseline.scores[:, best]
            factors = crossing_factors(*goal, own, interpolated=interpolated)
            assert factors.value[0] == pytest.approx(factor)
            assert (factors.at_most[0], factors.at_least[0]) == (bound == "at most", bound == "at least")


def curve_with_errors(*observed, error=0.02, replicates=2000):
    """A curve whose checkpoints have independent normal errors."""
    noise = np.random.default_rng(0).normal(0, error, (replicates, len(observed)))
    return ReplicatedCurve(np.arange(1, len(observed) + 1) * 10, np.vstack([observed, observed + noise]))


def test_the_goal_of_a_clear_best_is_that_checkpoint_alone():
    goals = possible_goals(curve_with_errors(0.1, 0.3, 0.5, 0.2))
    assert goals.tokens.tolist() == [30]
    assert goals.scores[0].tolist() == [0.5]
    assert goals.error.tolist() == pytest.approx([ERROR])  # a plain 95 % interval


def test_on_a_plateau_every_checkpoint_may_be_the_goal():
    goals = possible_goals(curve_with_errors(0.1, 0.495, 0.5, 0.48, 0.505))
    assert goals.tokens.tolist() == [20, 30, 40, 50]
    # The less plausible as the best, the less of its interval counts; with several goals each may miss more often.
    assert goals.tokens[goals.error.argsort()].tolist() == [50, 30, 20, 40]
    assert ERROR < goals.error.min() <= goals.error.max() < 1


@settings(max_examples=30)
@given(st.lists(st.floats(0.1, 0.9), min_size=1, max_size=6))
def test_the_best_observed_is_always_a_goal_and_the_interval_spans_its_own(accuracy):
    baseline, variant = (curve_with_errors(*curve, replicates=200) for curve in (accuracy, (0.2, 0.4, 0.6, 0.8)))
    goals, best = possible_goals(baseline), int(np.argmax(accuracy))
    assert goals.tokens[goals.error.argmin()] == baseline.tokens[best]
    plain = crossing_factors(
        baseline.tokens[best],
        baseline.scores[1:, best],
        ReplicatedCurve(variant.tokens, variant.scores[1:]),
        interpolated=False,
    )
    low, high, reached = factor_interval(goals, variant, interpolated=False)
    inner = interval(plain, goals.error.min())
    assert low <= inner[0] <= inner[1] <= high
    assert 0 <= reached <= 1


def scattered(noise, checkpoints=12):
    """A rising curve with noise of training, and its replicates in which only the items differ: all by the same."""
    share = np.arange(1, checkpoints + 1) / checkpoints
    observed = 0.9 - 0.8 / (1 + (share / 0.5) ** 1.5) + np.random.default_rng(2).normal(0, noise, checkpoints)
    items = np.random.default_rng(3).normal(0, 0.01, (2000, 1))
    return ReplicatedCurve(share * checkpoints * 10, np.vstack([observed, observed + items]))


def test_noise_of_training_is_added_to_every_checkpoint_by_itself():
    curve = scattered(0.05)
    noisy = with_training_noise(curve, np.random.default_rng(4))
    assert (noisy.scores[0] == curve.scores[0]).all()
    added = noisy.scores[1:] - curve.scores[1:]
    assert added.std(axis=0) == pytest.approx(np.full(12, 0.05), rel=0.4)  # estimated from eight degrees of freedom
    assert np.abs(np.corrcoef(added.T) - np.eye(12)).max() < 0.1


def test_where_checkpoints_do_not_scatter_nothing_is_added():
    curve = scattered(0)
    noisy = with_training_noise(curve, np.random.default_rng(4))
    assert noisy.scores == pytest.approx(curve.scores, abs=2e-3)  # what a cubic cannot follow of the curve


def test_too_few_checkpoints_show_no_noise():
    curve = scattered(0.05, FEWEST_FOR_NOISE - 1)
    assert with_training_noise(curve, np.random.default_rng(4)) is curve
    curve = scattered(0.05, FEWEST_FOR_NOISE)
    assert with_training_noise(curve, np.random.default_rng(4)) is not curve


def test_equal_checkpoints_are_one_goal_the_first():
    without_noise = ReplicatedCurve(np.array([10, 20, 30, 40]), np.tile([0.1, 0.5, 0.5, 0.4], (21, 1)))
    assert possible_goals(without_noise).tokens.tolist() == [20]


@pytest.mark.parametrize(
    ("baseline", "variant", "ends"),
    [
        ((0.1, 0.3, 0.5, 0.4), (0.2, 0.5, 0.6, 0.7), (20 / 20, 40 / 10)),
        ((0.1, 0.3, 0.5, 0.5), (0.2, 0.3, 0.4, 0.4), (0, 40 / 80)),  # never reached
        ((0.1, 0.3, 0.5, 0.6), (0.7, 0.8, 0.8, 0.8), (40 / 10, np.inf)),  # reached at the first checkpoint
        ((0.5, 0.3, 0.3, 0.3), (0.2, 0.5, 0.6, 0.7), (0, 10 / 10)),  # the best is at the first checkpoint
    ],
)
def test_an_interval_is_never_finer_than_the_checkpoints(baseline, variant, ends):
    tokens = np.array([10, 20, 40, 80])
    curves = (ReplicatedCurve(tokens, np.array([curve, curve])) for curve in (baseline, variant))
    assert grid_interval(*curves) == ends


# Whole studies --------------------------------------------------------------------------------------------------------


def test_scores_without_noise_give_the_factor_itself(empty):
    la = {10: flat(10), 20: flat(30), 40: flat(50), 80: flat(40)}
    dr = {10: flat(20), 20: flat(60), 40: flat(10)}
    enter(empty, {"LA": {"t": la}, "DR": {"t": dr}})
    found = intervals(empty)
    assert found["DR", "t", "first"] == found["DR", "average", "first"] == (1, 4, 1)  # the spacing of the checkpoints
    low, high, reached = found["DR", "t", "interpolated"]
    assert low == pytest.approx(high) == pytest.approx(40 / (20 * 0.5**0.25))
    assert found["LA", "t", "interpolated"] == (1, 1, 1)
    assert reached == 1


def test_limits_leave_the_interval_open(empty):
    la = {10: flat(10), 20: flat(50)}
    enter(empty, {"LA": {"t": la}, "never": {"t": {10: flat(1), 40: flat(2)}}, "at once": {"t": {10: flat(90)}}})
    found = intervals(empty)
    assert found["never", "t", "first"] == found["never", "t", "interpolated"] == (0, 0.5, 0)
    assert found["LA", "t", "first"] == (1, 1, 1)
    assert found["at once", "t", "interpolated"] == (2, np.inf, 1)
    assert found["at once", "t", "first"] == (1, np.inf, 1)  # LA may have its best soon after 10


def test_draws_are_paired_between_models_and_checkpoints(empty):
    # The variant answers item by item as the baseline did with twice the tokens: whatever is drawn, the factor is 2.
    generator = np.random.default_rng(0)
    difficulty = generator.random(300)
    scores = [difficulty < level for level in (0.1, 0.3, 0.5, 0.7)]
    la = dict(zip((10, 20, 40, 80), scores, strict=True))
    enter(empty, {"LA": {"t": la}, "DR": {"t": {tokens // 2: row for tokens, row in la.items()}}})
    found = intervals(empty)
    assert found["DR", "t", "first"] == (1, 4, 1)
    assert found["DR", "t", "interpolated"] == (2, 2, 1)


def test_noise_gives_an_interval_around_the_factor(empty):
    generator = np.random.default_rng(0)
    levels = {10: 0.1, 20: 0.2, 40: 0.3, 80: 0.4, 160: 0.5}
    la = {tokens: generator.random(400) < level for tokens, level in levels.items()}
    dr = {tokens: generator.random(400) < level + 0.2 for tokens, level in levels.items()}
    enter(empty, {"LA": {"t": la}, "DR": {"t": dr}})
    low, high, reached = intervals(empty, replicates=1000)["DR", "t", "interpolated"]
    estimate = results.query(empty, "select factor from data_efficiency_interpolated where variant = 'DR'")["factor"][0]
    assert 1 < low < estimate < high < 8
    assert low <= 4 <= high
    assert reached > 0.99


def test_a_plateau_of_the_baseline_widens_the_interval_and_is_named(empty):
    # The baseline stands still from 20 on; that its last checkpoint is one item better is luck.
    random, height = np.random.default_rng(3), 0.5
    plateau = {tokens: random.random(400) < height for tokens in (20, 40, 80, 160)}
    plateau[160] = np.random.default_rng(4).permutation(np.arange(400) < 1 + max(map(sum, plateau.values())))
    enter(empty, {"LA": {"t": {10: share(40, 400)} | plateau}, "DR": {"t": {10: share(40, 400), 20: share(320, 400)}}})
    with results.connect(empty) as connection:
        frame = compute_statistics(connection, "s", replicates=200)["factor_intervals"].query(
            "variant == 'DR' and task == 't'"
        )
    assert frame["goal_last"].tolist() == [160, 160]
    assert frame["goal_first"].max() <= 40
    first = frame[frame["rule"] == "first"].iloc[0]
    assert (first["low"], first["high"]) == (first["goal_first"] / 20, 160 / 10)


def test_noise_of_training_widens_the_intervals(empty):
    random, difficulty = np.random.default_rng(0), np.random.default_rng(1).permutation((np.arange(400) + 0.5) / 400)
    widths = []
    for study, noise in (("calm", 0.0), ("noisy", 0.05)):
        curves = {
            variant: {
                "t": {
                    t: difficulty < 0.9 - 0.8 / (1 + (t * speed / 80) ** 1.5) + random.normal(0, noise)
                    for t in range(10, 130, 10)
                }
            }
            for variant, speed in (("LA", 1), ("DR", 2))
        }
        enter(empty, curves, study=study)
        low, high, _ = intervals(empty, study)["DR", "t", "interpolated"]
        assert low < 2 < high
        widths.append(high / low)
    assert widths[1] > 1.3 * widths[0]


def test_the_average_is_computed_on_the_average_curve_of_each_replicate(empty):
    la = {"a": {10: flat(80), 20: flat(20), 40: flat(30)}, "b": {10: flat(0), 20: flat(20), 40: flat(60)}}
    dr = {"a": {10: flat(10), 20: flat(50)}, "b": {10: flat(10), 20: flat(40)}}
    enter(empty, {"LA": la, "DR": dr})
    found = intervals(empty)
    assert found["DR", "a", "first"] == (0, 0.5, 0)  # LA's best on a is its first checkpoint
    assert found["DR", "average", "interpolated"][2] == 1
    assert found["DR", "average", "first"] == (1, 4, 1)  # 0.45 after 20 up to 40, and after 10 up to 20


def test_seeds_are_drawn_as_well(empty):
    for seed, (early, late) in enumerate(((50, 60), (10, 20), (30, 40))):
        la, dr = {10: flat(20), 20: flat(30), 40: flat(40)}, {10: flat(early), 20: flat(late), 40: flat(90)}
        enter(empty, {"LA": {"t": la, "u": la}, "DR": {"t": dr, "u": dr}}, seed=seed)
    found = intervals(empty, replicates=500)
    low, high, reached = found["DR", "t", "first"]
    assert (low, high, reached) == (1, np.inf, 1)  # three times the second seed: 40; three times the first: 10
    assert found["DR", "u", "first"] == found["DR", "average", "first"] == found["DR", "t", "first"]
    with results.connect(empty) as connection:
        assert len(connection.execute("from data_efficiency where task = 't'").fetchall()) == 2


def test_without_items_there_is_a_row_without_an_interval(empty):
    rows = {10: share(20), 20: share(40)}
    enter(empty, {"LA": {"t": rows, "u": rows}, "DR": {"t": rows, "u": rows}})
    with results.connect(empty) as connection:
        connection.execute("delete from items where task = 'u' and tokens = 20 and run_id = 's-DR-0'")
        frame = compute_statistics(connection, "s", replicates=20)["factor_intervals"]
    missing = frame[frame["low"].isna()]
    assert set(zip(missing["variant"], missing["task"], strict=True)) == {("DR", "u"), ("DR", "average")}
    assert missing["high"].isna().all()
    assert missing["share_reached"].isna().all()
    assert len(frame) == 2 * 3 * 2


def test_items_that_not_all_checkpoints_have_are_left_out(empty):
    enter(empty, {"LA": {"t": {10: flat(10), 20: flat(50)}}, "DR": {"t": {10: flat(10), 20: flat(60)}}})
    with results.connect(empty) as connection:
        connection.execute("delete from items where item_id = 't/7' and tokens = 20")
        connection.execute("update items set value = 1 where item_id = 't/7'")  # would spoil the flat scores
    assert intervals(empty)["DR", "t", "interpolated"][2] == 1
    assert intervals(empty)["DR", "t", "first"] == (0.5, 2, 1)


def test_intervals_depend_on_the_seed_alone(empty):
    generator = np.random.default_rng(0)
    noisy = {tokens: generator.random(50) < 0.1 + tokens / 100 for tokens in (10, 20, 40, 80)}
    other = {tokens: generator.random(50) < 0.2 + tokens / 100 for tokens in (10, 20, 40, 80)}
    enter(empty, {"LA": {"t": noisy}, "DR": {"t": other}})
    first = intervals(empty)
    assert intervals(empty) == first
    enter(empty, {"LA": {"another": noisy}, "DR": {"another": other}})
    again = intervals(empty)
    assert all(again[key] == first[key] for key in first if key[1] == "t")
    assert any(intervals(empty, seed=n) != again for n in (1, 2))


def test_intervals_are_stored_in_place_of_earlier_ones(empty):
    rows = {10: share(20), 20: share(40)}
    for study in ("s", "other"):
        enter(empty, {"LA": {"t": rows}, "DR": {"t": rows}}, study=study)
        intervals(empty, study)
    intervals(empty, "s", seed=5)
    kept = results.query(empty, "select study_id, seed, count(*) as n from factor_intervals group by all order by all")
    assert kept.values.tolist() == [["other", 0, 8], ["s", 5, 8]]
    shown = results.query(empty, "select low, high from table_2 where study_id = 's' and task = 't'")
    assert shown.values.tolist() == [[1, 1], [0.5, 2]]


def test_a_reader_gets_the_intervals_without_storing_them(empty):
    rows = {10: share(20), 20: share(40)}
    enter(empty, {"LA": {"t": rows}, "DR": {"t": rows}})
    with results.connect(empty, read_only=True) as connection:
        assert len(compute_statistics(connection, "s", replicates=10)["factor_intervals"]) == 8
        assert len(compute_statistics(connection, "no such study", replicates=10)["factor_intervals"]) == 0
    assert len(results.query(empty, "from factor_intervals")) == 0


@pytest.mark.slow
def test_a_study_of_the_papers_size_has_all_its_intervals(empty):
    generator = np.random.default_rng(0)
    tokens = np.geomspace(1e6, 1e8, 24).astype(int).tolist()
    curves = {
        variant: {
            task: {t: generator.random(1319) < 0.5 * (t / 1e8) ** (0.3 / speed) for t in tokens}
            for task in ("a", "b", "c", "d", "e")
        }
        for variant, speed in (("LA", 1), ("DR", 1.5), ("DR+DA", 2))
    }
    enter(empty, curves)
    with results.connect(empty) as connection:
        frame = compute_statistics(connection, "s", replicates=1000)["factor_intervals"]
    assert len(frame) == 3 * 6 * 2
    assert frame["low"].notna().all()
