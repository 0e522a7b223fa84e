"""Tabulate what a study compares: a line for each model."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dreamer_study.reports.data import baseline_of
from dreamer_study.reports.style.theme import Style, ordered
from dreamer_study.reports.tables.cells import Table, left, model_cells, table
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
    """Tabulate what each model is, what it costs, and how it was trained; `remark` is that of the
    study file."""
    configurations = {(row.variant, row.depth): row.config for row in models.itertuples()}
    trained = dict(iter(runs.groupby(["variant", "depth"])))
    body = []
    for row in ordered(resources, styles).to_dict("records"):
        model = row["variant"], row["depth"]
        own = trained.get(model, runs.iloc[:0])
        rates = sorted(own["learning_rate"].dropna().unique())
        config = configurations.get(model)
        cells = [architecture_in_words(config) or NOTHING, layers_of(config)]
        cells += [
            tokens(row[name] * 1e9) for name in ("parameters_billion", "flops_billion_per_token")
        ]
        cells += [
            ", ".join(f"{rate:.2g}" for rate in rates) or NOTHING,
            tokens(own["tokens"].max()),
            f"{len(own)}",
        ]
        body.append((row["depth"], [*model_cells(*model, styles), *cells]))
    searched = tuning["learning_rate"].nunique()
    own = [
        name
        for name in ordered(resources, styles)["variant"].unique()
        if name not in set(tuning["variant"])
    ]
    but = f" but that of {listed(own)}" * bool(own)
    how = (
        f" Each learning rate{but} is the best of {counted(searched, 'rate')} tried."
        if searched
        else ""
    )
    how += f" {remark[0].upper()}{remark[1:]}." if remark else ""
    columns = [
        left("Compared"),
        "Depth",
        left("What it is"),
        "Layers",
        "Parameters",
        "FLOPs a token",
    ]
    columns += ["Learning rate", "Tokens", "Seeds"]
    return table("table-compared", f"{baseline_of(resources)} is the baseline.{how}", columns, body)
