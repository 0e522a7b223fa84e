"""Tabulate mean ratios of training tokens with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import baseline_of, without_baseline
from dreamer_study.reports.style.theme import Style, ordered
from dreamer_study.reports.tables.cells import Cell, Table, left, table, variant_head
from dreamer_study.reports.text.mean_factors import bounded_ratio
from dreamer_study.reports.text.names import depth_name, measure_label
from dreamer_study.reports.text.numbers import NOTHING, interval
from dreamer_study.sql.names import AVERAGE


def mean_factors(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Table:
    """Tabulate the mean ratios of one depth with their intervals: measures by variants, the
    averages first.

    `rows` are those of `StudyData.mean_factors`.
    """
    rows = without_baseline(rows[rows["depth"] == depth])
    rows = rows[rows.groupby(["metric", "task"])["factor"].transform("count") > 0]
    measures = sorted(
        {*zip(rows["metric"], rows["task"], strict=True)},
        key=lambda m: (m[1] != AVERAGE, m[1], m[0]),
    )
    by_cell = {(row["variant"], row["metric"], row["task"]): row for row in rows.to_dict("records")}
    variants = list(ordered(rows, styles)["variant"].unique())
    body = []
    for metric, task in measures:
        cells = [_mean_cell(by_cell.get((variant, metric, task), {})) for variant in variants]
        body.append((task == AVERAGE, [measure_label({"metric": metric, "task": task}), *cells]))
    return table(
        f"table-mean-factors-{depth}",
        f"{depth_name(depth)}: training tokens over those of {baseline_of(rows)}, with 95%"
        " intervals over"
        f" {'seeds and items, paired' if rows['item_error'].notna().any() else 'seeds'}.",
        [left("For equal"), *(variant_head(variant, styles) for variant in variants)],
        body,
        *["† what both models reached is hardly more than noise: the ratio says little."]
        * bool(rows["within_noise"].any()),
        *[
            "≥ the variant never reached a tenth or more of the baseline’s range: a lower bound"
            " over that range."
        ]
        * bool(rows["bounded"].any()),
    )


def _mean_cell(row: Mapping[str, Any]) -> Cell:
    if row.get("outdated"):
        return Cell(NOTHING, note="not computed")
    if pd.isna(row.get("factor")):
        return Cell(
            NOTHING, note="nothing in common" if pd.notna(row.get("seeds")) else "not evaluated"
        )
    kind = "strong" if row["task"] == AVERAGE else ""
    return Cell(
        bounded_ratio(row) + "†" * bool(row["within_noise"]), interval(row) or "no interval", kind
    )
