"""Draw the ratios of many variants on one task, one line each: a forest."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.data import baseline_of
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.ratios import (
    DIRECTION,
    EDGE,
    SHAPES,
    known,
    label,
    ratio_axis,
)
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT
from dreamer_study.reports.text.names import ability_name, panel_name

ROW = 18  # pixels of a variant
SAME = 1e-9  # of a score
FARTHEST = 20.0  # an interval that says no more than this is cut there


def forest(rows: pd.DataFrame, task: str, metric: str) -> Figure | None:
    """Draw the ratio of each variant on a task, the lowest first, with its 95 % interval.

    Variants with a lower bound in place of a ratio come last. A ratio whose interval is not known
    has no line, and one at scores short of the baseline's best is grey. `rows` are those of
    `StudyData.ratios` with the column `baseline_best`. None without a ratio or bound.
    """
    rows = known(rows[(rows["task"] == task) & (rows["metric"] == metric)])
    if rows.empty:
        return None
    has_no_end = rows["ratio"].isna() & rows["low"].notna()
    rows = rows.assign(has_no_end=has_no_end).sort_values(["has_no_end", "shown", "variant"])
    rows = rows.assign(
        label=[label(row) for row in rows.to_dict("records")],
        excludes_one=(rows["low"] > 1) | (rows["high"] < 1),
        colour=np.where(_is_short_of_best(rows), LIGHT["muted"], LIGHT["v1"]),
    )
    lowest = min(float(rows["shown"].min()), 1.0)
    highest = max(float(rows["shown"].max()), 1.0)
    # no end of an interval may be known
    first = min(lowest, float(rows["low"].fillna(lowest).min()))
    last = max(highest, float(rows["high"].fillna(highest).max()))
    low = max(first, lowest / FARTHEST) / EDGE
    high = min(last, highest * FARTHEST) * EDGE
    # the line of a bound leads to the edge
    has_line = rows["low"].notna() | rows["high"].notna() | (rows["bound"] != "")
    rows = rows.assign(
        least=rows["low"].clip(lower=low).fillna(low).where(has_line, rows["shown"]),
        most=rows["high"].clip(upper=high).fillna(high).where(has_line, rows["shown"]),
    )
    panels = []
    for depth, part in rows.groupby("depth"):
        said = "; ".join(f"{row.variant} {row.label}" for row in part.itertuples(False))
        drawn = _chart(part, low, high)
        title = panel_name(depth, rows["depth"])
        panels.append(panel(title, f"Ratios: {said}.", drawn, depth=depth))
    name = ability_name(task)
    return figure(
        f"forest-{name}",
        f"{name}: training tokens divided by those of {baseline_of(rows)}",
        f"To equal {metric}. Logarithmic axis. Lines: 95 % confidence intervals over seeds and"
        f" items, without correction for the number of architectures.{_of_marks(rows, has_line)}",
        panels,
        wide=True,
    )


def _is_short_of_best(rows: pd.DataFrame) -> pd.Series:
    """Tell which ratios are at scores that end short of the baseline's best."""
    end, best = rows["score_high"], rows["baseline_best"]
    differs = (end - best).abs() > SAME * best.abs()
    return rows["ratio"].notna() & differs


def _of_marks(rows: pd.DataFrame, has_line: pd.Series) -> str:
    """Explain filled and hollow marks, and the triangles and grey lines that are there."""
    text = " Filled: the interval excludes 1."
    if _is_short_of_best(rows).any():
        text += f" Grey: the scores end short of the best of {baseline_of(rows)}."
    if not has_line.all():
        text += " Hollow without a line: the interval is not known."
    if (rows["bound"] != "").any():
        text += " A triangle is a bound: the true ratio lies on the side to which it points."
    return text


def _chart(rows: pd.DataFrame, low: float, high: float) -> chart.Specification:
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y = alt.Y(
        "variant:N",
        title=None,
        sort=list(rows["variant"]),
        axis=chart.name_axis(rows["variant"], labelFontSize=11),
    )
    axis = ratio_axis(low, high, title=DIRECTION)
    x = alt.X("shown:Q", title=DIRECTION, scale=scale, axis=axis)
    one = alt.Chart(chart.records(pd.DataFrame([{"shown": 1.0}]), ["shown"]))
    fields = ["variant", "shown", "least", "most", "bound", "label", "excludes_one", "colour"]
    base = alt.Chart(chart.records(rows, fields)).encode(y=y)
    stroke = alt.Stroke("colour:N", scale=None, legend=None)
    lines = base.mark_rule(strokeWidth=1.4).encode(
        x=alt.X("least:Q", scale=scale), x2="most:Q", stroke=stroke
    )
    shapes = alt.Scale(domain=["", *SHAPES], range=["circle", *SHAPES.values()])
    filled = alt.condition(
        "datum.excludes_one",
        alt.Fill("colour:N", scale=None, legend=None),
        alt.value(LIGHT["paper"]),
    )
    marks = base.mark_point(size=60, opacity=1, strokeWidth=1.4).encode(
        x=x,
        stroke=stroke,
        fill=filled,
        shape=alt.Shape("bound:N", scale=shapes, legend=None),
        tooltip=chart.tooltip(("variant:N",), ("label:N", "", "ratio (95 % CI)")),
    )
    rule = one.mark_rule(color=LIGHT["rule"]).encode(x=x)
    return chart.layered(rule, lines, marks, width=chart.WIDE, height=ROW * len(rows))
