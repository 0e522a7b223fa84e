"""The computed tables of a study: a row for each factor, the same numbers again, in place of earlier ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sql import results
from sql.statistics.compute import compute_statistics
from tests.sql.by_hand import enter, enter_scores
from tests.sql.empty import empty_file

TABLES = ("mean_factor_intervals", "factor_intervals", "loss_intervals")


@pytest.fixture
def path(tmp_path):
    path = empty_file(tmp_path / "results.duckdb")
    random = np.random.default_rng(0)
    for seed in range(2):
        curves = {
            variant: {task: {n * 100: random.random(50) < 0.1 * n + faster for n in range(1, 6)} for task in "tu"}
            for variant, faster in (("LA", 0.0), ("DR", 0.1))
        }
        enter_scores(path, curves, seed=seed)
    return path


def stored(connection):
    return [connection.execute(f"from {table} order by all").fetchall() for table in TABLES]


def test_computing_again_replaces_and_repeats(path):
    found = []
    for _ in range(2):
        with results.connect(path) as connection:
            frames = compute_statistics(connection, "s", replicates=20)
            found.append(stored(connection))
    assert found[0] == found[1]
    assert [len(frames[table]) for table in TABLES] == [len(rows) for rows in found[0]] == [2 * 3, 2 * 3 * 2, 0]


def test_a_reader_computes_without_storing(path):
    with results.connect(path, read_only=True) as connection:
        assert len(compute_statistics(connection, "s", replicates=5)["mean_factor_intervals"]) == 6
        assert stored(connection) == [[], [], []]


def test_every_row_of_mean_factors_has_an_interval(path):
    with results.connect(path) as connection:
        compute_statistics(connection, "s", replicates=20)
    rows = results.query(path, "from mean_factors")
    assert len(rows) == 6
    assert (rows["low"] <= rows["factor"]).all()
    assert (rows["factor"] <= rows["high"]).all()


def test_a_study_of_losses_alone_has_intervals(sql):
    for seed in range(2):
        for variant, change in (("LA", 0.0), ("DR", 0.1 + 0.01 * seed)):
            curve = {10 * 2**n: 2 - 0.1 * n - change for n in range(5)}
            enter(sql, {variant: {"validation": curve}}, metric="bits_per_byte", seed=seed)
    tables = compute_statistics(sql, "s", replicates=5)
    assert [len(tables[table]) for table in TABLES] == [2, 0, 4]
    assert sql.execute("select low < factor and factor < high from mean_factors where variant = 'DR'").fetchall() == [
        (True,)
    ]


def test_the_factor_of_a_loss_has_the_interval_of_its_mirrored_accuracy(path):
    with results.connect(path) as connection:
        for table in ("evaluations", "items"):
            connection.execute(
                f"insert into {table} by name "
                f"select * replace ('gold_bits_per_byte' as metric, 1 - value as value) from {table}"
            )
        frames = compute_statistics(connection, "s", replicates=50)
    accuracy, loss = (frames[table].query("task == 't'") for table in ("factor_intervals", "loss_intervals"))
    shown = ["depth", "variant", "rule", "low", "high", "goal_first", "goal_last"]
    pd.testing.assert_frame_equal(accuracy[shown].reset_index(drop=True), loss[shown].reset_index(drop=True))
