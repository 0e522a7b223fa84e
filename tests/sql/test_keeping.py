"""A connection whose most used views are computed once, for one study."""

from __future__ import annotations

from pathlib import Path

import pytest

from sql.connection import connect
from sql.keeping import KEPT, keep_views
from sql.results import query
from tests.reports.small_results import STUDY, whole_study

READ = (
    *KEPT,
    "mean_factors",
    "data_efficiency",
    "table_2",
    "expert_concentration",
    "expert_diversity",
    "factor_by_target",
)


@pytest.mark.slow
def test_kept_views_hold_what_the_views_of_the_file_hold(tmp_path: Path) -> None:
    path = whole_study(tmp_path / "results.duckdb")
    with connect(path, read_only=True) as file:
        before = {view: file.execute(f"from {view} order by all").df() for view in READ}
    connection = connect(path, read_only=True)
    keep_views(connection, STUDY)
    for view in READ:
        assert len(before[view]), view
        assert connection.execute(f"from {view} order by all").df().equals(before[view]), view
    connection.close()


def test_kept_views_know_of_one_study_and_the_file_of_all(tmp_path: Path) -> None:
    path = whole_study(tmp_path / "results.duckdb")
    connection = connect(path, read_only=True)
    keep_views(connection, "another")
    assert not connection.execute("from table_2").fetchall()
    connection.close()
    assert len(query(path, "from table_2"))
