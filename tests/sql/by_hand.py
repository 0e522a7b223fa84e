"""Rows entered by plain SQL, as a user would, for the tests of the views."""

from __future__ import annotations

import pandas as pd


def enter(sql, curves, *, study="s", depth=4, metric="exact_match", items=None, chance=None, seed=None):
    """Enter curves {variant: {task: {tokens: accuracy}}}, one model and one run for each variant."""
    for variant, tasks in curves.items():
        run = f"{study}-{depth}-{variant}-{seed}"
        sql.execute(
            "insert or ignore into models values (?, ?, ?, ?, null, null, null, null)",
            [study, f"{variant}-{depth}", variant, depth],
        )
        sql.execute(
            "insert into runs (run_id, study_id, model_id, seed) values (?, ?, ?, ?)",
            [run, study, f"{variant}-{depth}", seed],
        )
        rows = [(run, t, task, metric, v, items, chance) for task, curve in tasks.items() for t, v in curve.items()]
        if rows:
            columns = "run_id, tokens, task, metric, value, items, chance"
            sql.executemany(f"insert into evaluations ({columns}) values (?, ?, ?, ?, ?, ?, ?)", rows)


def put(sql, table, rows):
    sql.register("rows", pd.DataFrame(rows))
    sql.execute(f"insert into {table} by name select * from rows")
    sql.unregister("rows")


def efficiency(sql, variant="DR", task="t", view="data_efficiency", depth=4, study="s"):
    """baseline_accuracy, baseline_tokens, variant_tokens, factor, bound of one row."""
    rows = sql.execute(
        f"select baseline_accuracy, baseline_tokens, variant_tokens, factor, bound from {view} "
        "where variant = ? and task = ? and study_id = ? and depth is not distinct from ?",
        [variant, task, study, depth],
    ).fetchall()
    assert len(rows) == 1
    return rows[0]


def pair(sql, baseline, variant, **options):
    enter(sql, {"LA": {"t": baseline}, "DR": {"t": variant}}, **options)
