"""Draw ratios of tokens: their axis, their labels, and their bounds.

A ratio is the training tokens of a variant over those of the baseline: below 1 is better. Rows are
those of `StudyData.ratios`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.data import baseline_of, without_baseline
from dreamer_study.reports.text.names import owner
from dreamer_study.reports.text.numbers import interval, times
from dreamer_study.reports.text.ratios import best_estimate
from dreamer_study.sql.names import AVERAGE

TICKS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 10, 20, 50)
AT_LEAST = "at least"
AT_MOST = "at most"
EDGE = 1.2  # between the outermost number and the edge, in which the line of a bound can be seen
SHAPES = {"": "circle", AT_LEAST: "triangle-right", AT_MOST: "triangle-left"}


def direction(rows: pd.DataFrame) -> str:
    """Name the axis of ratios, whose middle is the baseline."""
    return f"fewer tokens than {owner(baseline_of(rows))}  ←  1  →  more tokens"


def ratio_axis(low: float, high: float) -> alt.Axis:
    """Return the axis of ratios within these limits: fewer ticks where the range is wide."""
    ticks = [tick for tick in TICKS if low <= tick <= high]
    kept = [tick for tick in ticks if len(ticks) < 9 or f"{tick:g}".rstrip("0")[-1] in "125"]
    return alt.Axis(
        values=kept, grid=True, labelExpr="datum.label + 'x'", format="~g", labelOverlap=True
    )


def known(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of variants that have a ratio or a bound, with what is to be drawn."""
    rows = with_bounds(rows)
    return rows[rows["shown"] > 0]


def with_bounds(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of variants; add `shown` and `bound`.

    `shown` is the ratio, or without one the bound. `bound` says that the true ratio is at least, or
    at most, what is shown; it is empty where the ratio is no bound.
    """
    rows = without_baseline(rows)
    records = rows.to_dict("records")
    return rows.assign(
        shown=[best_estimate(row) for row in records], bound=[_bound(row) for row in records]
    )


def _bound(row: Mapping[str, Any]) -> str:
    if pd.notna(row["ratio"]):
        return row["decay_bound"] if pd.notna(row["decay_bound"]) else ""
    if pd.notna(row["low"]):
        return AT_LEAST
    return AT_MOST if pd.notna(row["high"]) else ""


def by_effect(rows: pd.DataFrame, column: str) -> list[str]:
    """Return the names in a column of rows of `known`, by the mean of their ratios, lowest first.

    The average over benchmarks decides alone where it is among the rows.
    """
    averages = rows[rows["task"] == AVERAGE]
    effects = np.log(rows["shown"].astype(float)).groupby(rows[column]).mean()
    if len(averages):
        of_average = np.log(averages["shown"].astype(float)).groupby(averages[column]).mean()
        effects = of_average.reindex(effects.index).fillna(effects)
    return list(effects.sort_values(kind="stable").index)


# What the points of every figure of ratios mean.
FILLED = (
    "Filled: the ratio is significant after correction, or where nothing was tested its CI excludes"
    " 1; hollow: not so, or less than one checkpoint apart."
)


def distinguished(rows: pd.DataFrame) -> pd.Series:
    """Tell which ratios differ from 1: significant, or of an untested task outside its interval."""
    outside = (rows["low"] > 1) | (rows["high"] < 1)
    significant = rows["significant"].astype("boolean").fillna(outside).astype(bool)
    return significant & ~rows["within_checkpoint"].astype(bool)


def label(row: Mapping[str, Any]) -> str:
    """Say the ratio of a row of `with_bounds`: `1.67x (1.35 to 2.08)`, or `at least 5.54x`."""
    if pd.isna(row["shown"]):
        return "no ratio"
    text = f"{row['bound']} {times(row['shown'])}".strip()
    ends = interval(row) if pd.notna(row["ratio"]) else ""
    return f"{text} ({ends})" if ends else text
