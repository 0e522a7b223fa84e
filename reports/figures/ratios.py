"""Draw ratios of tokens: their axis, their labels, and their bounds.

A ratio is the training tokens of a variant over those of the baseline: below 1 is better. Rows are
those of `StudyData.ratios`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.data import without_baseline
from dreamer_study.reports.figures.chart import WIDE
from dreamer_study.reports.style.theme import Style
from dreamer_study.reports.text.numbers import interval, times
from dreamer_study.reports.text.ratios import best_estimate, bound_of
from dreamer_study.sql.names import AT_LEAST, AT_MOST, AVERAGE

# The first are those that keep their numbers where there is little room: 1 is the baseline.
ROUND = (1, 2, 0.5, 5, 0.2, 10, 0.1, 20, 0.05, 50, 0.02)
TICKS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 10, 20, 50)
CHARACTER = 5.5  # pixels of a number at a tick
TITLE_CHARACTER = 4.8  # pixels of a title
GAP = 6  # pixels between two of them
EDGE = 1.2  # between the outermost number and the edge, in which the line of a bound can be seen
SHAPES = {AT_LEAST: "triangle-right", AT_MOST: "triangle-left"}


DIRECTION = "fewer tokens  ←  1  →  more tokens"  # names the axis: its middle is the baseline


def ratio_axis(
    low: float,
    high: float,
    edge: float | None = None,
    *,
    title: str = "",
    usual: float = WIDE,
    is_vertical: bool = False,
    candidates: Sequence[float] = TICKS,
) -> alt.Axis:
    """Return the axis of ratios with ticks from `low` to `high`; the axis ends at `edge`.

    The ticks are those of the `candidates` that lie on the axis.

    A number is left out where it would meet one that says more, the last of all "1x". A `title`
    with its 1 in the middle stands below 1x, as far as there is room. `usual` is the width of the
    axis in pixels where no page makes it another.
    """
    ticks = [tick for tick in sorted(candidates) if low <= tick <= high]
    kept = [tick for tick in ticks if len(ticks) < 9 or f"{tick:g}".rstrip("0")[-1] in "125"]
    look: dict[str, Any] = {"values": kept, "grid": True, "format": "~g"}
    if is_vertical:
        return alt.Axis(**look, labelExpr="datum.label + 'x'", labelOverlap=True)
    in_logs = math.log((edge or high) / low)
    width = f"(width || {usual:g})"
    long_enough = [round(_room(tick, kept) * in_logs) for tick in kept]
    is_short = f"{width} < {long_enough}[indexof({kept}, datum.value)]"
    if title:
        half = TITLE_CHARACTER * len(title) / 2
        below_one = f"{-math.log(low) / in_logs:.4g} * {width}"
        look["titleX"] = {"expr": f"clamp({below_one}, {half:g}, {width} - {half:g})"}
    return alt.Axis(**look, labelExpr=f"{is_short} ? '' : datum.label + 'x'", labelOverlap=False)


def _room(tick: float, ticks: list[float]) -> float:
    """Return the pixels that an axis needs between e^0 and e^1 for the number of a tick.

    Only numbers that say more than the tick's stand in its way.
    """
    order = [*ROUND, *sorted(TICKS, key=lambda one: abs(math.log(one)))]
    needed = [0.0]
    for other in ticks:
        if order.index(other) < order.index(tick):
            characters = (len(f"{tick:g}x") + len(f"{other:g}x")) / 2
            needed.append((CHARACTER * characters + GAP) / abs(math.log(tick / other)))
    return max(needed)


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
        shown=[best_estimate(row) for row in records], bound=[bound_of(row) for row in records]
    )


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


def distinguished(rows: pd.DataFrame) -> pd.Series:
    """Tell which ratios of a figure differ from 1: those that are significant.

    Where no ratio of the figure was tested, those whose interval excludes 1.
    """
    significant = rows["significant"].astype("boolean")
    if significant.isna().all():
        significant = (rows["low"] > 1) | (rows["high"] < 1)
    return significant.fillna(False).astype(bool) & ~rows["within_checkpoint"].astype(bool)


def what_filled_means(rows: pd.DataFrame) -> str:
    """Say what a filled and a hollow point of a figure of these ratios mean."""
    tested = rows["significant"].notna()
    if not tested.any():
        return "Filled: the CI excludes 1 (nothing was tested). Hollow: not so."
    untested = "" if tested.all() else ", was not tested"
    apart = ", or is less than one checkpoint from 1" if rows["within_checkpoint"].any() else ""
    return f"Filled: significant after correction. Hollow: the ratio is not{untested}{apart}."


def mark_of(rows: pd.DataFrame, styles: Mapping[str, Style]) -> list[str]:
    """Return the marks of ratios: a triangle is a bound, all others are their variant's own."""
    shapes = {name: style.vega_shape for name, style in styles.items()}
    return [
        SHAPES.get(bound) or shapes.get(variant, "circle")
        for bound, variant in zip(rows["bound"], rows["variant"], strict=True)
    ]


def label(row: Mapping[str, Any]) -> str:
    """Say the ratio of a row of `with_bounds`: `1.67x (1.35 to 2.08)`, or `at least 5.54x`."""
    if pd.isna(row["shown"]):
        return "no ratio"
    text = f"{row['bound']} {times(row['shown'])}".strip()
    ends = interval(row) if pd.notna(row["ratio"]) else ""
    return f"{text} ({ends})" if ends else text
