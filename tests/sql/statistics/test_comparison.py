"""Comparing two studies: known changes are found, noise is not, and what cannot be compared is
said."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.tables.changes import changes
from dreamer_study.sql import results
from dreamer_study.sql.statistics.comparison import compare, welch
from dreamer_study.sql.statistics.compute import compute_statistics
from dreamer_study.sql.statistics.errors import holm
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


def study(path, *, better=0, seeds=(0, 1), **options):
    """LA and DR on two tasks; DR has `better` items more than LA at its last checkpoint on `t`."""
    la = {"t": CURVES, "u": CURVES}
    for seed in seeds:
        enter_scores(
            path, {"LA": la, "DR": la | {"t": improved(CURVES, better)}}, seed=seed, **options
        )


def asked(path, **columns):
    """Say with what a task was asked: columns of a row of evaluation_versions."""
    row = {"run_id": "s-LA-0", "tokens": 20, **columns}
    results.ingest(path, {"evaluation_versions": pa.Table.from_pylist([row])})


def noted(found):
    """What was left out or doubted, without the reasons and the ratios, which none computed."""
    notes = [note.split(": ")[:2] for note in found.notes]
    return [(kind, what) for kind, what in notes if not what.startswith("ratios of the")]


@pytest.mark.slow
def test_the_same_results_have_not_changed(paths):
    for path in paths:
        study(path)
    found = compare(*paths)
    assert len(found.accuracies) == 8
    assert not found.accuracies["changed"].any()
    assert (found.accuracies["p"] == 1).all()
    assert noted(found) == []


@pytest.mark.slow
def test_an_item_that_was_entered_twice_by_hand_counts_once(paths):
    for path in paths:
        study(path)
    wanted = compare(*paths).accuracies["items"].tolist()
    with results.connect(paths[1]) as connection:
        connection.execute(
            "insert into items select * from items where run_id = 's-LA-0' and item_id = 't/7'"
        )
    assert compare(*paths).accuracies["items"].tolist() == wanted


@pytest.mark.slow
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
            compute_statistics(connection, "s", replicates=0)
        asked(path, task="validation", data_version=digest)
    found = compare(*paths)
    assert ("validation" in set(found.ratios["task"])) == (notes == 0), (
        "of the same documents alone"
    )
    assert found.losses["variant"].tolist() == ["DR", "LA"]
    assert found.losses["difference"].tolist() == [-0.25, -0.25]
    assert len(noted(found)) == notes


@pytest.mark.slow
def test_a_change_is_found_where_it_is(paths):
    study(paths[0])
    study(paths[1], better=40)
    found = compare(*paths)
    changed = found.accuracies[found.accuracies["changed"]]
    assert set(zip(changed["variant"], changed["task"], strict=True)) == {("DR", "t")}
    assert changed["checkpoint"].tolist() == ["best", "final"]
    assert changed["difference"].tolist() == pytest.approx([0.1, 0.1])
    z = 0.1 / (0.1 * 0.9 / 399) ** 0.5  # a tenth of the items differ, the seeds do not
    assert changed["p"].tolist() == pytest.approx([2 * ndtr(-z)] * 2)
    assert (changed["low"] > 0.06).all()
    assert (changed["high"] < 0.14).all()
    assert "2 of 8 accuracies changed" in found.verdict


@pytest.mark.slow
def test_models_with_and_without_a_depth_are_compared_side_by_side(paths):
    for path in paths:
        study(path)
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
    study(paths[1], better=6)  # p = 0.01 by itself
    found = compare(*paths)
    assert 0.01 < found.accuracies["p"].min() < 0.02
    assert not found.accuracies["changed"].any()


@pytest.mark.slow
def test_seeds_are_averaged_item_by_item(paths):
    for path, better in zip(paths, (0, 60), strict=True):
        for seed in (0, 1):
            study(path, better=better * (seed == 1), seeds=[seed])
    found = compare(*paths)
    row = found.accuracies.query("variant == 'DR' and task == 't' and checkpoint == 'final'").iloc[
        0
    ]
    assert row["difference"] == pytest.approx(60 / 2 / 400)
    assert row["p"] > 0.3  # one seed of two is better: another two may not be


@pytest.mark.slow
def test_with_one_seed_on_either_side_there_is_no_test(paths):
    study(paths[0])
    study(paths[1], better=200, seeds=[0])
    found = compare(*paths)
    assert found.accuracies[["p", "adjusted_p", "low", "high"]].isna().all(axis=None)
    assert found.accuracies["difference"].abs().max() == 0.5
    assert not found.accuracies["changed"].any()
    assert found.verdict.startswith("no test of 8 accuracies, as either side has one seed")
    assert "no test" in str(changes(found)[0])


def studies(seeds, items=400, models=3, tasks=2):
    """The scores [I, N] of a study on each place: seeds lie apart by 0.04, items are as hard in
    every study."""
    fate = np.random.default_rng(5).standard_normal((models, tasks, items, 1))
    random = np.random.default_rng(seeds)
    for place in np.ndindex(models, tasks):
        levels = 0.1 * random.standard_normal(len(seeds))
        yield (fate[place] + random.standard_normal((items, len(seeds))) < levels).astype(float)


def test_studies_that_differ_by_seeds_alone_have_not_changed():
    # 12 comparisons of five seeds with five others: one in twenty may have any change.
    changed, by_items = 0, 0
    for number in range(12):
        sides = [
            list(studies(range(1000 * side + 10 * number, 1000 * side + 10 * number + 5)))
            for side in (1, 2)
        ]
        found = [welch(first, second) for first, second in zip(*sides, strict=True)]
        changed += bool((holm(np.array([one["p"] for one in found])) < 0.05).any())
        errors = [(b.mean(axis=1) - a.mean(axis=1)).std() / 20 for a, b in zip(*sides, strict=True)]
        alone = [
            2 * ndtr(-abs(one["difference"]) / error)
            for one, error in zip(found, errors, strict=True)
        ]
        by_items += bool((holm(np.array(alone)) < 0.05).any())
    assert changed <= 1
    assert by_items >= 4  # what items alone would call a change


@pytest.mark.slow
@given(st.integers(3, 6), st.integers(3, 6), st.integers(0, 99))
def test_the_test_is_the_same_the_other_way_round_and_finds_what_is_large(one, other, seed):
    random = np.random.default_rng(seed)
    first, second = ((random.random((200, seeds)) < 0.3).astype(float) for seeds in (one, other))
    there, back = welch(first, second), welch(second, first)
    assert there["p"] == pytest.approx(back["p"])
    assert (there["low"], there["high"]) == pytest.approx((-back["high"], -back["low"]))
    assert welch(first, 1 - second)["p"] < 0.05
    assert welch(first, first)["p"] == 1


@pytest.mark.slow
def test_ratios_are_compared_by_their_intervals_once_they_are_computed(paths):
    # DR is as good as LA, at 16 or at 10 of LA's 20 tokens
    for path, tokens in zip(paths, (16, 10), strict=True):
        dr = {5: CURVES[10], tokens: CURVES[20]}
        for seed in (0, 1):
            enter_scores(
                path, {"LA": {"t": CURVES, "u": CURVES}, "DR": {"t": dr, "u": dr}}, seed=seed
            )
    before = compare(*paths)
    assert [note.split(":")[1] for note in before.notes] == [
        " ratios of the first study",
        " ratios of the second study",
    ]
    assert not before.ratios["apart"].any()
    for path in paths:
        with results.connect(path) as connection:
            compute_statistics(connection, "s", replicates=20)
    found = compare(*paths)
    assert found.notes == []
    apart = found.ratios[found.ratios["apart"]]
    assert set(apart["rule"]) == {"top accuracy"}
    assert set(apart["task"]) == {"t", "u", "average"}
    assert (apart["ratio_second"] < apart["ratio_first"]).all()


@pytest.mark.slow
def test_ratios_against_other_baselines_are_not_compared(paths):
    for path, baseline in zip(paths, ("LA", "DR"), strict=True):
        row = {"study_id": "s", "name": "s", "baseline": baseline}
        results.ingest(path, {"studies": pa.Table.from_pylist([row])})
        study(path)
    found = compare(*paths)
    assert found.ratios.empty
    assert "left out: ratios, whose baselines are LA and DR" in found.notes


@pytest.mark.slow
def test_where_a_variant_never_rises_its_bounds_are_compared(paths):
    for path in paths:
        for seed in (0, 1):  # DR never rises to LA's first score
            low = {10: scores(0.05), 20: scores(0.1)}
            enter_scores(path, {"LA": {"t": CURVES}, "DR": {"t": low}}, seed=seed)
        with results.connect(path) as connection:
            compute_statistics(connection, "s", replicates=20)
    ratios = compare(*paths).ratios.set_index("rule").loc["top accuracy"]
    assert set(ratios["bound_first"]) == {"at least"}
    with results.connect(paths[0], read_only=True) as connection:
        bound = connection.execute("select low from token_ratios where task = 't'").fetchone()
    assert ratios[ratios["task"] == "t"]["ratio_first"].item() == bound[0]
    assert not ratios["apart"].any()


@pytest.mark.slow
def test_two_studies_of_one_file(paths):
    path, _ = paths
    study(path)
    study(path, study="later", better=40)
    assert (
        compare(path, path, first_study="s", second_study="later").accuracies["changed"].sum() == 2
    )
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
    with pytest.raises(
        InputError, match="nothing to compare: left out: DR of depth 4 on t: no item"
    ) as error:
        compare(*paths)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_model_of_one_study_only_is_a_note(paths):
    study(paths[0])
    enter_scores(paths[1], {"LA": {"t": CURVES, "u": CURVES}})
    assert noted(compare(*paths)) == [("left out", "DR of depth 4")]


LEFT_OUT = [("left out", "u"), ("left out", "average")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("digests", "harnesses", "notes", "reason"),
    [
        pytest.param(
            "ab",
            ("plain items", "lm-eval 0.4.9"),
            LEFT_OUT,
            "asked by plain items",
            id="in other words",
        ),
        pytest.param(
            "ab",
            ("lm-eval 0.4.9",) * 2,
            LEFT_OUT,
            "the items or their words differ",
            id="as many other items",
        ),
        pytest.param(
            "aa", ("lm-eval 0.4.8", "lm-eval 0.4.9"), [], "", id="the same items of a newer harness"
        ),
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
    assert set(found.ratios["task"]) == ({"t"} if notes else {"t", "u", "average"})


@pytest.mark.slow
def test_raw_weights_beside_averaged_ones_are_said(paths):
    for path, weights in zip(paths, ("raw", "averaged"), strict=True):
        study(path)
        asked(path, task="t", weights=weights)
    found = compare(*paths)
    assert [kind for kind, _ in noted(found)] == ["beware"]
    assert "raw weights in the first study, averaged weights in the second study" in found.notes[0]


@pytest.mark.slow
def test_an_average_of_other_tasks_is_left_out_and_said(paths):
    study(paths[0])
    enter_scores(paths[1], {variant: dict.fromkeys("tuv", CURVES) for variant in ("LA", "DR")})
    found = compare(*paths)
    assert noted(found) == [("left out", "v"), ("left out", "average")]
    assert set(found.ratios["task"]) == {"t", "u"}


def test_holm_is_the_textbooks():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )
    assert holm(np.array([0.9, 0.8])).tolist() == [1, 1]
