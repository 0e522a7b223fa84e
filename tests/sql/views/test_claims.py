"""Studies share runs: a study sees of them what it claims, and results that claim nothing are seen whole."""

from __future__ import annotations

import pytest

from reports.data import QUERIES
from tests.sql.by_hand import enter, put

OF_TASKS = ("study_evaluations", "token_accuracy", "raw_accuracy", "depth_accuracy")
OF_RUNS = ("training_curves", "expert_gini")
RUN = {"run_id": "s-4-DR-None"}


@pytest.fixture
def shared(sql):
    """A run of 40 tokens and of tasks t and late, which studies s and long have; s wants 20 tokens of task t."""
    tasks = {"t": {10: 0.1, 20: 0.2, 40: 0.4}, "late": {10: 0.3, 20: 0.3, 40: 0.5}}
    enter(sql, {"DR": tasks})
    place = {**RUN, "metric": "exact_match", "filter": "none"}
    sql.execute("update runs set tokens = 20")
    sql.execute("insert into models select * replace ('long' as study_id) from models")
    sql.execute("insert into runs by name select * replace ('long' as study_id, 40 as tokens) from runs")
    rows = [{**place, "task": task, "tokens": at, "value": 0.1} for task, curve in tasks.items() for at in curve]
    put(sql, "raw_evaluations", rows)
    put(sql, "depth_evaluations", [{**row, "depth": 2} for row in rows])
    put(sql, "steps", [{**RUN, "step": n, "tokens": 10 * n, "loss": 1.0} for n in (1, 2, 3, 4)])
    put(sql, "depth_attention", [{**RUN, "tokens": at, "query_depth": 1, "key_depth": 0} for at in (10, 20, 40)])
    put(sql, "checkpoints", [{**RUN, "tokens": at, "step": at // 10} for at in (10, 20, 40)])
    versions = [{key: row[key] for key in ("run_id", "tokens", "task")} for row in rows]
    put(sql, "evaluation_versions", [{**row, "code_version": row["task"]} for row in versions])
    put(sql, "expert_usage", [{**RUN, "tokens": at, "depth": 1, "expert": 0, "selections": 5} for at in (10, 20, 40)])
    return sql


def seen(sql, study):
    """Which tasks the views show of a study, where they have tasks, and up to how many tokens."""
    most, own = "max(tokens) from {} where study_id = ?", "list(distinct task order by task) filter (task <> 'average')"
    asked = [(view, f"select {own}, {most}") for view in OF_TASKS] + [(view, f"select {most}") for view in OF_RUNS]
    return [sql.execute(query.format(view), [study]).fetchall()[0] for view, query in asked]


def test_results_without_claims_are_seen_whole(shared):
    everything = [(["late", "t"], 40)] * len(OF_TASKS) + [(40,)] * len(OF_RUNS)
    assert seen(shared, "s") == seen(shared, "long") == everything


def test_a_study_sees_nothing_of_its_runs_that_was_made_for_another(shared):
    whole = seen(shared, "long")
    put(shared, "claims", [{**RUN, "study_id": "s", "tokens": at, "task": "t"} for at in (10, 20)])
    assert seen(shared, "long") == whole
    assert seen(shared, "s") == [(["t"], 20)] * len(OF_TASKS) + [(20,)] * len(OF_RUNS)
    average = "select tokens, accuracy from token_accuracy where study_id = 's' and task = 'average' order by tokens"
    assert shared.execute(average).fetchall() == [(10, 0.1), (20, 0.2)]
    assert shared.execute("select distinct task from compared_tasks('s')").fetchall() == [("t",)]


def test_a_report_has_nothing_that_was_made_for_another_study(shared):
    put(shared, "claims", [{**RUN, "study_id": "s", "tokens": at, "task": "t"} for at in (10, 20)])
    for name, query in QUERIES.items():
        frame = shared.execute(query, ["s"]).df()
        assert "tokens" not in frame or not frame["tokens"].max() > 20, name
        assert "task" not in frame or "late" not in set(frame["task"]), name
