"""Tabulate what a study compares: a line for each model."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dreamer_study.reports.data import baseline_of
from dreamer_study.reports.style.theme import Style, ordered
from dreamer_study.reports.tables.cells import Cell, Table, left, model_cells, table
from dreamer_study.reports.text.names import architecture_in_words, layers_of
from dreamer_study.reports.text.numbers import NOTHING, counted, listed, tokens


def compared(
    resources: pd.DataFrame,
    models: pd.DataFrame,
    runs: pd.DataFrame,
    tuning: pd.DataFrame,
    remark: str,
    styles: Mapping[str, Style],
) -> Table:
    """Tabulate what each model is, what it costs, and how it was trained.

    `remark` is that of the study file.
    """
    configurations = {(row.variant, row.depth): row.config for row in models.itertuples()}
    trained = dict(iter(runs.groupby(["variant", "depth"])))
    body = []
    for row in ordered(resources, styles).to_dict("records"):
        model = row["variant"], row["depth"]
        runs_of_model = trained.get(model, runs.iloc[:0])
        rates = sorted(runs_of_model["learning_rate"].dropna().unique())
        config = configurations.get(model)
        cells = [
            *model_cells(*model, styles),
            Cell(architecture_in_words(config) or NOTHING, kind="long"),
            layers_of(config),
            tokens(row["parameters_billion"] * 1e9),
            tokens(row["flops_billion_per_token"] * 1e9),
            ", ".join(f"{rate:.2g}" for rate in rates) or NOTHING,
            tokens(runs_of_model["tokens"].max()),
            f"{len(runs_of_model)}",
        ]
        body.append((row["depth"], cells))
    caption = [f"{baseline_of(resources)} is the baseline."]
    searched = tuning.groupby(["depth", "variant"])["learning_rate"].nunique()
    if len(searched):
        variants = ordered(resources, styles)["variant"].unique()
        not_searched = [name for name in variants if name not in set(tuning["variant"])]
        but = f" but that of {listed(not_searched)}" if not_searched else ""
        fewest = counted(searched.min(), "rate")
        tried = fewest if searched.min() == searched.max() else f"at least {fewest}"
        caption.append(f"Each learning rate{but} is the best of {tried} tried.")
    if remark:
        caption.append(f"{remark[0].upper()}{remark[1:]}.")
    columns = [
        left("Compared"),
        "Depth",
        left("What it is"),
        "Layers",
        "Parameters",
        "FLOPs a token",
        "Learning rate",
        "Tokens",
        "Seeds",
    ]
    return table("table-compared", " ".join(caption), columns, body)
