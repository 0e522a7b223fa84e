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
from reports.text.numbers import duration, fine_factor, listed

DEVICE_TIMES = {"device-hours": 3_600, "device-minutes": 60, "device-seconds": 1}  # in seconds


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


def cost_by_target(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw time of training times devices (y, logarithmic) against the value to be reached (x).

    A panel for each depth and measure. `rows` are those of the view `cost_by_target`, of average accuracy and losses.
    None where no speed is known.
    """
    rows = rows[rows["device_seconds"] > 0]
    if rows.empty:
        return None
    panels, shown, findings = [], present(styles, rows), []
    unit = _unit(float(rows["device_seconds"].max()))
    for (depth, metric, task), part in rows.groupby(["depth", "metric", "task"]):
        name = f"{measure_label({'metric': metric, 'task': task})}, {depth_name(depth).lower()}"
        most = part.groupby("variant")["device_seconds"].max()
        words = [f"{variant} up to {duration(most[variant])}" for variant in shown if variant in most]
        findings.append(f"{name}: {listed(words)}.")
        description = f"Cost of training to each target, {name}: {listed(words)}."
        keys = {"depth": depth, "task": task, "metric": metric}
        panels.append(panel(name, description, _cost_chart(part, shown, metric, unit), **keys))
    return figure(
        "cost-by-target",
        "What each goal costs",
        f"Training time of all devices of a run together, GPUs or CPU cores, to each value that a variant and "
        f"{baseline_of(rows)} both reach. Speeds are means over the training.",
        panels,
        shown,
        finding="".join(findings[:1]),
    )


def _unit(seconds: float) -> str:
    """Return the largest unit of which there are at least 2, else seconds."""
    return next(unit for unit, size in DEVICE_TIMES.items() if seconds >= 2 * size or size == 1)


def _cost_chart(rows: pd.DataFrame, styles: Mapping[str, Style], metric: str, unit: str) -> chart.Specification:
    time = rows["device_seconds"] / DEVICE_TIMES[unit]
    scale = alt.Scale(type="log", domain=[float(time.min()), float(max(time.max(), 1.01 * time.min()))], nice=False)
    y = alt.Y("time:Q", title=unit, scale=scale, axis=alt.Axis(tickCount=5, format="~g", grid=True))
    told = chart.tooltip(("variant:N",), ("target:Q", ".3~g"), ("time:Q", ".3~g", unit), ("tokens:Q", ",.0f"))
    data = chart.records(rows.assign(time=time), ["variant", "target", "time", "tokens"])
    base = alt.Chart(data, width=chart.WIDTH, height=chart.HEIGHT)
    base = base.encode(x=_target_axis(metric), y=y, color=chart.colour(styles))
    return chart.layered(*chart.line_and_markers(base, styles, told, size=16))
