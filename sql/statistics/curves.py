"""The smooth curves of a study (fit.py) with their spread, so that tokens to a goal are read off all checkpoints.

A factor read off single checkpoints hangs on the luck of two of them. The spread of a curve comes from two sources:
items drawn anew, the same draw for all models of a task as in draws.py, and normal noise at every checkpoint with the
variance that the items leave unexplained. Every draw's curve is kept (`fitted_replicates`): the interval of any number
that SQL reads off the curves is its spread over them.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd

from sql.results import replace_computed
from sql.statistics.draws import Model, generator, replicate_curves
from sql.statistics.fit import PARAMETERS, Fit, Points, fit_curve, fit_draws

KEY = ("study_id", "depth", "variant", "task")


def fit_curves(
    connection: duckdb.DuckDBPyConnection, study_id: str, *, replicates: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Fit every curve of `accuracy_curve` of a study; returns the rows of table `fitted_curves`.

    A writing connection also stores them and their draws (`fitted_replicates`), in place of the study's earlier ones.
    The same seed gives the same draws. Without scores of every item there are no draws, and so no intervals.
    """
    drawn = replicate_curves(connection, study_id, replicates, seed)
    rows, draws = [], []
    for model, points in observed_points(connection, study_id).items():
        key = dict(zip(KEY, (study_id, *model), strict=True))
        fit = fit_curve(points)
        spread = None
        if model in drawn and fit.status != "too few points":
            spread = fit_draws(points, fit, drawn[model].accuracy, generator(seed, *map(str, model)))
            names = ("floor", "ceiling", "scale", "exponent")
            draws.append(
                pd.DataFrame(key | {name: getattr(spread, name) for name in names}, index=range(1, 1 + replicates))
            )
        rows.append(key | _row(points, fit) | {"replicates": replicates if spread else 0, "seed": seed})
    frame = pd.DataFrame(rows, columns=connection.table("fitted_curves").columns).astype({"depth": "Int64"})
    columns = connection.table("fitted_replicates").columns
    spreads = pd.concat(draws).reset_index(names="replicate") if draws else pd.DataFrame(columns=columns)
    replace_computed(
        connection, study_id, {"fitted_curves": frame, "fitted_replicates": spreads[columns].astype({"depth": "Int64"})}
    )
    return frame


def observed_points(connection: duckdb.DuckDBPyConnection, study_id: str) -> dict[Model, Points]:
    """The checkpoints of every curve of `accuracy_curve` of a study."""
    wanted = "select depth, variant, task, tokens, accuracy, stderr, chance from accuracy_curve where study_id = ?"
    found = connection.execute(wanted + " order by depth, variant, task, tokens", [study_id]).df()
    return {
        (None if pd.isna(depth) else int(depth), variant, task): Points(
            *(curve[name].to_numpy(float) for name in ("tokens", "accuracy", "stderr")), curve["chance"].iloc[0]
        )
        for (depth, variant, task), curve in found.groupby(["depth", "variant", "task"], dropna=False)
    }


def _row(points: Points, fit: Fit) -> dict:
    """What fitted_curves says of one curve."""
    distance = points.accuracy - fit(points.tokens)
    freedom = len(points.tokens) - (PARAMETERS if fit.status == "fitted" else 1)
    explained = (distance / np.where(points.stderr > 0, points.weights**-0.5, np.nan)) ** 2
    return {
        **{name: getattr(fit, name) for name in ("status", "floor", "ceiling", "scale", "exponent")},
        "residual": np.sqrt((distance**2).mean()),
        "misfit": explained.sum() / freedom if freedom > 0 else np.nan,
        "points": len(points.tokens),
        "first_tokens": int(points.tokens[0]),
        "last_tokens": int(points.tokens[-1]),
    }
