"""All models of a depth are read at one grid of scores."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sql.by_hand import enter, put

pytestmark = pytest.mark.slow

# Straight in log tokens: LA has 0.1 more with every doubling, DR the same a doubling later; late
# begins where the others have ended, tiny never rises.
CURVES = {
    "LA": {10: 0.1, 20: 0.2, 40: 0.3, 80: 0.4},
    "DR": {20: 0.1, 40: 0.2, 80: 0.3},
    "late": {80: 0.3, 160: 0.2},
    "tiny": {10: 0.1, 80: 0.1},
}


def of_task(curves, task="t"):
    return {variant: {task: curve} for variant, curve in curves.items()}


def at_scores(sql, **where):
    rows = sql.execute("from tokens_at_scores where task <> 'average'").df()
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows


def test_every_model_has_one_number_at_every_score_of_one_grid(sql):
    enter(sql, of_task(CURVES))
    rows = at_scores(sql)
    assert len(rows) == 4 * 101
    assert not rows.duplicated(["variant", "step"]).any()
    grids = rows.pivot_table(index="step", columns="variant", values="score")
    assert (grids.nunique(axis=1) == 1).all()
    assert grids["LA"].to_numpy() == pytest.approx(np.linspace(0.1, 0.4, 101))
    first = rows[rows["step"] == 50].set_index("variant")
    assert first["score"].iloc[0] == pytest.approx(0.25)
    assert first["tokens"].drop("tiny").to_dict() == pytest.approx(
        {"LA": 20 * 2**0.5, "DR": 40 * 2**0.5, "late": 80}
    )


def test_what_was_never_reached_has_no_tokens_but_the_best_score(sql):
    enter(sql, of_task(CURVES))
    last = at_scores(sql, step=100).set_index("variant")
    assert last["tokens"].dropna().to_dict() == {"LA": 80}
    assert last["best"].to_dict() == {"LA": 0.4, "DR": 0.3, "late": 0.3, "tiny": 0.1}
    assert list(last.index) == ["LA", "DR", "late", "tiny"], "in the order of the study"


def test_what_the_first_checkpoint_has_took_at_most_its_tokens(sql):
    enter(sql, of_task(CURVES))
    easiest = at_scores(sql, step=0).set_index("variant")
    assert easiest["tokens"].to_dict() == {"LA": 10, "DR": 20, "late": 80, "tiny": 10}
    assert easiest["at_first"].all()
    above = at_scores(sql, step=60).set_index("variant")
    assert above["at_first"].to_dict() == {"LA": False, "DR": False, "late": True, "tiny": False}


def test_a_tie_up_to_rounding_is_reached(sql):
    rounded = 0.1 + 0.2  # a bit above 0.3
    enter(sql, of_task({"LA": {10: 0.1, 80: rounded}, "DR": {10: 0.1, 80: 0.3}}))
    last = at_scores(sql, step=100)
    assert rounded > 0.3
    assert last["tokens"].to_list() == pytest.approx([80, 80])


def test_scores_that_guessing_may_reach_are_left_out(sql):
    enter(sql, of_task({"LA": {10: 0.2, 80: 0.5}, "DR": {10: 0.3, 80: 0.4}}), chance=0.25)
    enter(sql, of_task({"LA": {10: 0.2, 80: 0.2}}, "hard"), chance=0.25, depth=8)
    rows = at_scores(sql)
    assert rows["score"].min() == 0.25
    assert set(rows["depth"]) == {4}, "nothing of a depth without more than guessing"


def test_depths_and_tasks_have_grids_of_their_own(sql):
    enter(sql, of_task(CURVES))
    enter(sql, of_task({"LA": {10: 0.1, 80: 0.9}}), depth=8)
    enter(sql, of_task({"LA": {10: 0.1, 80: 0.7}}), depth=None)
    best = at_scores(sql, step=100, variant="LA")
    assert dict(zip(best["depth"].fillna(-1), best["score"], strict=True)) == pytest.approx(
        {4: 0.4, 8: 0.9, -1: 0.7}
    )
    assert (best["tokens"] == 80).all()


def test_a_lower_loss_is_the_harder_one(sql):
    enter(sql, {"LA": {"validation": {}}, "DR": {"validation": {}}})
    losses = {"LA": {10: 4.0, 20: 3.0, 40: 2.0}, "DR": {10: 4.0, 40: 3.0}}
    rows = [
        {"tokens": tokens, "task": "validation", "metric": "bits_per_byte", "value": loss}
        | {"run_id": f"s-4-{variant}-None"}
        for variant, curve in losses.items()
        for tokens, loss in curve.items()
    ]
    put(sql, "evaluations", rows)
    ends = at_scores(sql, variant="DR", metric="loss").set_index("step")
    assert ends["score"].loc[[0, 50, 100]].to_list() == [4, 3, 2]
    assert ends["tokens"].loc[[0, 50]].to_list() == pytest.approx([10, 40])
    assert np.isnan(ends["tokens"].loc[100])
    assert ends["best"].unique().tolist() == [3]
