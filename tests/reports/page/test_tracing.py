"""Where numbers come from: queries that can be asked, and the runs and versions behind a study."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reports.data import StudyData
from reports.page.tracing import ANSWER, VIEWS, origins, view_of
from sql.results import connect


def test_every_view_can_be_asked_for_a_study_and_a_model(tmp_path: Path) -> None:
    connection = connect(tmp_path / "results.duckdb")
    for view, depth in {*VIEWS.values(), ANSWER}:
        columns = {column for column, *_ in connection.execute(f"from {view} where study_id = 's'").description}
        if "variant" in columns:
            connection.execute(f"from {view} where study_id = 's' and variant = 'DR' and {depth} = 4")
    connection.close()


def test_the_longest_name_decides_on_the_view_of_a_table() -> None:
    assert view_of("table-funnel-sources") == ("funnel_by_source", "depth")
    assert view_of("table-funnel") == ("funnel", "depth")
    assert view_of("table-versions") is None


def test_runs_are_told_with_their_checkpoints() -> None:
    runs = pd.DataFrame({"run_id": ["a", "b"], "variant": "DR", "depth": 4, "seed": [0.0, None], "status": "complete"})
    checkpoints = pd.DataFrame({"run_id": ["a", "a"], "tokens": [5, 9]})
    found = origins(StudyData({"study_id": "s", "config": None}, {"runs": runs, "checkpoints": checkpoints}))
    first, second = found["runs"]
    assert first == {
        "run": "a",
        "variant": "DR",
        "depth": 4,
        "seed": 0,
        "status": "complete",
        "checkpoints": 2,
        "tokens": 9,
    }
    assert (second["seed"], second["checkpoints"]) == (None, None)
    assert (found["study"], found["packages"]) == ("s", {})
