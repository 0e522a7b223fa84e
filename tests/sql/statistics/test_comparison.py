"""Comparing two studies: known changes are found, noise is not, and what cannot be compared is said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from pipeline.errors import InputError
from sql import results
from sql.statistics.comparison import compare, holm, paired_p
from sql.statistics.compute import compute_statistics
from tests.sql.by_hand import enter_scores, put
from tests.sql.empty import empty_file


@pytest.fixture
def paths(tmp_path):
    return empty_file(tmp_path / "first.duckdb"), empty_file(tmp_path / "second.duckdb")


def scores(level, items=400):
    return np.random.default_rng(0).permutation(np.arange(items) < level * items)


CURVES = {10: scores(0.2), 20: scores(0.5)}


def improved(curve, better):
    """The curve with so many items more right at its last checkpoint."""
    last = curve[20].copy()
    last[np.flatnonzero(~last)[:better]] = True
    return curve | {20: last}


def study(path, *, better=0, **options):
    """LA and DR on two tasks; DR has `better` items more than LA at its last checkpoint on `t`."""
    la = {"t": CURVES, "u": CURVES}
    enter_scores(path, {"LA": la, "DR": la | {"t": improved(CURVES, better)}}, **options)


def asked(path, **columns):
    """Say with what a task was asked: columns of a row of evaluation_versions."""
    row = {"run_id": "s-LA-0", "tokens": 20, **columns}
    results.ingest(path, {"evaluation_versions": pa.Table.from_pylist([row])})


def noted(found):
    """What was left out or doubted, without the reasons and the mean factors, which none computed."""
    notes = [note.split(": ")[:2] for note in found.notes]
    return [(kind, what) for kind, what in notes if not what.startswith("mean factors")]


def test_the_same_results_have_not_changed(paths):
    for path in paths:
        study(path)
    found = compare(*paths)
    assert len(found.accuracies) == 8
    assert not found.accuracies["changed"].any()
    assert (found.accuracies["p"] == 1).all()
    assert noted(found) == []


@pytest.mark.parametrize(("digests", "notes"), [(("a", "a"), 0), (("a", "b"), 1), (("a", None), 1)])
def test_held_out_losses_are_compared_and_other_documents_said(paths, digests, notes):
    for path, digest, last in zip(paths, digests, (2.0, 1.75), strict=True):
        study(path)
        with results.connect(path) as connection:
            place = {"task": "validation", "metric": "bits_per_byte", "filter": "none", "items": 5}
            values = [
                place | {"run_id": f"s-{variant}-0", "tokens": tokens, "value": value}
                for variant in ("LA", "DR")
                for tokens, value in ((10, 3.0), (20, last))
            ]
            put(connection, "evaluations", values)
        asked(path, task="validation", data_version=digest)
    found = compare(*paths)
    assert found.losses["variant"].tolist() == ["DR", "LA"]
    assert found.losses["difference"].tolist() == [-0.25, -0.25]
    assert len(noted(found)) == notes


def test_a_change_is_found_where_it_is(paths):
    study(paths[0])
    study(paths[1], better=40)
    found = compare(*paths)
    changed = found.accuracies[found.accuracies["changed"]]
    assert set(zip(changed["variant"], changed["task"], strict=True)) == {("DR", "t")}
    assert changed["checkpoint"].tolist() == ["best", "final"]
    assert changed["difference"].tolist() == pytest.approx([0.1, 0.1])
    assert changed["p"].tolist() == pytest.approx([2 * 0.5**40] * 2)
    assert (changed["low"] > 0.06).all()
    assert (changed["high"] < 0.14).all()
    assert "2 of 8 accuracies changed" in found.verdict


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
    assert (len(found.accuracies), noted(found)) == (12, [])
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


@pytest.mark.slow
def test_mean_factors_are_compared_by_their_intervals_once_they_are_computed(paths):
    for path, tokens in zip(paths, (16, 10), strict=True):  # DR is as good as LA, at 16 or at 10 of LA's 20 tokens
        dr = {5: CURVES[10], tokens: CURVES[20]}
        for seed in (0, 1):
            enter_scores(path, {"LA": {"t": CURVES, "u": CURVES}, "DR": {"t": dr, "u": dr}}, seed=seed)
    before = compare(*paths)
    assert [note.split(":")[1] for note in before.notes] == [
        " mean factors of the first study",
        " mean factors of the second study",
    ]
    assert not before.factors["apart"].any()
    for path in paths:
        with results.connect(path) as connection:
            compute_statistics(connection, "s", replicates=20)
    found = compare(*paths)
    assert found.notes == []
    apart = found.factors[found.factors["apart"]]
    assert set(apart["rule"]) == {"mean accuracy"}
    assert set(apart["task"]) == {"t", "u", "average"}
    assert (apart["factor_second"] > apart["factor_first"]).all()


def test_two_studies_of_one_file(paths):
    path, _ = paths
    study(path)
    study(path, study="later", better=40)
    assert compare(path, path, first_study="s", second_study="later").accuracies["changed"].sum() == 2
    for first, second, said in (
        (None, None, r"which study.*it has the studies later, s"),
        ("x", "s", "no study 'x'; it has the studies later, s"),
        ("s", "s", "both sides are study 's'"),
    ):
        with pytest.raises(InputError, match=said):
            compare(path, path, first_study=first, second_study=second)


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
    enter_scores(paths[1], {"LA": {"t": CURVES, "u": CURVES}})
    assert noted(compare(*paths)) == [("left out", "DR of depth 4")]


LEFT_OUT = [("left out", "u"), ("left out", "average")]


@pytest.mark.parametrize(
    ("digests", "harnesses", "notes", "reason"),
    [
        pytest.param("ab", ("plain items", "lm-eval 0.4.9"), LEFT_OUT, "asked by plain items", id="in other words"),
        pytest.param("ab", ("lm-eval 0.4.9",) * 2, LEFT_OUT, "but not the same ones", id="as many other items"),
        pytest.param("aa", ("lm-eval 0.4.8", "lm-eval 0.4.9"), [], "", id="the same items of a newer harness"),
    ],
)
def test_other_items_are_left_out_and_why_is_said(paths, digests, harnesses, notes, reason):
    for path, digest, harness in zip(paths, digests, harnesses, strict=True):
        study(path)
        asked(path, task="u", data_version=digest, harness_version=harness)
    found = compare(*paths)
    assert noted(found) == notes
    assert reason in "".join(found.notes)
    assert ("u" in set(found.accuracies["task"])) == (not notes)
    assert set(found.factors["task"]) == ({"t"} if notes else {"t", "u", "average"})


def test_raw_weights_beside_averaged_ones_are_said(paths):
    for path, weights in zip(paths, ("raw", "averaged"), strict=True):
        study(path)
        asked(path, task="t", weights=weights)
    found = compare(*paths)
    assert [kind for kind, _ in noted(found)] == ["beware"]
    assert "raw weights in the first study, averaged weights in the second study" in found.notes[0]


@pytest.mark.slow
def test_an_average_of_other_tasks_or_without_a_checkpoint_is_left_out_and_said(paths):
    study(paths[0])
    enter_scores(paths[1], {variant: dict.fromkeys("tuv", CURVES) for variant in ("LA", "DR")})
    found = compare(*paths)
    assert noted(found) == [("left out", "v"), ("left out", "average")]
    assert set(found.factors["task"]) == {"t", "u"}
    empty_file(paths[1])
    enter_scores(paths[1], {"LA": {"t": CURVES, "u": CURVES}, "DR": {"t": CURVES}})  # DR has no checkpoint with both
    assert noted(compare(*paths)) == [("left out", "DR of depth 4 on u"), ("left out", "average")]


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
