"""Draw what it takes to reach each accuracy or loss, against the baseline."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from dreamer_study.reports.data import without_baseline
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.ratios import (
    DIRECTION,
    known,
    label,
    ratio_axis,
)
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style, present
from dreamer_study.reports.text.names import depth_name, measure_label
from dreamer_study.reports.text.numbers import listed
from dreamer_study.reports.text.ratios import scores


def by_target(
    rows: pd.DataFrame, ratios: pd.DataFrame, styles: Mapping[str, Style]
) -> Figure | None:
    """Draw the ratio (y, logarithmic) and its interval against the value to be reached (x).

    A panel for each depth and measure. `rows` are those of the view `factor_by_target`, of average
    accuracy and losses; `ratios` are those of `StudyData.ratios`, whose scores are marked. None
    without factors.
    """
    rows = without_baseline(rows[rows["ratio"] > 0])
    shown = present(styles, rows)
    answers = known(ratios)
    answers = answers[answers["ratio"].notna()]
    panels = []
    for (depth, metric, task), part in rows.groupby(["depth", "metric", "task"]):
        name = measure_label({"metric": metric, "task": task})
        title = f"{name}, {depth_name(depth).lower()}"
        keys = {"depth": depth, "task": task, "metric": metric}
        marked = answers.merge(pd.DataFrame([keys]))
        marked = marked[marked["variant"].isin(part["variant"])]
        means = [
            f"{row['variant']} {label(row)} at {scores(row)}" for row in marked.to_dict("records")
        ]
        finding = f"{title}, over the marked scores: {listed(means)}." if means else f"{title}."
        drawn = _chart(part, marked, shown, metric)
        panels.append(panel(title, finding, drawn, finding=finding, **keys))
    return figure(
        "ratio-by-value",
        "Ratio at each score",
        f"Training tokens to reach each value, over the baseline’s. {_of_marks(answers)} Bands:"
        " 95 % confidence intervals (CI) at each value.",
        panels,
        shown,
    )


def _of_marks(answers: pd.DataFrame) -> str:
    """Say what the marked scores are."""
    in_advance = answers["in_advance"].astype(bool)
    if len(answers) and in_advance.all():
        return "A dot marks the answer: the ratio at a score that was fixed in advance."
    answer = (
        "The answer is the mean over the marked scores, the upper fifth of those that are compared:"
        " the thick line."
    )
    if in_advance.any():
        return f"{answer} A dot marks the ratio at a score that was fixed in advance."
    return answer


def _chart(
    rows: pd.DataFrame, marked: pd.DataFrame, styles: Mapping[str, Style], metric: str
) -> chart.Specification:
    """Lay bands, curves, and the marked scores with their means over each other."""
    low = min(0.8, float(rows["ratio"].min())) / 1.3
    high = max(1.25, float(rows["ratio"].max())) * 1.3
    rows = rows.assign(
        low=rows["ratio_low"].clip(low, high), high=rows["ratio_high"].clip(low, high)
    )
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = ratio_axis(low, high, is_vertical=True)
    y = alt.Y("ratio:Q", title=DIRECTION, scale=scale, axis=axis)
    ratio_of_one = alt.Chart(alt.InlineData(values=[{"ratio": 1}]))
    line_at_one = ratio_of_one.mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(y=y)
    tooltip = chart.tooltip(("variant:N",), ("target:Q", ".3~g"), ("ratio:Q", ".2f"))
    data = chart.records(rows, ["variant", "target", "ratio", "low", "high"])
    loss = metric == "loss"
    score_axis = alt.Axis(format="~g" if loss else ".0%", tickCount=5)
    x_scale = alt.Scale(zero=False, nice=False, reverse=loss)  # better is to the right
    title = "loss" if loss else "accuracy"
    x = alt.X("target:Q", title=title, axis=score_axis, scale=x_scale)
    base = alt.Chart(data, width=chart.WIDTH, height=chart.HEIGHT).encode(
        x=x, color=chart.colour(styles)
    )
    band = base.mark_area(fillOpacity=0.13).encode(
        y=alt.Y("low:Q", title=DIRECTION), y2=alt.Y2("high:Q")
    )
    lines = chart.line_and_markers(base.encode(y=y), styles, tooltip, size=16)
    answers = alt.Chart(
        chart.records(marked, ["variant", "score_low", "score_high", "ratio"])
    ).encode(
        x=alt.X("score_low:Q", title=title, scale=x_scale),
        x2=alt.X2("score_high:Q"),
        color=chart.colour(styles),
    )
    means = [
        answers.mark_rect(fillOpacity=0.12, strokeOpacity=0),
        answers.mark_rule(strokeWidth=4, strokeCap="round").encode(
            y=y,
            tooltip=chart.tooltip(("variant:N",), ("ratio:Q", ".2f", "mean ratio")),
        ),
    ]
    drawn = means if len(marked) else []
    return chart.layered(*drawn[:1], line_at_one, band, *lines, *drawn[1:])
