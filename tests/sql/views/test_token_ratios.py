"""The answer as the view token_ratios shows it: what is tested, what is doubted, what is bounded."""

from __future__ import annotations

import json
import math

import pytest

from dreamer_study.sql.statistics.compute import compute_statistics
from tests.sql.by_hand import PLACES, enter, pair, put

pytestmark = pytest.mark.slow

LA = {10 * 2**n: 0.1 * (n + 1) for n in range(6)}  # a tenth for each doubling
TWICE = {tokens * 2: score for tokens, score in LA.items()}
HALF = {tokens // 2: score for tokens, score in LA.items()}


def as_loss(curve):
    return {tokens: 1 - value for tokens, value in curve.items()}


def answer(sql, variant="DR", task="t", metric="accuracy", baseline=None, compute=True):
    """The row of a model in token_ratios_against, by column; computed first unless told
    otherwise."""
    if compute:
        compute_statistics(sql, "s", replicates=0)
    found = sql.execute(
        "from token_ratios_against($1) where variant = $2 and task = $3 and metric = $4",
        [baseline, variant, task, metric],
    )
    (row,) = found.df().astype(object).replace({math.nan: None}).to_dict("records")
    return row


def seeds_of(sql, curves, seeds=3, **options):
    """Enter seeds of each variant that lie a little apart."""
    for seed in range(seeds):
        shifted = {
            variant: {"t": {tokens: value + 0.004 * seed for tokens, value in curve.items()}}
            for variant, curve in curves.items()
        }
        enter(sql, shifted, seed=seed, **options)


def test_every_compared_model_has_a_row_and_the_inverse_against_the_other(sql):
    seeds_of(sql, {"LA": LA, "DR": TWICE, "DR+DA": HALF})
    found = answer(sql)
    assert found["ratio"] == pytest.approx(2)
    assert found["low"] < 2 < found["high"]
    assert found["factor"] == pytest.approx(0.5)
    assert answer(sql, "LA", baseline="DR")["ratio"] == pytest.approx(0.5)
    rows = sql.execute("select variant, baseline, task, reached from token_ratios").fetchall()
    assert rows == [
        (variant, "LA", task, True) for variant in ("DR", "DR+DA") for task in ("average", "t")
    ]


def test_a_model_without_a_curve_or_a_common_range_has_a_row(sql):
    enter(sql, {"LA": {"t": LA}, "DR": {"t": {10: 0.01, 80: 0.05}}, "none": {}})
    found = answer(sql)
    assert (found["ratio"], found["low"], found["high"]) == (None, pytest.approx(8), None)
    assert not found["outdated"]
    found = answer(sql, "none")
    assert (found["ratio"], found["low"], found["seeds"]) == (None, None, None)


def test_a_loss_has_the_ratio_of_its_mirrored_accuracy(sql):
    pair(sql, as_loss(LA), as_loss(TWICE), metric="gold_bits_per_byte")
    found = answer(sql, metric="loss")
    assert found["ratio"] == pytest.approx(2)
    assert found["score_low"] == pytest.approx(0.4)
    assert found["score_low"] < found["score_high"]


CHANGES = {
    "a value": "update evaluations set value = 0.55 where run_id = 's-4-DR-1' and tokens = 40",
    "a seed": "delete from runs where seed = 1",
    "a score fixed in advance": "update studies set config = "
    """'{"study": {"evaluation": {"target": [{"task": "t", "metric": "accuracy", "score": 0.4}]}}}'""",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_ratio_of_other_points_or_at_another_score_is_not_shown(sql, change):
    seeds_of(sql, {"LA": LA, "DR": TWICE})
    put(sql, "studies", [{"study_id": "s", "name": "s"}])
    assert answer(sql)["ratio"] == pytest.approx(2)
    sql.execute(CHANGES[change])
    after = answer(sql, compute=False)
    assert after["outdated"]
    assert [after[name] for name in ("ratio", "low", "high", "at_least", "factor")] == [None] * 5
    again = answer(sql)
    assert not again["outdated"]
    assert again["ratio"] is not None


def in_advance(sql, task, score=0.35):
    """Fix a score of a task in advance."""
    target = {"task": task, "metric": "accuracy", "score": score}
    config = json.dumps({"study": {"evaluation": {"target": [target]}}})
    put(sql, "studies", [{"study_id": "s", "name": "s", "config": config}])


def test_a_score_fixed_in_advance_is_that_of_its_task_alone(sql):
    seeds_of(sql, {"LA": LA, "DR": TWICE})
    sql.execute("insert into evaluations by name select * replace ('u' as task) from evaluations")
    in_advance(sql, "t")
    found = answer(sql)
    assert (found["in_advance"], found["score_low"], found["score_high"]) == (True, 0.35, 0.35)
    assert found["ratio"] == pytest.approx(2)
    for task in ("average", "u"):
        other = answer(sql, task=task, compute=False)
        assert not other["in_advance"]
        assert other["score_low"] < other["score_high"]


@pytest.mark.parametrize("task", ["t", "average"])
def test_a_score_of_the_only_task_is_one_of_the_average(sql, task):
    seeds_of(sql, {"LA": LA, "DR": TWICE})
    in_advance(sql, task)
    for of_task in ("t", "average"):
        found = answer(sql, task=of_task)
        assert (found["in_advance"], found["score_low"]) == (True, 0.35)


def test_a_score_that_nobody_reached_is_no_finding(sql):
    seeds_of(sql, {"LA": LA, "DR": TWICE})
    in_advance(sql, "t", 0.95)
    for task in ("t", "average"):
        found = answer(sql, task=task)
        assert [found[name] for name in ("ratio", "low", "high", "significant")] == [None] * 4
        assert (found["reached"], found["decay_bound"], found["before_decay"]) == (
            False,
            None,
            False,
        )


def test_curves_of_noise_have_no_bound(sql):
    flat = {tokens: 0.5 + 0.01 * (tokens % 3) for tokens in LA}
    for seed, shift in enumerate((0.0, 0.012, -0.01, 0.006)):
        above = {tokens: value + 0.03 + shift for tokens, value in flat.items()}
        curves = {"LA": {"t": flat}, "DR": {"t": above}}
        if seed % 2:
            curves = {"LA": {"t": above}, "DR": {"t": flat}}
        enter(sql, curves, seed=seed)
    found = answer(sql)
    if found["ratio"] is None:
        assert (found["low"], found["high"], found["significant"]) == (None, None, None)
    assert found["significant"] is not True


def test_a_model_near_chance_has_no_ratio(sql):
    low = {tokens: 0.26 + value / 50 for tokens, value in LA.items()}
    pair(sql, {tokens: 0.2 + value for tokens, value in LA.items()}, low, items=400, chance=0.25)
    found = answer(sql)
    assert (found["near_chance"], found["ratio"]) == (True, None)
    assert found["low"] > 1  # LA rose above chance with fewer tokens than all of DR's


def test_models_less_than_a_checkpoint_apart_are_no_finding(sql):
    near = {tokens: score + 0.03 for tokens, score in LA.items()}
    quarter = {tokens / 4: score for tokens, score in LA.items()}
    seeds_of(sql, {"LA": LA, "DR": near, "DR+DA": quarter})
    found = answer(sql, task="average")
    assert found["p_adjusted"] < 0.05
    assert (found["within_checkpoint"], found["significant"]) == (True, False)
    assert answer(sql, "DR+DA", "average", compute=False)["significant"] is True


def test_the_only_task_of_a_study_is_as_significant_as_the_average(sql):
    quarter = {tokens * 4: score for tokens, score in LA.items()}
    seeds_of(sql, {"LA": LA, "DR": quarter})
    alone = answer(sql)
    assert (alone["significant"], alone["one_task"], alone["comparisons"]) == (True, True, None)
    for variant, curve in (("LA", LA), ("DR", quarter)):
        for seed in range(3):
            rows = [
                {
                    "run_id": f"s-4-{variant}-{seed}",
                    "tokens": tokens,
                    "task": "u",
                    "metric": "exact_match",
                    "value": value + 0.004 * seed,
                }
                for tokens, value in curve.items()
            ]
            put(sql, "evaluations", rows)
    both = answer(sql)
    assert (both["significant"], both["p_adjusted"], both["one_task"]) == (None, None, False)
    assert answer(sql, task="average", compute=False)["significant"] is True


@pytest.mark.parametrize(
    ("p", "held"),
    [
        ((0.01, 0.02, 0.03, 0.04), 1),  # 0.04, then 3 times 0.02 is too much
        ((0.01, 0.016, 0.024, 0.04), 4),  # 0.04, 0.048, 0.048 and 0.048
        ((0.013, 0.001, 0.001, 0.001), 4),
        ((0.014, 0.013, None, 0.2), 2),  # three are tested
    ],
)
def test_the_headline_comparisons_are_corrected_together(sql, p, held):
    places = [(variant, metric) for variant in ("DR", "DR+DA") for metric in ("accuracy", "loss")]
    quarter = {tokens * 4: score for tokens, score in LA.items()}
    seeds_of(sql, {name: LA if name == "LA" else quarter for name in PLACES}, seeds=2)
    mirrored = (
        "select * replace ('gold_bits_per_byte' as metric, 1 - value as value) from evaluations"
    )
    sql.execute(f"insert into evaluations by name {mirrored}")
    other = "select * replace ('u' as task) from evaluations"
    sql.execute(f"insert into evaluations by name {other}")
    compute_statistics(sql, "s", replicates=0)
    for (variant, metric), value in zip(places, p, strict=True):
        place = "baseline = 'LA' and variant = ? and metric = ? and task"
        sql.execute(
            f"update computed_ratios set p = ? where {place} = 'average'", [value, variant, metric]
        )
        sql.execute(f"update computed_ratios set p = 0.04 where {place} = 't'", [variant, metric])
    rows = sql.execute("from token_ratios").df()
    average = rows[rows["task"] == "average"]
    task = rows[rows["task"] == "t"]
    assert average["significant"].eq(True).sum() == held
    assert set(average["comparisons"].dropna()) == {sum(value is not None for value in p)}
    assert task[["significant", "p_adjusted", "comparisons"]].isna().all(axis=None)


def test_comparisons_of_models_measured_elsewhere_are_corrected_apart(sql):
    seeds_of(sql, {"LA": LA, "DR": TWICE, "DR+DA": HALF})
    from_elsewhere = "insert into origins by name select 's' as study_id, ? as variant"

    def numbers_of_comparisons():
        rows = sql.execute("from token_ratios where p_adjusted is not null").df()
        return dict(rows.groupby("variant")["comparisons"].max())

    compute_statistics(sql, "s", replicates=0)
    together = answer(sql, compute=False)
    assert numbers_of_comparisons() == {"DR": 2, "DR+DA": 2}
    sql.execute(from_elsewhere, ["DR+DA"])  # with a baseline of the study: a comparison of its own
    assert numbers_of_comparisons() == {"DR": 2, "DR+DA": 2}
    sql.execute(from_elsewhere, ["LA"])
    assert numbers_of_comparisons() == {"DR": 1, "DR+DA": 1}
    assert answer(sql, compute=False)["p_adjusted"] < together["p_adjusted"]


def rates(sql, variant, decay_from, until, seeds=3):
    """Enter the rates of optimiser steps: constant, then falling to 0."""
    for seed in range(seeds):
        rows = [
            {
                "run_id": f"s-4-{variant}-{seed}",
                "step": step,
                "tokens": until * step // 20,
                "learning_rate": 1.0
                if until * step / 20 <= decay_from
                else (until - until * step / 20) / (until - decay_from),
            }
            for step in range(1, 21)
        ]
        put(sql, "steps", rows)


@pytest.mark.parametrize(
    ("decay_from", "ends", "bound", "before"),
    [
        pytest.param({"LA": 256, "DR": 128}, {"LA": 320, "DR": 160}, None, False, id="both end"),
        pytest.param({"LA": 256, "DR": 96}, {"LA": 320, "DR": 640}, "at most", False, id="inside"),
        pytest.param({"LA": 600, "DR": 600}, {"LA": 640, "DR": 640}, None, True, id="before"),
        pytest.param({"DR": 96}, {"LA": 320, "DR": 640}, "at most", False, id="one model decays"),
    ],
)
def test_a_score_reached_inside_a_decay_makes_the_ratio_a_bound(
    sql, decay_from, ends, bound, before
):
    curves = {}
    for variant, curve in (("LA", LA), ("DR", HALF)):
        flat = {ends[variant]: 0.6} if ends[variant] not in curve else {}
        curves[variant] = curve | flat
    seeds_of(sql, curves)
    for variant, start in decay_from.items():
        rates(sql, variant, start, ends[variant])
    found = answer(sql)
    assert (found["decay_bound"], found["before_decay"]) == (bound, before)


def test_curves_from_elsewhere_may_say_that_their_rates_have_decayed(sql):
    longer = HALF | {640: 0.7}
    seeds_of(sql, {"LA": LA, "DR": longer})
    put(sql, "studies", [{"study_id": "s", "config": json.dumps({"decayed_at_end": True})}])
    assert answer(sql)["decay_bound"] == "at most"
    assert answer(sql, "LA", baseline="DR")["decay_bound"] == "at least"
