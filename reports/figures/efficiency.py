"""Draw mean ratios of training tokens with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from dreamer_study.reports.data import baseline_of, without_baseline
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style, present
from dreamer_study.reports.text.mean_factors import bounded_ratio
from dreamer_study.reports.text.names import depth_name, measure_label
from dreamer_study.reports.text.numbers import counted, interval
from dreamer_study.sql.names import AVERAGE

TICKS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 10, 20, 50)


def direction(rows: pd.DataFrame) -> str:
    """Name the axis of ratios, whose middle is the baseline."""
    return f"fewer tokens than {baseline_of(rows)}  ←  1  →  more tokens"


def ratio_axis(low: float, high: float) -> alt.Axis:
    """Return the axis of ratios within these limits: fewer ticks where the range is wide."""
    ticks = [tick for tick in TICKS if low <= tick <= high]
    kept = [tick for tick in ticks if len(ticks) < 9 or f"{tick:g}"[-1] in "125"]
    return alt.Axis(
        values=kept, grid=True, labelExpr="datum.label + '×'", format="~g", labelOverlap=True
    )


def mean_factors(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw mean ratios (x, logarithmic) with their 95 % intervals by measure (y).

    A panel for each depth. `rows` are those of `StudyData.mean_factors`. None without factors.
    """
    rows = without_baseline(rows[rows["factor"] > 0])
    rows = rows.sort_values(
        ["task", "metric"], key=lambda names: names.map(lambda name: (name != AVERAGE, name))
    )
    if rows.empty:
        return None
    shown = present(styles, rows)
    records = rows.to_dict("records")
    rows = rows.assign(
        name=[measure_label(row) for row in records],
        label=[_label(row) for row in records],
        ratio=1 / rows["factor"],
        # a ratio is one over a factor: the ends change places
        least=1 / rows["high"],
        most=1 / rows["low"],
    )
    limits = rows[["ratio", "least", "most"]].astype(float)
    low = min(0.8, float(limits.min().min()) / 1.05)
    high = max(1.25, float(limits.max().max()) * 1.05)
    panels = []
    for depth, part in rows.groupby("depth"):
        ratios = [
            f"{row.variant} on {row.name}: {row.label}" for row in part.itertuples(index=False)
        ]
        description = (
            f"Mean ratios at {depth_name(depth).lower()}, {baseline_of(rows)} being 1."
            f" {'; '.join(ratios)}."
        )
        panels.append(
            panel(depth_name(depth), description, _chart(part, shown, low, high), depth=depth)
        )
    # Shapes mean bounds here.
    circles = {name: replace(style, shape="circle") for name, style in shown.items()}
    return figure(
        "mean-ratios",
        f"Training tokens over those of {baseline_of(rows)}",
        "Means over all values that both reached. Lines: 95% intervals. Hollow: of noise. "
        "▸ a lower bound (censored): the variant never reached a tenth or more of the range.",
        panels,
        circles,
        wide=True,
        finding=_finding(rows),
    )


def _label(row: Mapping[str, Any]) -> str:
    text = f"{bounded_ratio(row)}×"
    span = interval(row)
    return f"{text} ({span})" if span else text


def _finding(rows: pd.DataFrame) -> str:
    """Say how many ratios are decided; empty where there is no interval."""
    if rows["low"].isna().all():
        return ""
    beyond_noise = rows[~rows["within_noise"]]
    fewer = int(((beyond_noise["low"] > 1) & ~beyond_noise["bounded"]).sum())
    more = int((beyond_noise["high"] < 1).sum())
    decided = f"Decided: {fewer + more} of {counted(len(rows), 'ratio')}"
    if fewer + more:
        return f"{decided}, {fewer} with fewer tokens and {more} with more."
    return f"{decided}."


def _chart(
    rows: pd.DataFrame, styles: Mapping[str, Style], low: float, high: float
) -> chart.Specification:
    names = list(rows["name"].unique())
    axis = alt.Axis(domain=False, labelFontSize=12)
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names, scale=alt.Scale(paddingInner=0.25), axis=axis),
        yOffset=alt.YOffset("variant:N", sort=list(styles)),
    )
    domain = [low, high * (high / low) ** 0.3]  # with room for the labels on the right
    title = direction(rows)
    scale = alt.Scale(type="log", domain=domain, nice=False)
    x = alt.X("ratio:Q", title=title, scale=scale, axis=ratio_axis(low, high))
    shapes = alt.Scale(domain=[False, True], range=["circle", "triangle-right"])
    ratio_of_one = alt.Chart(alt.InlineData(values=[{"ratio": 1}]))
    line_at_one = ratio_of_one.mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(x=x)
    spans = base.transform_filter("isValid(datum.least) && isValid(datum.most)")
    points = base.mark_point(size=80, opacity=1, strokeWidth=1.6).encode(
        x=x,
        color=chart.colour(styles),
        shape=alt.Shape("bounded:N", scale=shapes, legend=None),
        fill=alt.condition("datum.within_noise", alt.value(LIGHT["paper"]), chart.colour(styles)),
        tooltip=chart.tooltip(
            ("variant:N",), ("name:N", "", "measure"), ("label:N", "", "ratio (95% interval)")
        ),
    )
    fields = [
        "variant",
        "task",
        "metric",
        "name",
        "ratio",
        "least",
        "most",
        "bounded",
        "within_noise",
        "label",
    ]
    return chart.layered(
        line_at_one,
        spans.mark_rule(strokeWidth=2, strokeOpacity=0.55).encode(
            x=alt.X("least:Q", title=title, scale=scale),
            x2=alt.X2("most:Q"),
            color=chart.colour(styles),
        ),
        points,
        base.mark_text(align="right", fontSize=11).encode(
            x=alt.XValue("width"), text=alt.Text("label:N")
        ),
        data=chart.records(rows, fields),
        width=chart.WIDE,
        # no step: Vega-Lite warns of one beside a fitted width
        height=22 * len(names) * rows["variant"].nunique(),
    )
