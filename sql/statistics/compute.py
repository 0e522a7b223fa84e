"""Compute the tables mean_factor_intervals, factor_intervals, fitted_curves and fitted_replicates of a study."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd

from sql.ingest import replace_computed
from sql.statistics.bootstrap import Model, generator, read_points, replicate_curves, replicate_values
from sql.statistics.factor_intervals import interval_rows, with_training_noise
from sql.statistics.mean_factors import interval_rows as mean_interval_rows
from sql.statistics.mean_factors import seed_curves
from sql.statistics.power_law import ObservedCurve, PowerLaw, fit_power_law, fit_replicates

MODEL = ("depth", "variant", "task")
MEASURES = ("accuracy", "loss")
PARAMETERS = ("floor", "ceiling", "scale", "exponent")


def compute_statistics(
    connection: duckdb.DuckDBPyConnection, study_id: str, *, replicates: int = 1000, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """Compute an interval for every row of `data_efficiency` and a fit of every curve of `accuracy_curve` of a study.

    Returns the rows by table; a writing connection also stores them, in place of the study's earlier rows. One seed
    gives one result, whatever other tasks the study has. A model without scores of every item at every checkpoint has
    no replicates: low, high and share_reached are null.
    """
    observed = observed_curves(connection, study_id)
    fits = {model: fit_power_law(points) for model, points in observed.items()}
    points = {measure: read_points(connection, study_id, measure) for measure in MEASURES}
    values = {measure: replicate_values(connection, study_id, measure, replicates, seed) for measure in MEASURES}
    drawn = replicate_curves(points["accuracy"], values["accuracy"], replicates, seed)
    noisy = {
        model: with_training_noise(
            curve, observed[model], fits[model], generator(seed, "noise of training", *map(str, model))
        )
        for model, curve in drawn.items()
    }
    spreads = {
        model: fit_replicates(observed[model], fits[model], curve.accuracy, generator(seed, *map(str, model)))
        for model, curve in drawn.items()
        if fits[model].status != "too few points"
    }
    wanted = connection.execute(f"select {', '.join(MODEL)} from data_efficiency where study_id = ?", [study_id])
    intervals = [{"replicates": replicates} | row for row in interval_rows(wanted.fetchall(), noisy)]
    curves = [
        _described(model, points, fits[model]) | {"replicates": replicates if model in spreads else 0}
        for model, points in observed.items()
    ]
    fitted_replicates = [
        pd.DataFrame(_key(model) | {name: getattr(fit, name) for name in PARAMETERS}).assign(
            replicate=range(1, 1 + replicates)
        )
        for model, fit in spreads.items()
    ]
    mean_intervals = [
        row
        for measure in MEASURES
        for row in mean_interval_rows(
            measure,
            {
                model: seed_curves(curve, values[measure][model[2]], lower_is_better=measure == "loss")
                for model, curve in points[measure].items()
            },
        )
    ]
    tables = {
        "mean_factor_intervals": pd.DataFrame(mean_intervals),
        "factor_intervals": pd.DataFrame(intervals),
        "fitted_curves": pd.DataFrame(curves),
        "fitted_replicates": pd.concat(fitted_replicates) if fitted_replicates else pd.DataFrame(),
    }
    for name, frame in tables.items():
        columns = connection.table(name).columns
        whole = [column for column in ("depth", "goal_first", "goal_last") if column in columns]
        frame = frame.assign(study_id=study_id, seed=seed).reindex(columns=columns)
        tables[name] = frame.astype(dict.fromkeys(whole, "Int64"))
    replace_computed(connection, study_id, tables)
    return tables


def observed_curves(connection: duckdb.DuckDBPyConnection, study_id: str) -> dict[Model, ObservedCurve]:
    """Read the checkpoints of every curve of `accuracy_curve` of a study."""
    wanted = "select depth, variant, task, tokens, accuracy, stderr, chance from accuracy_curve where study_id = ?"
    found = connection.execute(wanted + " order by depth, variant, task, tokens", [study_id]).df()
    return {
        (None if pd.isna(depth) else int(depth), variant, task): ObservedCurve(
            *(curve[name].to_numpy(float) for name in ("tokens", "accuracy", "stderr")), curve["chance"].iloc[0]
        )
        for (depth, variant, task), curve in found.groupby([*MODEL], dropna=False)
    }


def _described(model: Model, points: ObservedCurve, fit: PowerLaw) -> dict[str, Any]:
    """Return a row of fitted_curves: the parameters, and the distances of the checkpoints from the curve."""
    distance = points.accuracy - fit(points.tokens)
    freedom = len(points.tokens) - fit.parameters
    explained = (distance / np.where(points.stderr > 0, points.weights**-0.5, np.nan)) ** 2
    return {
        **_key(model),
        **{name: getattr(fit, name) for name in ("status", *PARAMETERS)},
        "residual": np.sqrt((distance**2).mean()),
        "misfit": explained.sum() / freedom if freedom > 0 else np.nan,
        "points": len(points.tokens),
        "first_tokens": int(points.tokens[0]),
        "last_tokens": int(points.tokens[-1]),
    }


def _key(model: Model) -> dict[str, Any]:
    return dict(zip(MODEL, model, strict=True))
