"""The views that must be without rows, on rows that users insert by plain SQL."""

from __future__ import annotations

from tests.sql.by_hand import put


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
    put(sql, "steps", [{"run_id": "r", "step": n, "tokens": t} for n, t in ((1, 10), (2, 30), (3, 20), (4, 40))])
    put(sql, "steps", [{"run_id": "good", "step": n, "tokens": 10 * n} for n in (1, 2)])
    assert sql.execute("from steps_going_back").fetchall() == [("r", 30, 20, 3)]


def test_runs_of_one_seed_that_saw_other_data_are_named(sql):
    for run, seed in (("la", 1), ("dr", 1), ("other", 2)):
        sql.execute("insert into runs (run_id, study_id, model_id, seed) values ($1, 's', $1, $2)", [run, seed])
    hashes = {"la": ("a", "b"), "dr": ("a", "c"), "other": ("x", "y")}
    for run, both in hashes.items():
        for tokens, seen in zip((10, 20), both, strict=True):
            put(sql, "checkpoints", [{"run_id": run, "tokens": tokens, "stream_hash": seen}])
    assert sql.execute("from stream_mismatches").fetchall() == [("s", 1, 20, 2, 2, "dr, la")]
    sql.execute("update checkpoints set stream_hash = 'b' where stream_hash = 'c'")
    assert sql.execute("from stream_mismatches").fetchall() == []
