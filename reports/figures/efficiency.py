"""Draw the data-efficiency factors (DE in the paper's Table 2) with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import altair as alt
import numpy as np
import pandas as pd

from reports.data import BASELINE
from reports.figures import chart
from reports.figures.rendering import Figure, figure, panel
from reports.style.theme import LIGHT, Style, present
from reports.text.names import depth_name, task_name, task_order
from reports.text.numbers import factor

COARSE_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100)
FINE_FACTORS = (0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5)


def factors(efficiency: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw factors (x, logarithmic) with their 95 % intervals by task (y), coloured by variant; a panel for each depth.

    `efficiency` has the rows of `StudyData.efficiency`. The marker's shape is the bound. None without factors.
    """
    rows = efficiency[(efficiency["variant"] != BASELINE) & (efficiency["factor"] > 0)]
    if rows.empty:
        return None
    shown = present(styles, rows)
    limits = rows[["factor", "low", "high"]].astype(float).replace([np.inf, 0], np.nan)
    low, high = min(0.8, float(limits.min().min()) / 1.15), max(1.6, float(limits.max().max()) * 1.05)
    rows = rows.assign(
        name=rows["task"].map(task_name),
        label=rows["bound"].map({"at least": "≥ ", "at most": "≤ "}).fillna("") + rows["factor"].map(factor) + "×",
        start=rows["low"].clip(lower=low),  # an end of 0 or infinity is open: drawn to the edge
        stop=rows["high"].clip(upper=high),
    )
    panels = []
    for depth, part in rows.groupby("depth"):
        words = [f"{row['variant']} on {row['name']}: {row['label']}" for row in part.to_dict("records")]
        description = f"Data-efficiency factors at {depth_name(depth).lower()}, {BASELINE} being 1. {'; '.join(words)}."
        panels.append(panel(depth_name(depth), description, _chart(part, shown, low, high)))
    return figure(
        "data-efficiency",
        "Data efficiency",
        f"How many times fewer training tokens than {BASELINE} each variant needs to reach {BASELINE}’s best accuracy. "
        "Lines: 95% bootstrap intervals, those that run to the edge being open. ▸ at least: reached at the first "
        "checkpoint. ◂ at most: not reached. Hollow: the baseline is near chance.",
        panels,
        {name: replace(style, shape="circle") for name, style in shown.items()},  # shapes stand for bounds here
        wide=True,
    )


def _chart(rows: pd.DataFrame, styles: Mapping[str, Style], low: float, high: float) -> alt.LayerChart:
    names = [task_name(task) for task in task_order(rows["task"], average_first=True)]
    axis = alt.Axis(domain=False, labelFontSize=12)
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names, scale=alt.Scale(paddingInner=0.25), axis=axis),
        yOffset=alt.YOffset("variant:N", sort=list(styles)),
    )
    ticks = [tick for tick in COARSE_FACTORS if low <= tick <= high]
    if len(ticks) < 4:
        ticks = [tick for tick in FINE_FACTORS if low <= tick <= high]
    domain = [low, high * (high / low) ** 0.2]  # with room for the labels on the right
    title, scale = f"times fewer training tokens than {BASELINE}", alt.Scale(type="log", domain=domain, nice=False)
    axis = alt.Axis(values=ticks, grid=True, labelExpr="datum.label + '×'", format="~g", labelOverlap=True)
    x = alt.X("factor:Q", title=title, scale=scale, axis=axis)
    bounds = alt.Scale(domain=["exact", "at least", "at most"], range=["circle", "triangle-right", "triangle-left"])
    one = alt.Chart(alt.InlineData(values=[{"factor": 1}])).mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(x=x)
    spans = base.transform_filter("isValid(datum.start) && isValid(datum.stop)")
    points = base.mark_point(size=80, opacity=1, strokeWidth=1.6).encode(
        x=x,
        color=chart.colour(styles),
        shape=alt.Shape("bound:N", scale=bounds, legend=None),
        fill=alt.condition("datum.near_chance", alt.value(LIGHT["paper"]), chart.colour(styles)),
        tooltip=chart.tooltip(
            ("variant:N",),
            ("name:N", "", "benchmark"),
            ("label:N", "", "factor"),
            ("low:Q", ".2f", "95 % from"),
            ("high:Q", ".2f", "95 % to"),
            ("bound:N",),
            ("near_chance:N", "", "baseline near chance"),
        ),
    )
    fields = ["variant", "name", "factor", "low", "high", "bound", "near_chance", "label", "start", "stop"]
    return alt.layer(
        one,
        spans.mark_rule(strokeWidth=2, opacity=0.55).encode(
            x=alt.X("start:Q", title=title, scale=scale), x2="stop:Q", color=chart.colour(styles)
        ),
        points,
        base.mark_text(align="right", fontSize=11).encode(x=alt.value("width"), text="label:N"),
        data=chart.records(rows, fields),
        width=chart.WIDE,
        height={"step": 18},
    )
