"""The resources of models, and the course and cost of their training."""

from __future__ import annotations

from sql.statistics.compute import compute_statistics
from tests.sql.by_hand import enter, put


def test_table_1_has_the_papers_units_and_order(sql):
    sql.execute(
        "insert into models values ('s', 'x', 'DR+DA', 16, 1170800000, 941300000, 4783900000, null, 2),"
        "('s', 'y', 'LA', 16, 1170800000, 938900000, 4782700000, null, 1),"
        "('s', 'z', null, 16, null, null, null, null, null)"
    )
    put(sql, "runs", [{"study_id": "s", "run_id": str(n), "model_id": "y", "tokens_per_second": n} for n in (100, 200)])
    columns = "variant, depth, parameters_billion, flops_billion_per_token, memory_gigabytes, tokens_per_second, runs"
    assert sql.execute(f"select {columns} from table_1").fetchall() == [
        ("LA", 16, 1.1708, 0.9389, 4.7827, 150.0, 2),
        ("DR+DA", 16, 1.1708, 0.9413, 4.7839, None, 0),
        ("z", 16, None, None, None, None, 0),
    ]


def steps(run, seconds_each):
    """100 steps of 10 tokens."""
    return [
        {"run_id": run, "step": n, "tokens": 10 * n, "loss": 1.0, "gradient_norm": 0.5} | {"seconds": seconds_each * n}
        for n in range(1, 101)
    ]


def test_a_training_is_cut_into_stretches_with_its_speed(sql):
    put(sql, "runs", [{"study_id": "s", "run_id": "r", "model_id": "m", "tokens_per_second": 5.0, "mfu": 0.2}])
    put(sql, "steps", steps("r", 2))
    sql.execute("update steps set loss = 'nan' where step = 100")
    found = sql.execute("from training_curves order by tokens").df()
    assert 40 <= len(found) <= 100
    assert found["loss"].dropna().eq(1).all()
    assert found["losses_not_finite"].sum() == 1
    assert found["tokens_per_second"].dropna().round(9).eq(5).all()
    assert found["mfu"].dropna().round(9).eq(0.2).all()
    assert found["tokens"].iloc[0] == 10, "the first steps are not blurred"


def test_training_to_a_goal_costs_the_seconds_of_all_devices(sql):
    enter(sql, {"LA": {"t": {10: 0.2, 40: 0.4}}, "DR": {"t": {10: 0.2, 20: 0.4}}})
    sql.execute("update runs set tokens_per_second = 2")
    sql.execute("insert into run_details select run_id, 4, null, null from runs where model_id = 'DR-4'")
    columns = "variant, baseline_device_seconds, variant_device_seconds"
    found = sql.execute(f"select {columns} from compute_efficiency where task = 't'").fetchall()
    assert found == [("LA", 20, 20), ("DR", 20, 40)]
    compute_statistics(sql, "s", replicates=0)
    dear = "select variant, max(device_seconds / tokens) from cost_by_target group by variant order by variant desc"
    assert sql.execute(dear).fetchall() == [("LA", 0.5), ("DR", 2)]
