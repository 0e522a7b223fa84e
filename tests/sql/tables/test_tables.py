"""Tables refuse what must not be, and checks find what is."""

from __future__ import annotations

import duckdb
import pytest

from tests.sql.by_hand import put

MODEL = "study_id, depth, variant, task"
AGREED = {
    "studies": "study_id, name, config, code_version, created_at, baseline",
    "curation": "study_id, source, stage, reason, documents, characters, tokens",
    "models": "study_id, model_id, variant, depth, parameters, flops_per_token, memory_bytes, config, place",
    "runs": "run_id, study_id, model_id, seed, status, tokens, seconds, device, tokens_per_second, mfu, stream_hash, "
    "learning_rate",
    "steps": "run_id, step, tokens, loss, learning_rate, gradient_norm, seconds",
    "evaluations": "run_id, tokens, task, metric, filter, value, stderr, items, chance, task_version",
    "items": "run_id, tokens, task, metric, filter, item_id, value",
    "depth_attention": "run_id, tokens, query_depth, key_depth, score",
    "expert_usage": "run_id, tokens, depth, expert, selections",
    "data_efficiency": f"{MODEL}, baseline_accuracy, baseline_tokens, variant_tokens, factor, bound, near_chance",
    "token_ratios": "study_id, depth, variant, baseline, task, metric, score_low, score_high, ratio, low, high, "
    "factor, at_least, reached, significant, p_adjusted, depends_on, seeds, detectable, in_advance, near_chance, "
    "within_checkpoint, before_decay, decay_bound, one_task, cut_short, tuned, comparisons, outdated",
    "mean_factors": f"{MODEL}, metric, ratio, ratio_low, ratio_high, factor, low, high, range_low, range_high, seeds",
    "factor_by_target": f"{MODEL}, metric, target, baseline_tokens, variant_tokens, ratio, ratio_low, ratio_high, "
    "factor, low, high",
}
AGREED["data_efficiency_interpolated"] = AGREED["data_efficiency"]


@pytest.mark.parametrize("table", AGREED)
def test_tables_and_views_have_the_agreed_columns_in_the_agreed_order(sql, table):
    assert sql.table(table).columns == AGREED[table].split(", ")


@pytest.mark.slow
def test_a_study_entered_by_position_has_its_factors(sql):
    sql.execute("insert into studies values ('s', 'by hand', null, null, null, 'LA')")
    for variant, curve in (("LA", {10: 0.1, 20: 0.5}), ("DR", {10: 0.5, 20: 0.6})):
        sql.execute(
            "insert into models values ('s', $1, $1, 16, null, null, null, null, null)", [variant]
        )
        nothing = ", ".join(["null"] * 9)
        sql.execute(f"insert into runs values ($1, 's', $1, {nothing})", [variant])
        for tokens, value in curve.items():
            row = [variant, tokens, value]
            sql.execute(
                "insert into evaluations values (?, ?, 't', 'acc', 'none', ?, null, null, null, null)",
                row,
            )
    found = sql.execute(
        "select factor, bound from data_efficiency where variant = 'DR' and task = 't'"
    ).fetchall()
    assert found == [(2.0, "at least")]
    mean = sql.execute("select variant, low from mean_factors where task = 't'").fetchall()
    # nothing was computed: rows without an interval, never no rows
    assert mean == [("LA", None), ("DR", None)]


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("evaluations", {"run_id": "r", "tokens": 10, "task": "t", "metric": "acc"}),
        ("checkpoints", {"run_id": "r", "tokens": 10}),
        ("evaluation_versions", {"run_id": "r", "tokens": 10, "task": "t"}),
        (
            "depth_evaluations",
            {"run_id": "r", "tokens": 10, "depth": 4, "task": "t", "metric": "acc"},
        ),
        ("raw_evaluations", {"run_id": "r", "tokens": 10, "task": "t", "metric": "acc"}),
        ("runs", {"study_id": "s", "run_id": "r"}),
        ("steps", {"run_id": "r", "step": 1}),
    ],
)
def test_no_row_can_be_entered_twice_by_hand(sql, table, row):
    put(sql, table, [row])
    with pytest.raises(duckdb.ConstraintException):
        put(sql, table, [row])


def test_large_tables_name_what_was_entered_twice(sql):
    item = {"run_id": "r", "tokens": 10, "task": "t", "metric": "acc", "item_id": "t/0"}
    usage = {"run_id": "r", "tokens": 10, "depth": 1, "expert": 0, "selections": 5}
    score = {"run_id": "r", "tokens": 10, "query_depth": 2, "key_depth": 1, "score": 0.5}
    for table, row in (("items", item), ("expert_usage", usage), ("depth_attention", score)):
        put(sql, table, [row])
    assert sql.execute("from rows_entered_twice").fetchall() == []
    for table, row in (("items", item), ("expert_usage", usage)):
        put(sql, table, [row])
    assert sql.execute("from rows_entered_twice order by all").fetchall() == [
        ("expert_usage", "r", 10, "depth 1, expert 0", 2),
        ("items", "r", 10, "t, acc, none, t/0", 2),
    ]


def test_tokens_that_go_back_show_wherever_they_came_from(sql):
    put(
        sql,
        "steps",
        [{"run_id": "r", "step": n, "tokens": t} for n, t in ((1, 10), (2, 30), (3, 20), (4, 40))],
    )
    put(sql, "steps", [{"run_id": "good", "step": n, "tokens": 10 * n} for n in (1, 2)])
    assert sql.execute("from steps_going_back").fetchall() == [("r", 30, 20, 3)]


def test_runs_of_one_seed_that_saw_other_data_are_named(sql):
    for run, seed in (("la", 1), ("dr", 1), ("other", 2)):
        sql.execute(
            "insert into runs (run_id, study_id, model_id, seed) values ($1, 's', $1, $2)",
            [run, seed],
        )
    hashes = {"la": ("a", "b"), "dr": ("a", "c"), "other": ("x", "y")}
    for run, both in hashes.items():
        for tokens, seen in zip((10, 20), both, strict=True):
            put(sql, "checkpoints", [{"run_id": run, "tokens": tokens, "stream_hash": seen}])
    assert sql.execute("from stream_mismatches").fetchall() == [("s", 1, 20, 2, 2, "dr, la")]
    sql.execute("update checkpoints set stream_hash = 'b' where stream_hash = 'c'")
    assert sql.execute("from stream_mismatches").fetchall() == []
