"""Statistics are computed, and say what the number of seeds can tell."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from dreamer_study.sql import results
from dreamer_study.sql.statistics.compute import compute_statistics
from dreamer_study.sql.statistics.resolution import Noise, smallest_ratio
from dreamer_study.sql.statistics.sequential import NOMINAL
from tests.sql.by_hand import enter_scores, put


@pytest.fixture
def scored(path):
    """Two seeds of LA and DR on two tasks, with the scores of 50 items."""
    random = np.random.default_rng(0)
    for seed in range(2):
        curves = {
            variant: {
                task: {n * 100: random.random(50) < 0.1 * n + faster for n in range(1, 6)}
                for task in "tu"
            }
            for variant, faster in (("LA", 0.0), ("DR", 0.1))
        }
        enter_scores(path, curves, seed=seed)
    return path


def stored(connection):
    return connection.execute("from computed_ratios order by all").df()


def one(frame, **place):
    """The row of one task and metric of DR against LA."""
    place = {"variant": "DR", "baseline": "LA", "task": "t", "metric": "accuracy"} | place
    (found,) = frame.query(
        " and ".join(f"{name} == {value!r}" for name, value in place.items())
    ).to_dict("records")
    return found


@pytest.mark.slow
def test_computing_again_replaces_and_repeats(scored):
    found = []
    for _ in range(2):
        with results.connect(scored) as connection:
            computed = compute_statistics(connection, "s", replicates=20)
            found.append(stored(connection))
    assert found[0].equals(found[1])
    # pairs of models, tasks with the average and two without one
    assert len(computed) == len(found[0]) == 2 * 2 * 5
    assert set(found[0]["replicates"]) == {20}


@pytest.mark.slow
def test_a_configuration_that_is_no_json_is_no_failure(scored):
    with results.connect(scored) as connection:
        connection.execute(
            "insert into studies (study_id, name, config) values ('s', 's', 'rate: 1e-3')"
        )
        assert len(compute_statistics(connection, "s", replicates=0))


@pytest.mark.slow
def test_other_studies_keep_their_rows(scored):
    enter_scores(scored, {"LA": {"t": {10: [0, 1], 20: [1, 1]}}}, study="other")
    with results.connect(scored) as connection:
        for study in ("other", "s", "s"):
            compute_statistics(connection, study, replicates=5)
        assert stored(connection).groupby("study_id").size().to_dict() == {"other": 2, "s": 20}


@pytest.mark.slow
def test_ratio_and_interval_of_a_pair_are_turned_around_for_the_other_baseline(scored):
    with results.connect(scored) as connection:
        found = compute_statistics(connection, "s", replicates=20)
    there, back = one(found), one(found, variant="LA", baseline="DR")
    assert there["low"] < there["ratio"] < there["high"]
    assert [back[end] for end in ("low", "ratio", "high")] == pytest.approx(
        [1 / there[end] for end in ("high", "ratio", "low")]
    )


@pytest.mark.slow
def test_items_add_their_error(scored):
    with results.connect(scored) as connection:
        found = one(compute_statistics(connection, "s", replicates=300))
    assert found["item_error"] > 0
    error = (found["seed_error"] ** 2 + found["item_error"] ** 2) ** 0.5
    half = t.ppf(0.975, found["degrees_of_freedom"]) * error
    assert np.log(found["high"] / found["low"]) == pytest.approx(2 * half)


FAMILY = ("world_short", "world_long")  # both ask for sums


@pytest.mark.slow
def test_an_average_without_a_family_is_the_average_of_the_others(path):
    random = np.random.default_rng(0)
    for seed in range(3):
        curves = {
            variant: {
                task: {n * 100: random.random(40) < 0.15 * n for n in range(1, 6)}
                for task in (*FAMILY, "other")
            }
            for variant in ("LA", "DR")
        }
        enter_scores(path, curves, seed=seed)
    with results.connect(path) as connection:
        found = compute_statistics(connection, "s", replicates=50)
    numbers = ["ratio", "low", "high", "item_error", "mean_factor", "p"]
    without, alone = one(found, task="average without sums"), one(found, task="other")
    assert [without[name] for name in numbers] == pytest.approx([alone[name] for name in numbers])
    assert "average without other" in set(found["task"])
    assert (
        len(
            set(
                found["digest"][
                    found["task"].str.startswith("average") & (found["baseline"] == "LA")
                ]
            )
        )
        == 2
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ahead", "spread", "items", "found"),
    [
        ({"one": 1.0, "other": 0.0, "third": 0.0}, 0.15, 100, (True, "one")),
        ({"one": 1.0, "other": 1.0, "third": 0.0}, 0.15, 100, (True, None)),
        ({"one": 0.0, "other": 0.0, "third": 0.0}, 0.15, 100, (False, None)),
        # without that task the direction turns round
        ({"one": 1.2, "other": -0.4}, 0.02, 1000, (True, "one")),
    ],
)
def test_significance_that_depends_on_one_task_is_said(path, ahead, spread, items, found):
    random = np.random.default_rng(0)
    for seed in range(4):
        curves = {"LA": {}, "DR": {}}
        for task in ahead:
            for variant, tasks in curves.items():
                start = random.normal(ahead[task] * (variant == "DR"), spread)
                tasks[task] = {
                    round(1000 * 2 ** (n / 4)): np.arange(items) < items / 10 * (n / 4 + start + 1)
                    for n in range(24)
                }
        enter_scores(path, curves, seed=seed)
    with results.connect(path) as connection:
        compute_statistics(connection, "s", replicates=0)
        rows = (
            "select significant and ratio < 1, depends_on from token_ratios where task = 'average'"
        )
        assert connection.execute(rows).fetchall() == [found]


def test_the_widest_interval_may_be_that_of_a_lower_bound(path):
    place = {
        "study_id": "s",
        "depth": 4,
        "baseline": "LA",
        "task": "average",
        "metric": "accuracy",
        "digest": "",
    }
    rows = [
        {"variant": "DR", "low": 1.0, "high": 1.2},
        # whose curve has no part in common
        {"variant": "X", "low": 2.0, "at_least_low": 3.0, "at_least_high": 3.9},
    ]
    with results.connect(path) as connection:
        put(
            connection,
            "models",
            [{"study_id": "s", "model_id": name, "variant": name} for name in ("LA", "DR", "X")],
        )
        put(connection, "studies", [{"study_id": "s", "baseline": "LA"}])
        put(connection, "computed_ratios", [{**place, **row} for row in rows])
    found = results.ask(path, "widest_interval", study="s", variants=["LA", "DR", "X"])
    assert found["high_over_low"].item() == pytest.approx(1.3)


@pytest.mark.slow
def test_without_replicates_the_interval_is_over_the_seeds(scored):
    with results.connect(scored) as connection:
        found = one(compute_statistics(connection, "s", replicates=0))
    assert found["low"] < found["high"]
    assert pd.isna(found["item_error"])


@pytest.mark.slow
def test_a_loss_has_the_ratio_of_its_mirrored_accuracy(scored):
    with results.connect(scored) as connection:
        for table in ("evaluations", "items"):
            mirrored = "select * replace ('gold_bits_per_byte' as metric, 1 - value as value)"
            connection.execute(f"insert into {table} by name {mirrored} from {table}")
        found = compute_statistics(connection, "s", replicates=50)
    accuracy, loss = one(found), one(found, metric="loss")
    for name in ("ratio", "low", "high", "item_error", "mean_factor"):
        assert loss[name] == pytest.approx(accuracy[name])
    assert (loss["range_low"], loss["range_high"]) == pytest.approx(
        (1 - accuracy["range_high"], 1 - accuracy["range_low"])
    )


def test_the_example() -> None:
    assert smallest_ratio(Noise(0.15, 0.03, "a study"), 5) == pytest.approx(1.375, abs=0.01)


def test_one_seed_tells_nothing_and_no_noise_tells_everything() -> None:
    assert smallest_ratio(Noise(0.15, 0.03, "a study"), 1) == math.inf
    assert smallest_ratio(Noise(0.0, 0.0, "a study"), 3) == 1.0


def test_intervals_of_all_looks_together_tell_less() -> None:
    noise = Noise(0.15, 0.03, "a study")
    assert smallest_ratio(noise, 5, NOMINAL) > 1.03 * smallest_ratio(noise, 5)


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_four_of_five_studies_tell_the_smallest_ratio_from_one(seeds: int) -> None:
    noise, random, studies = Noise(0.2, 0.05, "a study"), np.random.default_rng(0), 4000
    truth = math.log(smallest_ratio(noise, seeds))
    baseline = random.normal(truth, noise.seed_deviation, (studies, seeds))
    variant = random.normal(0, noise.seed_deviation, (studies, seeds))
    found = (
        baseline.mean(axis=1) - variant.mean(axis=1) + random.normal(0, noise.item_error, studies)
    )
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
