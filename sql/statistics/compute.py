"""Compute the mean factors of a study with their intervals: the table computed_factors."""

from __future__ import annotations

import duckdb
import pandas as pd

from dreamer_study.sql.ingest import replace_computed
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.statistics.bootstrap import read_points, replicate_values
from dreamer_study.sql.statistics.errors import SIGNIFICANCE
from dreamer_study.sql.statistics.mean_factors import factor_rows, seed_curves
from dreamer_study.sql.statistics.sequential import NOMINAL


def compute_statistics(
    connection: duckdb.DuckDBPyConnection, study_id: str, *, replicates: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Compute the mean factor of every two variants of a depth on every task, in accuracy and in
    loss.

    Returns the rows; a writing connection also stores them, in place of the study's earlier rows.
    One seed gives one result, whatever other tasks the study has. The items' error is unknown
    (null) with `replicates` 0, and where a model lacks scores of items at a checkpoint: then the
    interval is over the seeds alone. In a study that adds seeds until its intervals are narrow, the
    intervals of all its looks hold together (sql/statistics/sequential.py).
    """
    settings = "json_type(try_cast(config as json), '$.study.training.seeds_until')"
    until = f"select {settings} = 'OBJECT' from studies where study_id = ?"
    significance = (
        NOMINAL if connection.execute(until, [study_id]).fetchone() == (True,) else SIGNIFICANCE
    )
    found = "select metric, depth, variant, task, digest from measured_curves where study_id = ?"
    measured = connection.execute(found, [study_id]).fetchall()
    rows = []
    # accuracy and loss, or the one that there is
    for measure in sorted({row[0] for row in measured}):
        digests = {tuple(model): digest for metric, *model, digest in measured if metric == measure}
        points = read_points(connection, study_id, measure)
        # without a family
        digests |= {model: digests[*model[:2], AVERAGE] for model in points if model not in digests}
        drawn = replicate_values(connection, study_id, measure, replicates, seed)
        curves = {
            model: seed_curves(curve, drawn[model[2]], lower_is_better=measure == "loss")
            for model, curve in points.items()
        }
        rows += factor_rows(measure, curves, digests, significance)
    frame = (
        pd.DataFrame(rows)
        .assign(study_id=study_id)
        .reindex(columns=connection.table("computed_factors").columns)
    )
    replace_computed(connection, "computed_factors", study_id, frame)
    return frame
