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
    """Tabulate the mean ratios of one depth with their intervals.

    A row for each measure, the averages first, and a column for each variant. `rows` are those of
    `StudyData.mean_factors`.
    """
    rows = without_baseline(rows[rows["depth"] == depth])
    rows = rows[rows.groupby(["metric", "task"])["factor"].transform("count") > 0]
    measures = sorted(
        {*zip(rows["task"], rows["metric"], strict=True)},
        key=lambda measure: (measure[0] != AVERAGE, *measure),
    )
    by_cell = {(row["variant"], row["metric"], row["task"]): row for row in rows.to_dict("records")}
    variants = list(ordered(rows, styles)["variant"].unique())
    body = []
    for task, metric in measures:
        cells = [_mean_cell(by_cell.get((variant, metric, task), {})) for variant in variants]
        body.append((task == AVERAGE, [measure_label({"metric": metric, "task": task}), *cells]))
    notes = []
    if rows["within_noise"].any():
        notes.append("† what both models reached is hardly more than noise: the ratio says little.")
    if rows["bounded"].any():
        notes.append(
            "≥ the variant never reached a tenth or more of the baseline’s range: a lower bound"
            " over that range."
        )
    noise = "seeds and items, paired" if rows["item_error"].notna().any() else "seeds"
    return table(
        f"table-mean-factors-{depth}",
        f"{depth_name(depth)}: training tokens over those of {baseline_of(rows)}, with 95%"
        f" intervals over {noise}.",
        [left("For equal"), *(variant_head(variant, styles) for variant in variants)],
        body,
        *notes,
    )


def _mean_cell(row: Mapping[str, Any]) -> Cell:
    if row.get("outdated"):
        return Cell(NOTHING, note="not computed")
    if pd.isna(row.get("factor")):
        has_curve = pd.notna(row.get("seeds"))
        return Cell(NOTHING, note="nothing in common" if has_curve else "not evaluated")
    text = bounded_ratio(row)
    if row["within_noise"]:
        text += "†"
    kind = "strong" if row["task"] == AVERAGE else ""
    return Cell(text, note=interval(row) or "no interval", kind=kind)
