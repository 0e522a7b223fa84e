"""Compute the views that most other views read once, for one study.

The rows are kept as long as a connection is open.
"""

from __future__ import annotations

import duckdb

from dreamer_study.sql.connection import temporary_views

# Views that several others read. A view of views is planned anew each time it is read, which takes
# as long as its rows where these are few; experts and steps have millions at the paper's size.
KEPT = (
    "model_runs",
    "variants",
    "study_evaluations",
    "chosen_metric",
    "expected_curves",
    "token_scores",
    "counted_scores",
    "curve_points",
    "mean_curves",
    "score_curves",
    "measured_curves",
    "decays",
    "training_curves",
    "latest_expert_ranks",
)


def keep_views(connection: duckdb.DuckDBPyConnection, study_id: str) -> None:
    """Copy one study's rows of the views in `KEPT` into temporary tables.

    From now on, all views of `connection` read these tables, and show this study only. The results
    file does not change.
    """
    for name, text in temporary_views().items():
        connection.execute(text)
        if name in KEPT:
            connection.execute(
                f"create temporary table kept_{name} as from {name} where study_id = ?", [study_id]
            )
            connection.execute(f"create or replace temporary view {name} as from kept_{name}")
