"""The resources of models."""

from __future__ import annotations

from tests.sql.by_hand import put


def test_table_1_has_the_papers_units_and_order(sql):
    sql.execute(
        "insert into models values ('s', 'x', 'DR+DA', 16, 1170800000, 941300000, 4783900000, null),"
        "('s', 'y', 'LA', 16, 1170800000, 938900000, 4782700000, null), ('s', 'z', null, 16, null, null, null, null)"
    )
    put(sql, "runs", [{"study_id": "s", "run_id": str(n), "model_id": "y", "tokens_per_second": n} for n in (100, 200)])
    columns = "variant, depth, parameters_billion, flops_billion_per_token, memory_gigabytes, tokens_per_second, runs"
    assert sql.execute(f"select {columns} from table_1").fetchall() == [
        ("LA", 16, 1.1708, 0.9389, 4.7827, 150.0, 2),
        ("DR+DA", 16, 1.1708, 0.9413, 4.7839, None, 0),
        ("z", 16, None, None, None, None, 0),
    ]
