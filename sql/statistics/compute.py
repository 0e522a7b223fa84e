"""Compute the intervals of a study's factors: the tables mean_factor_intervals, factor_intervals and loss_intervals."""

from __future__ import annotations

import duckdb
import pandas as pd

from sql.ingest import replace_computed
from sql.statistics import factor_intervals, mean_factors
from sql.statistics.bootstrap import (
    ReplicatedCurve,
    generator,
    read_points,
    replicate_curves,
    replicate_values,
)

MEASURES = ("accuracy", "loss")
CROSSINGS = {"accuracy": ("factor_intervals", "data_efficiency"), "loss": ("loss_intervals", "loss_efficiency")}
WHOLE = ("depth", "goal_first", "goal_last", "seeds", "replicates", "seed")  # numbers that may be null


def compute_statistics(
    connection: duckdb.DuckDBPyConnection, study_id: str, *, replicates: int = 1000, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """Compute an interval for every row of `mean_factors` that has a factor, and every row of `data_efficiency` and
    of `loss_efficiency`.

    Returns the rows by table; a writing connection also stores them, in place of the study's earlier rows. One seed
    gives one result, whatever other tasks the study has. A model without scores of every item at every checkpoint has
    no replicates: its interval of the paper's factor is null, that of the mean factor is over its seeds alone;
    so with `replicates` 0.
    """
    points = {measure: read_points(connection, study_id, measure) for measure in MEASURES}
    values = {measure: replicate_values(connection, study_id, measure, replicates, seed) for measure in MEASURES}
    mean = [
        row
        for measure in MEASURES
        for row in mean_factors.interval_rows(
            measure,
            {
                model: mean_factors.seed_curves(curve, values[measure][model[2]], lower_is_better=measure == "loss")
                for model, curve in points[measure].items()
            },
        )
    ]
    tables = {"mean_factor_intervals": pd.DataFrame(mean)}
    for measure, (table, view) in CROSSINGS.items():
        drawn = replicate_curves(points[measure], values[measure], replicates, seed) if replicates else {}
        noisy = {
            model: factor_intervals.with_training_noise(
                _more_is_better(curve, measure), generator(seed, "noise of training", *map(str, model))
            )
            for model, curve in drawn.items()
        }
        wanted = connection.execute(f"select depth, variant, task from {view} where study_id = ?", [study_id])
        rows = factor_intervals.interval_rows(wanted.fetchall(), noisy)
        tables[table] = pd.DataFrame([{"replicates": replicates} | row for row in rows])
    for name, frame in tables.items():
        columns = connection.table(name).columns
        frame = frame.assign(study_id=study_id, seed=seed).reindex(columns=columns)
        tables[name] = frame.astype({column: "Int64" for column in columns if column in WHOLE})
    replace_computed(connection, study_id, tables)
    return tables


def _more_is_better(curve: ReplicatedCurve, measure: str) -> ReplicatedCurve:
    """Reverse the sign of a loss."""
    return ReplicatedCurve(curve.tokens, -curve.scores) if measure == "loss" else curve
