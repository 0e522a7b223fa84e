"""Draw factors with their intervals: mean factors, and data efficiency by the paper's rule (DE in Table 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from reports.data import baseline_of, without_baseline
from reports.figures import chart
from reports.figures.rendering import Figure, figure, panel
from reports.style.theme import LIGHT, Style, present
from reports.text.names import depth_name, measure_label, task_name, task_order
from reports.text.numbers import counted, factor, fine_factor
from sql.names import AVERAGE

COARSE_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100)
FINE_FACTORS = (0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5)


def mean_factors(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw mean factors (x, logarithmic) with their 95 % intervals by measure (y); a panel for each depth.

    `rows` are those of `StudyData.mean_factors`. None without factors.
    """
    rows = without_baseline(rows[rows["factor"] > 0])
    names = [measure_label(row) for row in rows.to_dict("records")]
    bounds = rows["bounded"].map({True: "at most", False: "exact"})
    rows = rows.assign(bound=bounds, near_chance=rows["within_noise"], name=names)
    return _factors(
        "mean-factors",
        "Mean factors",
        f"How many times fewer training tokens than {baseline_of(rows)} each variant needs for equal accuracy, and "
        "for equal loss: the mean over all values that both reached. Lines: 95% intervals over seeds and items. "
        "Hollow: what both reached is hardly more than noise. ◂ at most: over the baseline’s whole range, of which the "
        "variant never reached a tenth or more.",
        rows.sort_values(["task", "metric"], key=_averages_first),
        styles,
        fine_factor,
    )


def _averages_first(column: pd.Series) -> pd.Series:
    return column if column.name == "metric" else column.map(lambda task: (task != AVERAGE, task))


def crossing_factors(efficiency: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw factors by the paper's rule by task; a panel for each depth.

    `efficiency` has the rows of `StudyData.efficiency`. The marker's shape is the bound. None without factors.
    """
    rows = without_baseline(efficiency[efficiency["factor"] > 0])
    baseline = baseline_of(rows)
    names = task_order(rows["task"], average_first=True)
    rows = rows.assign(name=rows["task"].map(task_name), place=rows["task"].map(names.index), metric="accuracy")
    rows = rows.sort_values("place").assign(low=np.nan, high=np.nan)
    return _factors(
        "data-efficiency",
        "Data efficiency by the paper’s rule",
        f"How many times fewer training tokens than {baseline} each variant needs to reach {baseline}’s best accuracy. "
        "▸ at least: reached at the first checkpoint. ◂ at most: not reached. Hollow: the baseline is near chance.",
        rows,
        styles,
        factor,
    )


def _factors(
    name: str, title: str, caption: str, rows: pd.DataFrame, styles: Mapping[str, Style], show: Callable[[Any], str]
) -> Figure | None:
    """Draw the figure of either kind of factor; `rows` are in the order from top to bottom, with `name` and `bound`."""
    if rows.empty:
        return None
    shown = present(styles, rows)
    limits = rows[["factor", "low", "high"]].astype(float)
    low, high = min(0.8, float(limits.min().min()) / 1.15), max(1.6, float(limits.max().max()) * 1.05)
    bounds = rows["bound"].map({"at least": "≥ ", "at most": "≤ "}).fillna("")
    rows = rows.assign(label=bounds + rows["factor"].map(show) + "×")
    panels = []
    for depth, part in rows.groupby("depth"):
        words = [f"{row['variant']} on {row['name']}: {row['label']}" for row in part.to_dict("records")]
        description = f"{title} at {depth_name(depth).lower()}, {baseline_of(rows)} being 1. {'; '.join(words)}."
        panels.append(panel(depth_name(depth), description, _chart(part, shown, low, high), depth=depth))
    finding = ""
    if rows["low"].notna().any():
        fewer, more = int((rows["low"] > 1).sum()), int((rows["high"] < 1).sum())
        finding = (
            f"Intervals that lie above 1: {fewer} of {counted(len(rows), 'factor')}; below 1: {more}. The study does "
            f"not decide the other {len(rows) - fewer - more}."
        )
    circles = {name: replace(style, shape="circle") for name, style in shown.items()}  # shapes stand for bounds here
    return figure(name, title, caption, panels, circles, wide=True, finding=finding)


def _chart(rows: pd.DataFrame, styles: Mapping[str, Style], low: float, high: float) -> chart.Specification:
    names = list(rows["name"].unique())
    axis = alt.Axis(domain=False, labelFontSize=12)
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names, scale=alt.Scale(paddingInner=0.25), axis=axis),
        yOffset=alt.YOffset("variant:N", sort=list(styles)),
    )
    ticks = [tick for tick in COARSE_FACTORS if low <= tick <= high]
    if len(ticks) < 4:
        ticks = [tick for tick in FINE_FACTORS if low <= tick <= high]
    domain = [low, high * (high / low) ** 0.2]  # with room for the labels on the right
    title, scale = (
        f"times fewer training tokens than {baseline_of(rows)}",
        alt.Scale(type="log", domain=domain, nice=False),
    )
    axis = alt.Axis(values=ticks, grid=True, labelExpr="datum.label + '×'", format="~g", labelOverlap=True)
    x = alt.X("factor:Q", title=title, scale=scale, axis=axis)
    bounds = alt.Scale(domain=["exact", "at least", "at most"], range=["circle", "triangle-right", "triangle-left"])
    one = alt.Chart(alt.InlineData(values=[{"factor": 1}])).mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(x=x)
    spans = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    points = base.mark_point(size=80, opacity=1, strokeWidth=1.6).encode(
        x=x,
        color=chart.colour(styles),
        shape=alt.Shape("bound:N", scale=bounds, legend=None),
        fill=alt.condition("datum.near_chance", alt.value(LIGHT["paper"]), chart.colour(styles)),
        tooltip=chart.tooltip(
            ("variant:N",),
            ("name:N", "", "measure"),
            ("label:N", "", "factor"),
            ("low:Q", ".2f", "95 % from"),
            ("high:Q", ".2f", "95 % to"),
            ("bound:N",),
            ("near_chance:N", "", "baseline near chance"),
        ),
    )
    fields = ["variant", "task", "metric", "name", "factor", "low", "high", "bound", "near_chance", "label"]
    return chart.layered(
        one,
        spans.mark_rule(strokeWidth=2, strokeOpacity=0.55).encode(
            x=alt.X("low:Q", title=title, scale=scale), x2=alt.X2("high:Q"), color=chart.colour(styles)
        ),
        points,
        base.mark_text(align="right", fontSize=11).encode(x=alt.XValue("width"), text=alt.Text("label:N")),
        data=chart.records(rows, fields),
        width=chart.WIDE,
        height={"step": 18},
    )
