"""Draw the answer by the size of the models: ratios with their intervals, and the line."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.ratios import DIRECTION, EDGE, ratio_axis
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style, present, styles
from dreamer_study.reports.text.sizes import finding, sentence
from dreamer_study.sql.names import AT_LEAST, AT_MOST
from dreamer_study.sql.statistics.sizes import SizeComparison, task_words

BESIDE = 1.15  # times the smallest and the largest size: where the axis ends
BEYOND = 2.0  # times the outermost ratio: further out an interval is cut


def ratios_by_size(sizes: SizeComparison, size: str) -> Figure:
    """Draw ratios (y) against FLOPs a token (x), both logarithmic, a panel for each measure.

    `size` is what the studies differ in, in the words of the user.
    """
    ratios = sizes.ratios
    baseline = ratios["baseline"].iloc[0]
    # no number of a baseline is drawn, whose style is the first
    looks = present(styles([baseline, *ratios["variant"].unique()]), ratios)
    panels = []
    for (task, metric), rows in ratios.groupby(["task", "metric"], sort=False):
        question = {"task": task, "metric": metric}
        lines = sizes.lines.merge(pd.DataFrame([question]))
        trends = sizes.trends.merge(pd.DataFrame([question])).to_dict("records")
        title = task_words(question)
        findings = [f"{row['variant']}: {finding(row, baseline)}" for row in trends]
        said = " ".join([sentence(row, baseline) for row in trends])
        drawn = _chart(rows, lines, looks)
        panels.append(panel(title, said, drawn, finding=" ".join(findings), **question))
    sizes_in_order = ratios.sort_values("flops_per_token")["size"].unique()
    listed = ", ".join(map(str, sizes_in_order))
    made = figure(
        "ratio-by-size",
        "The answer by size",
        f"Training tokens over those of {baseline} to equal scores, by {size}: {listed}. Vertical"
        " lines: 95 % confidence intervals (CI). A triangle is a bound, which is not on the line."
        " Lines and bands: straight lines in logarithms through the ratios, with 95 % CI.",
        panels,
        looks,
    )
    assert made is not None, "a panel for each measure"
    return made


def _chart(
    rows: pd.DataFrame, lines: pd.DataFrame, looks: Mapping[str, Style]
) -> chart.Specification:
    """Lay the line at 1, the bands, the lines, the intervals and the points over each other."""
    rows = rows[rows["value"].notna()]
    shown = pd.concat([rows["value"], lines["ratio"]]).astype(float)
    lowest = min(0.8, float(shown.min())) / EDGE
    highest = max(1.25, float(shown.max())) * EDGE
    ends = pd.concat([rows["low"], lines["low"]]).astype(float)
    tops = pd.concat([rows["high"], lines["high"]]).astype(float)
    low = max(min(lowest, float(ends.min()) if ends.notna().any() else lowest), lowest / BEYOND)
    high = min(max(highest, float(tops.max()) if tops.notna().any() else highest), highest * BEYOND)
    sizes = rows["flops_per_token"].astype(float)
    x_scale = alt.Scale(type="log", domain=[sizes.min() / BESIDE, sizes.max() * BESIDE], nice=False)
    x_axis = alt.Axis(values=sorted(set(sizes)), format=".3~s", labelOverlap="greedy", grid=False)
    y_scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("flops:Q", title="FLOPs a token", scale=x_scale, axis=x_axis)
    y = alt.Y(
        "value:Q", title=DIRECTION, scale=y_scale, axis=ratio_axis(low, high, is_vertical=True)
    )
    at_one = alt.Chart(alt.InlineData(values=[{"value": 1}]))
    line_at_one = at_one.mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(y=y)
    fitted = lines.assign(
        flops=lines["flops_per_token"],
        value=lines["ratio"],
        low=lines["low"].astype(float).clip(low, high),
        high=lines["high"].astype(float).clip(low, high),
    )
    base = alt.Chart(chart.records(fitted, ["variant", "flops", "value", "low", "high"]))
    base = base.encode(x=x, color=chart.colour(looks))
    band = base.mark_area(fillOpacity=0.13).encode(
        y=alt.Y("low:Q", title=DIRECTION), y2=alt.Y2("high:Q")
    )
    line = base.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=chart.dash(looks))
    of_line = [band, line] if len(lines) else []
    points = _points(rows, looks, x, y, (low, high))
    return chart.layered(line_at_one, *of_line, *points, width=chart.WIDTH, height=chart.HEIGHT)


def _points(
    rows: pd.DataFrame, looks: Mapping[str, Style], x: alt.X, y: alt.Y, ends: tuple[float, float]
) -> list[alt.Chart]:
    """Draw each ratio with its interval, and each bound as a triangle that points away from it."""
    own = {name: style.vega_shape for name, style in looks.items()}
    of_bounds = {AT_LEAST: "triangle-up", AT_MOST: "triangle-down"}
    shapes = [
        of_bounds.get(bound) or own[variant]
        for bound, variant in zip(rows["bound"], rows["variant"], strict=True)
    ]
    is_ratio = rows["bound"].eq("")
    points = rows.assign(
        flops=rows["flops_per_token"],
        symbol=shapes,
        low=rows["low"].astype(float).clip(*ends).where(is_ratio),
        high=rows["high"].astype(float).clip(*ends).where(is_ratio),
    )
    fields = ["variant", "flops", "size", "value", "low", "high", "bound", "symbol", "study"]
    base = alt.Chart(chart.records(points, fields)).encode(x=x, color=chart.colour(looks))
    told = chart.tooltip(
        ("variant:N",), ("study:N",), ("size:Q", ".3~s"), ("bound:N",), ("value:Q", ".2f", "ratio")
    )
    intervals = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    return [
        intervals.mark_rule(strokeWidth=1.6, strokeOpacity=0.6).encode(
            y=alt.Y("low:Q", title=DIRECTION), y2=alt.Y2("high:Q")
        ),
        base.mark_point(filled=True, size=56, opacity=1).encode(
            y=y, shape=alt.Shape("symbol:N", scale=None, legend=None), tooltip=told
        ),
    ]
