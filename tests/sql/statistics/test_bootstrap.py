"""Resampled scores: what checkpoints score with other items."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dreamer_study.sql import results
from dreamer_study.sql.statistics.bootstrap import replicate_values, resample
from dreamer_study.sql.statistics.compute import compute_statistics
from tests.sql.by_hand import enter_scores


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


@pytest.mark.slow
def test_models_and_checkpoints_get_the_same_draw(path):
    # The variant answers item by item as the baseline did with twice the tokens: whatever is drawn,
    # the ratio is one half.
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
    assert found[["low", "ratio", "high"]].tolist() == pytest.approx([0.5] * 3)


@pytest.mark.slow
def test_the_average_of_a_replicate_is_that_of_its_tasks(path):
    curves = {task: answers({10: 0.3, 20: 0.6}, seed=place) for place, task in enumerate("ab")}
    enter_scores(path, {"LA": curves})
    means = drawn(path)
    for place, average in means["average"].items():
        np.testing.assert_allclose(average, (means["a"][place] + means["b"][place]) / 2)


@pytest.mark.slow
def test_draws_depend_on_the_seed_and_the_task_alone(path):
    enter_scores(path, {"LA": {"t": answers({10: 0.3, 20: 0.6})}})
    first = drawn(path)["t"]["s-LA-0", 20]
    enter_scores(path, {"LA": {"another": answers({10: 0.3, 20: 0.6})}})
    again = drawn(path)
    np.testing.assert_array_equal(again["t"]["s-LA-0", 20], first)
    assert (again["another"]["s-LA-0", 20] != first).any()
    assert (drawn(path, seed=1)["t"]["s-LA-0", 20] != first).any()


@pytest.mark.slow
def test_a_checkpoint_is_averaged_over_its_own_items_and_changes_no_other(path):
    enter_scores(path, {"LA": {"t": answers({10: 0.3, 20: 0.6})}})
    before = drawn(path)["t"]
    enter_scores(path, {"DR": {"t": {10: np.full(7, 0.5)}}}, item_ids=[f"t/{n}" for n in range(7)])
    after = drawn(path)["t"]
    for place, means in before.items():
        np.testing.assert_allclose(after[place], means)
    assert after["s-DR-0", 10] == pytest.approx(np.full(21, 0.5))


@pytest.mark.slow
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
