"""Compute the ratios of a study with their intervals: the table computed_ratios."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import duckdb
import numpy as np
import pandas as pd

from dreamer_study.sql.definitions import FOLDER
from dreamer_study.sql.ingest import replace_computed
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.statistics.bootstrap import read_points, replicate_values
from dreamer_study.sql.statistics.curves import seed_curves
from dreamer_study.sql.statistics.errors import SIGNIFICANCE
from dreamer_study.sql.statistics.pairs import comparison_rows
from dreamer_study.sql.statistics.sequential import NOMINAL

ASKED_BASELINES = (FOLDER / "queries" / "asked_baselines.sql").read_text()


def compute_statistics(
    connection: duckdb.DuckDBPyConnection,
    study_id: str,
    *,
    replicates: int = 1000,
    seed: int = 0,
    baselines: Collection[str] | None = None,
) -> pd.DataFrame:
    """Compute the token ratio of every two variants of a depth, on every task and metric.

    With `baselines`, only pairs with one of these baselines are computed. Without `baselines`, all
    pairs are computed, but for pairs of two variants that were both measured elsewhere. Returns the
    rows. A writing connection also stores the rows, in place of the study's earlier ones. An equal
    `seed` gives an equal result, and a task's result does not depend on other tasks. With
    `replicates` 0, and if a model lacks scores of items at a checkpoint, the error of the items is
    unknown (null), and the interval covers seeds only. If a study adds seeds until its intervals
    are narrow, the intervals of all looks together keep their level (sql/statistics/sequential.py).
    """
    if baselines is None:
        rows_of_baselines = connection.execute(ASKED_BASELINES, {"study": study_id}).fetchall()
        baselines = [variant for (variant,) in rows_of_baselines] or None
    significance = NOMINAL if adds_seeds(connection, study_id) else SIGNIFICANCE
    measured = connection.execute(
        "select metric, depth, variant, task, digest, noise_floor from measured_curves"
        " where study_id = ?",
        [study_id],
    ).fetchall()
    targets: dict[str, dict[str, float]] = defaultdict(dict)  # by metric and task
    for metric, task, score in connection.execute(
        "select metric, task, score from targets where study_id = ?", [study_id]
    ).fetchall():
        targets[metric][task] = score
    rows = []
    # accuracy and loss, or the one that there is
    for measure in sorted({metric for metric, *_ in measured}):
        digests = {
            (depth, variant, task): digest
            for metric, depth, variant, task, digest, _ in measured
            if metric == measure
        }
        noise_floors = {
            (depth, variant, task): noise_floor
            for metric, depth, variant, task, _, noise_floor in measured
            if metric == "accuracy" and metric == measure and noise_floor is not None
        }
        points = read_points(connection, study_id, measure)
        # An average without a family is made from the points of the average.
        for depth, variant, task in points:
            average = (depth, variant, AVERAGE)
            if (depth, variant, task) not in digests:
                digests[depth, variant, task] = digests[average]
                if average in noise_floors:
                    noise_floors[depth, variant, task] = noise_floors[average]
        drawn = replicate_values(connection, study_id, measure, replicates, seed)
        curves = {
            model: seed_curves(
                curve,
                drawn[model[2]],
                lower_is_better=measure == "loss",
                noise_floor=noise_floors.get(model, -np.inf),
            )
            for model, curve in points.items()
        }
        rows += comparison_rows(
            measure, curves, digests, targets[measure], significance, baselines=baselines
        )
    frame = pd.DataFrame(rows).assign(study_id=study_id)
    frame = frame.reindex(columns=connection.table("computed_ratios").columns)
    replace_computed(connection, "computed_ratios", study_id, frame)
    return frame


def adds_seeds(connection: duckdb.DuckDBPyConnection, study_id: str) -> bool:
    """Tell whether a study adds seeds until its intervals are narrow, as its configuration says."""
    settings = "json_type(try_cast(config as json), '$.study.training.seeds_until')"
    query = f"select {settings} = 'OBJECT' from studies where study_id = ?"
    return connection.execute(query, [study_id]).fetchone() == (True,)
