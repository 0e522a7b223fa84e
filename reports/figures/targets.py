"""Draw what it takes to reach each accuracy or loss, against the baseline."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from dreamer_study.reports.data import without_baseline
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.efficiency import direction, ratio_axis
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style, present
from dreamer_study.reports.text.names import depth_name, measure_label
from dreamer_study.reports.text.numbers import listed, ratio


def by_target(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw the ratio (y, logarithmic) and its interval against the value to be reached (x).

    A panel for each depth and measure. `rows` are those of the view `factor_by_target`, of average
    accuracy and losses. None without factors.
    """
    rows = without_baseline(rows[rows["factor"] > 0])
    shown = present(styles, rows)
    panels = []
    findings = []
    for (depth, metric, task), part in rows.groupby(["depth", "metric", "task"]):
        name = measure_label({"metric": metric, "task": task})
        from_easiest = part.sort_values("target", ascending=metric == "accuracy")
        ends = from_easiest.groupby("variant")["factor"].agg(["first", "last"])
        ratios = [
            f"{row.Index} from {ratio(row.first)} to {ratio(row.last)}" for row in ends.itertuples()
        ]
        description = f"{name} at {depth_name(depth).lower()}: ratio by value, {listed(ratios)}."
        title = f"{name}, {depth_name(depth).lower()}"
        findings.append(f"{title}, from the easiest to the hardest value: {listed(ratios)}.")
        keys = {"depth": depth, "task": task, "metric": metric}
        panels.append(panel(title, description, _target_chart(part, shown, metric), **keys))
    return figure(
        "ratio-by-value",
        "Difference from the baseline",
        "Training tokens to reach each value, over the baseline’s. The mean ratio is the mean of"
        " this curve. Bands: 95% intervals at each value.",
        panels,
        shown,
        finding="".join(findings[:1]),
    )


def _target_chart(
    rows: pd.DataFrame, styles: Mapping[str, Style], metric: str
) -> chart.Specification:
    ratios = 1 / rows["factor"]
    low = min(0.8, float(ratios.min())) / 1.3
    high = max(1.25, float(ratios.max())) * 1.3
    bands = {"low": (1 / rows["high"]).clip(low, high), "high": (1 / rows["low"]).clip(low, high)}
    rows = rows.assign(ratio=ratios, **bands)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y = alt.Y("ratio:Q", title=direction(rows), scale=scale, axis=ratio_axis(low, high))
    ratio_of_one = alt.Chart(alt.InlineData(values=[{"ratio": 1}]))
    line_at_one = ratio_of_one.mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(y=y)
    tooltip = chart.tooltip(("variant:N",), ("target:Q", ".3~g"), ("ratio:Q", ".2f"))
    data = chart.records(rows, ["variant", "target", "ratio", "low", "high"])
    loss = metric == "loss"
    axis = alt.Axis(format="~g" if loss else ".0%", tickCount=5)
    scale = alt.Scale(zero=False, nice=False, reverse=loss)  # better is to the right
    x = alt.X("target:Q", title="bits per byte" if loss else "accuracy", axis=axis, scale=scale)
    base = alt.Chart(data, width=chart.WIDTH, height=chart.HEIGHT).encode(
        x=x, color=chart.colour(styles)
    )
    band = base.mark_area(fillOpacity=0.13).encode(
        y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q")
    )
    lines = chart.line_and_markers(base.encode(y=y), styles, tooltip, size=16)
    return chart.layered(band, line_at_one, *lines)
