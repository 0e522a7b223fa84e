"""Draw what it takes to reach each accuracy or loss: the factor against the baseline, and the cost of training."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from reports.data import baseline_of, without_baseline
from reports.figures import chart
from reports.figures.efficiency import FINE_FACTORS
from reports.figures.rendering import Figure, figure, panel
from reports.style.theme import LIGHT, Style, present
from reports.text.names import depth_name, measure_label
from reports.text.numbers import fine_factor, listed


def by_target(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw the factor (y, logarithmic) against the value to be reached (x); a panel for each depth and measure.

    `rows` are those of the view `factor_by_target`, of average accuracy and losses. None without factors.
    """
    rows = without_baseline(rows[rows["factor"] > 0])
    panels, shown, findings = [], present(styles, rows), []
    for (depth, metric, task), part in rows.groupby(["depth", "metric", "task"]):
        name = measure_label({"metric": metric, "task": task})
        ends = part.sort_values("target", ascending=metric == "accuracy").groupby("variant")["factor"]
        ends = ends.agg(["first", "last"])
        words = [f"{row.Index} from {fine_factor(row.first)} to {fine_factor(row.last)}" for row in ends.itertuples()]
        description = f"{name} at {depth_name(depth).lower()}: factor by target, {listed(words)}."
        title = f"{name}, {depth_name(depth).lower()}"
        findings.append(f"{title}, by best estimate from the easiest to the hardest value: {listed(words)}.")
        keys = {"depth": depth, "task": task, "metric": metric}
        panels.append(panel(title, description, _target_chart(part, shown, metric), **keys))
    return figure(
        "factor-by-target",
        "Where a variant is ahead",
        f"How many times fewer training tokens than {baseline_of(rows)} a variant needs to reach each value, above "
        "1 fewer and "
        "below 1 more. The mean factor is the mean of this curve. Loss is in bits per byte, lower is better.",
        panels,
        shown,
        finding="".join(findings[:1]),
    )


def _target_chart(rows: pd.DataFrame, styles: Mapping[str, Style], metric: str) -> chart.Specification:
    low, high = min(0.8, float(rows["factor"].min())), max(1.25, float(rows["factor"].max()))
    ticks = [tick for tick in FINE_FACTORS if low <= tick <= high]
    y = alt.Y(
        "factor:Q",
        title=None,
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=ticks, labelExpr="datum.label + '×'", format="~g"),
    )
    one = alt.Chart(alt.InlineData(values=[{"factor": 1}])).mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(y=y)
    told = chart.tooltip(("variant:N",), ("target:Q", ".3~g"), ("factor:Q", ".2f"))
    data = chart.records(rows, ["variant", "target", "factor"])
    base = alt.Chart(data, width=chart.WIDTH, height=chart.HEIGHT).encode(
        x=_target_axis(metric), y=y, color=chart.colour(styles)
    )
    return chart.layered(one, *chart.line_and_markers(base, styles, told, size=16))


def _target_axis(metric: str) -> alt.X:
    """Return the axis of accuracies or losses, better to the right."""
    loss = metric == "loss"
    return alt.X(
        "target:Q",
        title="bits per byte" if loss else "accuracy",
        axis=alt.Axis(format="~g" if loss else ".0%", tickCount=5),
        scale=alt.Scale(zero=False, nice=False, reverse=loss),
    )
