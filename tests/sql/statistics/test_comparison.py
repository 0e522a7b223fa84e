"""Comparing two studies: known changes are found, noise is not, and what cannot be compared is said."""

from __future__ import annotations

import json
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from flows.commands.results.compare import print_comparison
from pipeline.errors import InputError
from sql import results
from sql.statistics.comparison import compare, holm, paired_p
from tests.sql.by_hand import enter_scores
from tests.sql.empty import empty_file


@pytest.fixture
def paths(tmp_path):
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
    assert found.verdict.startswith("no accuracy of 8 changed beyond noise; of 0 factors none moved")
    assert (found.accuracies["p"] == 1).all()
    assert found.notes == []


@pytest.mark.parametrize(
    ("digests", "said"),
    [
        (("a", "a"), []),
        pytest.param(("a", "b"), ["of other documents"], marks=pytest.mark.slow),
        pytest.param(("a", None), ["of documents that may be others"], marks=pytest.mark.slow),
    ],
)
def test_held_out_losses_are_compared_and_other_documents_said(paths, digests, said):
    for path, digest, loss in zip(paths, digests, (2.0, 1.75), strict=True):
        study(path)
        with closing(results.connect(path)) as connection:
            runs = [run for (run,) in connection.execute("select run_id from runs").fetchall()]
            for run in runs:
                connection.execute(
                    "insert into evaluations (run_id, tokens, task, metric, filter, value, items) "
                    "values ($1, 10, 'validation', 'bits_per_byte', 'none', 3, 5), "
                    "($1, 20, 'validation', 'bits_per_byte', 'none', $2, 5)",
                    [run, loss],
                )
                if digest:
                    connection.execute(
                        "insert into evaluation_versions (run_id, tokens, task, data_version) "
                        "values (?, 20, 'validation', ?)",
                        [run, digest],
                    )
    found = compare(*paths)
    assert found.losses[["variant", "loss_first", "loss_second", "difference"]].to_numpy().tolist() == [
        ["DR", 2.0, 1.75, -0.25],
        ["LA", 2.0, 1.75, -0.25],
    ]
    assert len(found.notes) == len(said)
    assert all(words in note for words, note in zip(said, found.notes, strict=True))


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


@pytest.mark.slow
def test_models_without_a_depth_are_compared_too(paths):
    for path in paths:
        study(path)
        with results.connect(path) as connection:
            connection.execute("update models set depth = null")
    found = compare(*paths)
    assert (len(found.accuracies), found.notes) == (8, [])


@pytest.mark.slow
def test_models_with_and_without_a_depth_are_compared_side_by_side(paths):
    for path in paths:
        study(path)
        study(path, seed=1)
        with results.connect(path) as connection:
            connection.execute(
                "insert into models select * replace ('none' as model_id, null as depth) from models "
                "where model_id = 'LA'"
            )
            connection.execute("update runs set model_id = 'none' where run_id like '%-1'")
    found = compare(*paths)
    assert (len(found.accuracies), found.notes) == (12, [])
    assert found.accuracies["depth"].isna().sum() == 4


@pytest.mark.slow
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
    assert found.verdict.endswith("of 2 factors 1 moved beyond their intervals")


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


@pytest.mark.slow
def test_nothing_in_common_is_said(paths):
    study(paths[0])
    study(paths[1], item_ids=[f"other/{n}" for n in range(400)])
    with pytest.raises(InputError, match="nothing to compare: left out: DR of depth 4 on t: no item") as error:
        compare(*paths)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_model_of_one_study_only_is_a_note(paths):
    study(paths[0])
    enter_scores(paths[1], {"LA": {task: {10: scores(0.2), 20: scores(0.5)} for task in "tu"}})
    assert compare(*paths).notes == ["left out: DR of depth 4: not in the second study"]


def asked(path, task, digest, *, by="plain items", config=None, **limits):
    """Says how a task was asked, and what the study's configuration is: limit, world, benchmarks."""
    row = {"run_id": "s-LA-0", "tokens": 20, "task": task, "data_version": digest, "harness_version": by}
    tables = {"evaluation_versions": pa.Table.from_pylist([row])}
    if limits:
        evaluation = {"limit": limits["limit"], "benchmarks": limits.get("benchmarks", ["builtin"])}
        said = {"study": {"evaluation": evaluation, "data": {"world": limits.get("world", {"seed": 0})}}}
        tables["studies"] = pa.Table.from_pylist([{"study_id": "s", "config": json.dumps(said)}])
    results.ingest(path, tables)


def halved(path, *, better=0):
    """As `study`, with the first half of the items of `u` only."""
    curves = {10: scores(0.2), 20: scores(0.5)}
    half = {tokens: right[:200].copy() for tokens, right in curves.items()}
    dr = half | {20: half[20].copy()}
    dr[20][np.flatnonzero(~dr[20])[:better]] = True
    enter_scores(path, {"LA": {"t": curves, "u": half}, "DR": {"t": curves, "u": dr}})


@pytest.mark.slow
def test_another_limit_is_compared_on_what_both_asked(paths):
    study(paths[0])
    halved(paths[1], better=40)
    for path, digest, limit in zip(paths, ("a", "b"), (None, 200), strict=True):
        asked(path, "u", digest, limit=limit)
    found = compare(*paths)
    assert found.notes == [
        "in part: u: 400 items in the first study, 200 in the second (limits: none and 200); "
        "accuracies on the items of the same name, factors on all of each"
    ]
    rows = found.accuracies.query("task == 'u' and variant == 'DR'")
    assert rows["items"].tolist() == rows["items_second"].tolist() == [200, 200]
    assert rows["items_first"].tolist() == [400, 400]
    assert rows["difference"].tolist() == pytest.approx([0.2, 0.2])
    assert found.accuracies[found.accuracies["changed"]]["task"].unique().tolist() == ["u"]


WHY_NOT = {
    "other words": ({}, {"by": "lm-eval 0.4.9"}, "asked by plain items in the first study, by lm-eval in the second"),
    "no configuration": ({}, {}, "400 items in the first study, 200 in the second, and no configuration that says"),
    "one limit": (
        {"limit": 9},
        {"limit": 9},
        "400 items in the first study, 200 in the second, which no limit explains",
    ),
    "another world": (
        *({"limit": None, "world": {"seed": 0}}, {"limit": 200, "world": {"seed": 1}}),
        "400 items in the first study, 200 in the second, and other settings of the data",
    ),
    "another benchmark": (
        *(
            {"limit": None, "benchmarks": [{"name": "u"}]},
            {"limit": 200, "benchmarks": [{"name": "u", "dataset": "x"}]},
        ),
        "400 items in the first study, 200 in the second, and other settings of the data",
    ),
}


@pytest.mark.parametrize(
    "why", [why if why == "other words" else pytest.param(why, marks=pytest.mark.slow) for why in WHY_NOT]
)
def test_other_items_are_left_out_and_why_is_said(paths, why):
    study(paths[0])
    halved(paths[1], better=40)
    *options, reason = WHY_NOT[why]
    for path, digest, option in zip(paths, ("a", "b"), options, strict=True):
        asked(path, "u", digest, **option)
    found = compare(*paths)
    assert len(found.notes) == 2
    assert found.notes[0].startswith(f"left out: u: {reason}")
    assert found.notes[1] == "left out: average: u in it cannot be compared"
    assert set(found.accuracies["task"]) == {"t"}
    assert set(found.factors["task"]) == {"t"}


@pytest.mark.slow
def test_as_many_other_items_are_not_the_same(paths):
    for path, digest in zip(paths, ("a", "b"), strict=True):
        study(path)
        asked(path, "u", digest, limit=400)
    note, _ = compare(*paths).notes
    assert note == "left out: u: 400 items in both studies, but not the same ones or not in the same words"


@pytest.mark.slow
def test_a_newer_harness_that_asks_the_same_is_no_difference(paths):
    for path, version in zip(paths, ("0.4.8", "0.4.9"), strict=True):
        study(path)
        asked(path, "u", "a", by=f"lm-eval {version}")
    assert compare(*paths).notes == []


def test_raw_weights_beside_averaged_ones_are_said(paths):
    for path, weights in zip(paths, ("raw", "averaged"), strict=True):
        study(path)
        row = {"run_id": "s-LA-0", "tokens": 20, "task": "t", "weights": weights}
        results.ingest(path, {"evaluation_versions": pa.Table.from_pylist([row])})
    (note,) = compare(*paths).notes
    assert note == (
        "beware: evaluated were raw weights in the first study, averaged weights in the second study; "
        "averaged weights are better at equal tokens"
    )


@pytest.mark.slow
def test_an_average_of_other_tasks_is_left_out_and_said(paths):
    study(paths[0])
    curves = {10: scores(0.2), 20: scores(0.5)}
    enter_scores(paths[1], {variant: dict.fromkeys("tuv", curves) for variant in ("LA", "DR")})
    found = compare(*paths)
    assert found.notes == [
        "left out: v: not in the first study",
        "left out: average: it is over t, u in the first study and over t, u, v in the second study",
    ]
    assert set(found.factors["task"]) == {"t", "u"}


@pytest.mark.slow
def test_an_average_that_a_study_does_not_have_is_said(paths):
    study(paths[0])
    curves = {10: scores(0.2), 20: scores(0.5)}
    enter_scores(paths[1], {"LA": {"t": curves, "u": curves}, "DR": {"t": curves}})  # DR has no checkpoint with both
    assert compare(*paths).notes == [
        "left out: DR of depth 4 on u: not in the second study",
        "left out: average: no factor on it in the second study, where no checkpoint of LA and another model has all "
        "of its tasks (t, u)",
    ]


def test_the_printed_page_has_the_verdict_on_top(paths, capsys):
    study(paths[0])
    study(paths[1], better=40)
    print_comparison(paths[0], paths[1])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0].startswith("2 of 8 accuracies changed beyond noise, most DR of depth 4 on t")
    assert lines[-1].startswith("Noise of accuracies here is that of the items")


@pytest.mark.slow
def test_the_printed_page_says_what_is_left_out(paths, capsys):
    study(paths[0])
    halved(paths[1])
    for path, digest in zip(paths, ("a", "b"), strict=True):
        asked(path, "u", digest)
    print_comparison(*paths)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("left out: ")]
    assert said == [
        "left out: u: 400 items in the first study, 200 in the second, and no configuration that says whether of the "
        "same data",
        "left out: average: u in it cannot be compared",
    ]


@settings(max_examples=30)
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
