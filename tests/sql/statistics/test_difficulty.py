"""The answer by difficulty: groups of items, equal models, and what is stored."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.intervals.difficulty import study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.results import connect, query
from dreamer_study.sql.statistics.compute import compute_statistics
from dreamer_study.sql.statistics.difficulty import compute_difficulty, group_items
from dreamer_study.sql.statistics.learning_times import LearningTimes
from tests.sql.learning import enter_models


def computed(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    with closing(connect(path)) as connection:
        compute_statistics(connection, "s", replicates=50)
        return compute_difficulty(connection, "s", replicates=50)


def test_groups_are_thirds_in_the_order_of_times_and_then_of_right_answers() -> None:
    estimate = np.array([3.0, 1.0, 9.0, 9.0, 2.0, 9.0])
    times = LearningTimes(estimate, estimate, estimate, 0.0, 5.0)
    share = np.array([0.5, 0.9, 0.1, 0.3, 0.8, 0.2])
    assert group_items(times, share).tolist() == [1, 0, 2, 1, 0, 2]


@pytest.mark.parametrize(("items", "sizes"), [(0, [0, 0, 0]), (1, [1, 0, 0]), (7, [3, 2, 2])])
def test_groups_of_any_number_of_items_differ_by_one_at_most(items: int, sizes: list[int]) -> None:
    values = np.arange(items, dtype=float)
    groups = group_items(LearningTimes(values, values, values, 0.0, 1.0), values)
    assert np.bincount(groups, minlength=3).tolist() == sizes


@pytest.mark.slow
def test_a_gain_on_hard_items_alone_is_found_there(tmp_path: Path) -> None:
    path = enter_models(tmp_path / "r.duckdb", {"LA": (1, 1, 1), "DR": (1, 1, 0.6)}, seeds=6)
    times, ratios = computed(path)
    found = ratios[ratios["task"] == "t"].set_index("difficulty")
    assert found.loc["easy", "low"] < 1 < found.loc["easy", "high"]
    assert found.loc["hard", "high"] < 0.85
    assert found["items"].tolist() == [30, 30, 30]
    learned = times[(times["variant"] == "LA") & (times["state"] == "learned")]
    true = pd.Series(np.geomspace(1.5e5, 9e5, 90), index=[f"t/{n}" for n in range(90)])
    off = np.log(learned["tokens"].to_numpy() / true[learned["item_id"]].to_numpy())
    assert abs(np.median(off)) < 0.1


@pytest.mark.slow
def test_what_is_stored_is_what_is_returned_and_is_made_again(tmp_path: Path) -> None:
    path = enter_models(tmp_path / "r.duckdb", {"LA": (1, 1, 1), "DR": (1.4, 1.4, 1.4)})
    computed(path)
    times, ratios = computed(path)
    assert len(query(path, "from learning_times")) == len(times) == 2 * 90
    assert len(query(path, "from ratios_by_difficulty")) == len(ratios) == 2 * 3  # and the average
    assert (ratios["seeds"] == 3).all()
    states = times.set_index("state")["tokens"]
    assert states.get("learned", pd.Series(dtype=float)).notna().all()
    assert states.drop("learned", errors="ignore").isna().all()


@pytest.mark.slow
def test_a_study_without_answers_to_items_is_refused(tmp_path: Path) -> None:
    path = enter_models(tmp_path / "r.duckdb", {"LA": (1, 1, 1), "DR": (1, 1, 1)})
    with closing(connect(path)) as connection:
        connection.execute("delete from items")
        with pytest.raises(InputError, match="no answers to single items"):
            compute_difficulty(connection, "s")


@pytest.mark.slow
def test_one_seed_has_times_and_ratios_without_intervals(tmp_path: Path) -> None:
    path = enter_models(tmp_path / "r.duckdb", {"LA": (1, 1, 1), "DR": (2, 2, 2)}, seeds=1)
    times, ratios = computed(path)
    assert len(times) == 2 * 90
    has_ratio = ratios["ratio"].notna()
    assert has_ratio.any()
    assert ratios.loc[has_ratio, ["low", "high"]].isna().all(axis=None)


def share_that_holds_one(studies: int, seed: int) -> pd.Series:
    random = np.random.default_rng(seed)
    counted = pd.DataFrame([row for _ in range(studies) for row in study(random)])
    return counted.groupby("way")["holds"].mean()


@pytest.mark.slow
def test_intervals_of_equal_models_hold_one() -> None:
    shares = share_that_holds_one(40, seed=11)
    assert shares["all runs"] > 0.9


@pytest.mark.slow
def test_of_500_studies_of_equal_models_most_hold_one_and_groups_by_one_model_fail() -> None:
    shares = share_that_holds_one(500, seed=12)
    assert 0.93 <= shares["all runs"] <= 0.97
    assert shares["baseline alone"] < 0.9


@pytest.mark.slow
def test_equal_models_of_unequal_seeds_have_no_bias() -> None:
    random = np.random.default_rng(13)
    counted = pd.DataFrame([row for _ in range(40) for row in study(random)])
    means = counted[counted["way"] == "all runs"].groupby("difficulty")["log_ratio"].mean()
    assert (means.abs() < math.log(1.1)).all()
