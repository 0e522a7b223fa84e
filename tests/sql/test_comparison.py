"""Comparing two studies: known changes are found, noise is not, and what cannot be compared is said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from by_hand import enter_scores
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from flows.compare import print_comparison
from pipeline.errors import InputError
from sql import results
from sql.comparison import OTHER_ITEMS, compare, holm, paired_p


@pytest.fixture
def paths(tmp_path, empty_file):
    return empty_file(tmp_path / "first.duckdb"), empty_file(tmp_path / "second.duckdb")


def scores(level, items=400, seed=0):
    return np.random.default_rng(seed).permutation(np.arange(items) < level * items)


def study(path, *, better=0, **options):
    """LA and DR on two tasks; DR's last checkpoint on `t` has `better` items more than usual."""
    la = {task: {10: scores(0.2), 20: scores(0.5)} for task in "tu"}
    last = scores(0.5)
    last[np.flatnonzero(~last)[:better]] = True
    enter_scores(path, {"LA": la, "DR": la | {"t": {10: scores(0.2), 20: last}}}, **options)


def test_the_same_results_have_not_changed(paths):
    for path in paths:
        study(path)
    found = compare(*paths)
    assert found.verdict.startswith("no accuracy of 8 changed beyond noise; no factor of 0 moved")
    assert (found.accuracies["p"] == 1).all()
    assert found.notes == []


def test_a_change_is_found_where_it_is(paths):
    study(paths[0])
    study(paths[1], better=40)
    found = compare(*paths)
    changed = found.accuracies[found.accuracies["changed"]]
    assert set(zip(changed["variant"], changed["task"], strict=True)) == {("DR", "t")}
    assert changed["difference"].tolist() == pytest.approx([0.1, 0.1])
    assert changed["p"].tolist() == pytest.approx([2 * 0.5**40] * 2)
    assert (changed["low"] > 0.06).all()
    assert (changed["high"] < 0.14).all()
    assert "2 of 8 accuracies changed beyond noise, most DR of depth 4 on t" in found.verdict
    assert "0.500 to 0.600" in found.verdict


def test_correction_takes_all_tests_together(paths):
    study(paths[0])
    study(paths[1], better=6)  # p = 0.03 by itself
    found = compare(*paths)
    assert found.accuracies["p"].min() == pytest.approx(2 * 0.5**6)
    assert not found.accuracies["changed"].any()


def test_seeds_are_averaged_item_by_item(paths):
    for path, better in zip(paths, (0, 60), strict=True):
        for seed in (0, 1):
            study(path, better=better * (seed == 1), seed=seed)
    found = compare(*paths)
    row = found.accuracies.query("variant == 'DR' and task == 't' and checkpoint == 'final'").iloc[0]
    assert row["difference"] == pytest.approx(60 / 2 / 400)
    assert row["p"] < 0.001


def test_factors_are_compared_by_their_intervals(paths):
    for path, (low, high) in zip(paths, ((1.0, 1.5), (1.6, 2.0)), strict=True):
        study(path)
        with results.connect(path) as connection:
            columns = "study_id, depth, variant, task, rule, low, high"
            for variant, task, ends in (("DR", "t", (low, high)), ("DR", "u", (1, 2)), ("LA", "t", (low, high))):
                row = ["s", 4, variant, task, "first", *ends]
                connection.execute(f"insert into factor_intervals ({columns}) values (?, ?, ?, ?, ?, ?, ?)", row)
    found = compare(*paths)
    apart = found.factors[found.factors["apart"]]
    assert apart[["variant", "task", "rule"]].values.tolist() == [["DR", "t", "first"]]
    assert found.verdict.endswith("1 factor of 2 moved beyond its interval")


def test_two_studies_of_one_file(paths):
    study(paths[0])
    study(paths[0], study="later", better=40)
    found = compare(paths[0], paths[0], first_study="s", second_study="later")
    assert found.accuracies["changed"].sum() == 2
    with pytest.raises(InputError, match=r"which study.*it has the studies later, s"):
        compare(paths[0], paths[0])
    with pytest.raises(InputError, match="no study 'x'; it has the studies later, s"):
        compare(paths[0], paths[0], first_study="x", second_study="s")
    with pytest.raises(InputError, match="both sides are study 's'"):
        compare(paths[0], paths[0], first_study="s", second_study="s")


def test_nothing_in_common_is_said(paths):
    study(paths[0])
    study(paths[1], item_ids=[f"other/{n}" for n in range(400)])
    with pytest.raises(InputError, match="nothing to compare: DR of depth 4 on t: no item in common") as error:
        compare(*paths)
    assert "\n" not in str(error.value)


def test_a_model_of_one_study_only_and_other_data_are_notes(paths):
    study(paths[0])
    enter_scores(paths[1], {"LA": {task: {10: scores(0.2), 20: scores(0.5)} for task in "tu"}})
    for path, version in zip(paths, ("a", "b"), strict=True):
        row = {"run_id": "s-LA-0", "tokens": 20, "task": "u", "data_version": version}
        results.ingest(path, {"evaluation_versions": pa.Table.from_pylist([row])})
    found = compare(*paths)
    assert found.notes == [
        f"u: {OTHER_ITEMS}",
        "DR of depth 4 on t: not in the second study",
    ]
    assert set(found.accuracies["task"]) == {"t"}


def test_the_printed_page_has_the_verdict_on_top(paths, capsys):
    study(paths[0])
    study(paths[1], better=40)
    print_comparison(paths[0], paths[1])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0].startswith("2 of 8 accuracies changed beyond noise, most DR of depth 4 on t")
    assert lines[-1].startswith("Noise here is that of the items")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([-1, 0, 1]), max_size=12))
def test_signs_of_shares_agree_with_mcnemar(differences):
    exact = paired_p(np.array(differences, float), np.random.default_rng(0))
    better, worse = differences.count(1), differences.count(-1)
    assert exact == pytest.approx(binomtest(better, better + worse).pvalue if better + worse else 1)
    halves = paired_p(np.array(differences, float) / 2, np.random.default_rng(0))
    assert halves == pytest.approx(exact, abs=0.03)


def test_holm_is_the_textbooks():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])).tolist() == [1, 1]
