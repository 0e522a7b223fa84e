"""Expectations of a study against results of known factors."""

from __future__ import annotations

import numpy as np
import pytest

from dreamer_study.sql import results
from dreamer_study.sql.statistics.compute import compute_statistics
from dreamer_study.sql.statistics.expectations import Expectation, check_expectations
from tests.sql.by_hand import enter_scores, put
from tests.sql.empty import empty_file

TOKENS = [100, 200, 400, 800, 1600]
# a twin, one that needs twice the tokens, one that never learns
SHIFT = {"LA": 0, "DR": 0, "DR+DA": -1, "X": None}


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Three seeds of three models: of 400 items the first are right, a tenth more at every doubling
    of the tokens."""
    path = empty_file(tmp_path_factory.mktemp("known") / "results.duckdb")
    random = np.random.default_rng(1)
    for seed in range(3):
        curves = {}
        for variant, shift in SHIFT.items():
            base = [
                0.15 if shift is None else 0.1 * (place + 2 + shift) for place in range(len(TOKENS))
            ]
            right = [share + random.normal(0, 0.004) for share in base]
            curves[variant] = {
                "t": dict(
                    zip(TOKENS, [np.arange(400) < 400 * share for share in right], strict=True)
                )
            }
        enter_scores(path, curves, seed=seed)
    with results.connect(path) as connection:
        compute_statistics(connection, "s", replicates=20)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "held"),
    [
        ({"variant": "DR", "ratio_holds": 1}, True),
        ({"variant": "DR", "ratio_holds": 0.5}, False),
        ({"variant": "DR", "ratio_above": 1}, False),
        ({"variant": "DR+DA", "ratio_above": 1}, True),
        ({"variant": "DR+DA", "ratio_holds": 1}, False),
        ({"variant": "DR+DA", "ratio_above": 2.2}, False),
        ({"variant": "X", "ratio_above": 1.1}, True),  # by the lower bound
        ({"variant": "X", "ratio_below": 10}, False),  # a lower bound is below nothing
        ({"variant": "DR", "against": "DR+DA", "ratio_below": 0.7}, True),
        ({"variant": "DR+DA", "task": "t", "at": 0.4, "ratio_at_least": 1.7}, True),
        ({"variant": "DR+DA", "task": "t", "at": 0.4, "ratio_at_least": 2.5}, False),
        # never reached: 1600 tokens count
        ({"variant": "DR+DA", "task": "t", "at": 0.57, "ratio_at_least": 1.05}, True),
        ({"variant": "DR+DA", "task": "t", "at": 0.57, "ratio_at_most": 10}, False),
        ({"variant": "DR", "task": "t", "at": 0.4, "ratio_at_most": 1.1}, True),
        # nobody reached it
        ({"variant": "DR", "task": "t", "at": 0.9, "ratio_at_least": 1}, False),
        ({"variant": "DR", "task": "u", "ratio_holds": 1}, False),
    ],
    ids=str,
)
def test_known_effects_are_held_and_others_missed(known, rule, held):
    (row,) = check_expectations(known, "s", [Expectation(**rule)]).to_dict("records")
    assert row["held"] is held, row


RATIO = {
    "study_id": "s",
    "variant": "DR",
    "baseline": "LA",
    "task": "average",
    "metric": "accuracy",
    "digest": "",
}
BETTER = {"ratio": 0.77, "low": 0.71, "high": 0.83, "reached": True}
# A one-sided bound in place of the ratio, and a ratio above 1 of a variant that ends lower.
NEVER = {"low": 2.5, "reached": False, "at_least": 1.1, "at_least_low": 0.9}
BEHIND = {"ratio": 2.0, "low": 1.5, "high": 2.6, "reached": False, "at_least_low": 0.9}
STOPPED = {**BETTER, "reached": False, "at_least": 1.4, "at_least_low": 1.3, "at_least_high": 1.5}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depths", "above", "below"),
    [
        ([BETTER], False, True),
        ([STOPPED], True, False),
        ([BETTER, STOPPED], False, False),
        ([STOPPED] * 2, True, False),
        ([NEVER], True, False),
        ([BEHIND], True, False),
    ],
)
def test_a_lower_bound_is_below_nothing_and_every_depth_counts(path, depths, above, below):
    with results.connect(path) as connection:
        put(
            connection,
            "models",
            [{"study_id": "s", "model_id": name, "variant": name} for name in ("LA", "DR")],
        )
        rows = [
            {**RATIO, "depth": 4 * place, "seed_error": 0.1, **row}
            for place, row in enumerate(depths, start=1)
        ]
        put(connection, "computed_ratios", rows)
    rules = ("ratio_above", "ratio_below")
    asked = [Expectation(variant="DR", against="LA", **{rule: 1}) for rule in rules]
    assert check_expectations(path, "s", asked)["held"].tolist() == [above, below]


@pytest.mark.slow
def test_what_the_first_checkpoint_had_is_no_measured_crossing(path):
    curves = {"LA": {10: 0.3, 20: 0.6}, "DR": {20: 0.8, 40: 0.9}}
    right = {
        name: {"t": {at: np.arange(100) < 100 * share for at, share in curve.items()}}
        for name, curve in curves.items()
    }
    enter_scores(path, right)
    rules = [
        {"at": 0.5, "ratio_at_least": 1},
        {"at": 0.85, "ratio_at_most": 10},
        {"at": 0.5, "ratio_at_most": 2},
    ]
    asked = [Expectation(variant="DR", against="LA", task="t", **rule) for rule in rules]
    assert check_expectations(path, "s", asked)["held"].tolist() == [False, False, True]


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"ratio_holds": 1, "ratio_below": 1},
        {"at": 0.5},
        {"ratio_at_most": 1},
        {"at": 0.5, "ratio_holds": 1},
        {"ratio_holds": 0},
        {"at": 0.5, "ratio_at_most": 1, "metric": "loss"},
    ],
    ids=str,
)
def test_an_expectation_has_one_rule(rule):
    with pytest.raises(ValueError, match=r"one of|greater than|leave out"):
        Expectation(variant="DR", **rule)


@pytest.mark.parametrize(
    ("rule", "turned"),
    [
        ("holds", "ratio_holds"),
        ("below", "ratio_above"),
        ("above", "ratio_below"),
        ("at_most", "ratio_at_least"),
        ("at_least", "ratio_at_most"),
    ],
)
def test_a_rule_of_factors_is_refused_with_the_rule_that_says_the_same(rule, turned):
    with pytest.raises(ValueError, match=f"direction is the opposite; write `{turned}: 1/x`"):
        Expectation(variant="DR", **{rule: 0.5})
