"""Draw ratios of tokens: their axis, their labels, and their bounds.

A ratio is the training tokens of a variant over those of the baseline: below 1 is better. Rows are
those of `StudyData.ratios`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from dreamer_study.reports.data import VALIDATION, baseline_of, without_baseline
from dreamer_study.reports.text.numbers import NOTHING, percent
from dreamer_study.sql.names import AVERAGE

TICKS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 10, 20, 50)
AT_LEAST = "at least"
AT_MOST = "at most"


def direction(rows: pd.DataFrame) -> str:
    """Name the axis of ratios, whose middle is the baseline."""
    return f"fewer tokens than {baseline_of(rows)}  ←  1  →  more tokens"


def ratio_axis(low: float, high: float) -> alt.Axis:
    """Return the axis of ratios within these limits: fewer ticks where the range is wide."""
    ticks = [tick for tick in TICKS if low <= tick <= high]
    kept = [tick for tick in ticks if len(ticks) < 9 or f"{tick:g}"[-1] in "125"]
    return alt.Axis(
        values=kept, grid=True, labelExpr="datum.label + 'x'", format="~g", labelOverlap=True
    )


def times(value: Any) -> str:
    """Format a ratio: 0.062x, 0.40x, 1.24x, 12.5x."""
    if pd.isna(value):
        return NOTHING
    if value >= 10:
        return f"{value:.1f}x"
    if value >= 0.1:
        return f"{value:.2f}x"
    return f"{value:.2g}x"


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
    shown = rows["ratio"].fillna(rows["low"]).fillna(rows["high"])
    return rows.assign(shown=shown, bound=[_bound(row) for row in rows.to_dict("records")])


def _bound(row: Mapping[str, Any]) -> str:
    if pd.notna(row["ratio"]):
        return row["decay_bound"] if pd.notna(row["decay_bound"]) else ""
    if pd.notna(row["low"]):
        return AT_LEAST
    return AT_MOST if pd.notna(row["high"]) else ""


def label(row: Mapping[str, Any]) -> str:
    """Say the ratio of a row of `known`: `1.67x (1.35 to 2.08)`, or `at least 5.54x`."""
    if pd.isna(row["shown"]):
        return "has no score in common"
    text = f"{row['bound']} {times(row['shown'])}".strip()
    if pd.isna(row["ratio"]) or pd.isna(row["low"]):
        return text
    low, high = times(row["low"]), times(row["high"])
    return f"{text} ({low.removesuffix('x')} to {high.removesuffix('x')})"


def leading(rows: pd.DataFrame) -> pd.DataFrame:
    """Choose one row of `known` for each depth and variant: of the measure that is the answer.

    That is the average accuracy, else the average loss, the loss on held-out documents, or the only
    task.
    """
    ranks = {}
    if rows["task"].nunique() == 1:
        ranks = {("accuracy", rows["task"].iloc[0]): 3, ("loss", rows["task"].iloc[0]): 4}
    ranks |= {("accuracy", AVERAGE): 0, ("loss", AVERAGE): 1, ("loss", VALIDATION): 2}
    measures = zip(rows["metric"], rows["task"], strict=True)
    ranked = known(rows.assign(rank=[ranks.get(measure) for measure in measures]))
    chosen = ranked[ranked["rank"].notna()].sort_values("rank", kind="stable")
    return chosen.drop_duplicates(["depth", "variant"]).drop(columns="rank")


def score(value: float, metric: str) -> str:
    """Format a score: 52.8%, or 1.62 bits per byte."""
    return percent(value) if metric == "accuracy" else f"{value:.2f} bits per byte"


def scores(row: Mapping[str, Any]) -> str:
    """Say from which to which score a ratio is: `47.2% to 52.8%`, or `74.7%`.

    From the easiest to the hardest: of losses the first is the higher one.
    """
    first, last = row["score_low"], row["score_high"]
    if row["metric"] == "loss":
        first, last = last, first
    if first == last:
        return score(last, row["metric"])
    unit = " bits per byte" if row["metric"] == "loss" else ""
    return f"{score(first, row['metric']).removesuffix(unit)} to {score(last, row['metric'])}"
