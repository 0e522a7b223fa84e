"""Draw how evenly experts are used: by each depth (the paper's Figure 6), and over training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.data import baseline_of, without_baseline
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, Panel, figure, panel
from dreamer_study.reports.style.theme import LIGHT, RAMP, Style, ordered, present
from dreamer_study.reports.text.names import depth_name
from dreamer_study.reports.text.numbers import listed, number

HEIGHT = 250


def concentration(
    curves: pd.DataFrame, gini_at_end: pd.DataFrame, styles: Mapping[str, Style]
) -> Figure | None:
    """Draw the number of experts (y, logarithmic) that have a share of the selections (x).

    A panel for each model. It has the curves of the single depths, of the whole model, and of the
    baseline of that depth. `curves` has the rows of `expert_concentration`, `gini_at_end` those of
    the view of that name. None without curves.
    """
    panels = []
    models = chart.by_model(curves, styles)
    baseline = baseline_of(curves)
    baselines = {
        rows["model_depth"].iloc[0]: rows
        for _, rows, style, _ in models
        if style.variant == baseline
    }
    for title, rows, style, keys in models:
        depth = rows["model_depth"].iloc[0]
        if style.variant == baseline and len(models) > len(baselines):
            continue  # the baseline is in the panels of the others
        against = baselines.get(depth) if style.variant != baseline else None
        compared = [style.variant] if against is None else [style.variant, baseline]
        text = f"Gini coefficient {_coefficients(gini_at_end, depth, compared)}"
        description = f"Experts against their share of the selections in {title}. {text}."
        drawn = _concentration_chart(rows, against, style, text)
        finding = f"{title}: {text}."
        panels.append(panel(title, description, drawn, finding=finding, **keys))
    return figure(
        "expert-balance",
        "How many experts do the work",
        "The most selected experts, counted on a logarithmic axis, that together have a share of"
        " all selections, at the last checkpoint of one run of each model; as in the paper’s"
        f" Figure 6. Coloured lines are single depths, dotted is the whole model, dashed {baseline}"
        " (the mean of its depths). The Gini coefficient is of the whole model at its last"
        " checkpoint, the mean over its runs; 0 is even use.",
        panels,
        each_finding=True,
    )


def _coefficients(gini_at_end: pd.DataFrame, depth: int, variants: Iterable[str]) -> str:
    """List the Gini coefficients of a depth's models; a dash where experts were not observed."""
    of_depth = gini_at_end[gini_at_end["model_depth"] == depth]
    known = dict(zip(of_depth["variant"], of_depth["gini"], strict=True))
    return listed([f"{name} {number(known.get(name), 3)}" for name in variants])


def _concentration_chart(
    rows: pd.DataFrame, baseline: pd.DataFrame | None, style: Style, text: str
) -> chart.Specification:
    """Layer the curves of single depths, of the whole model and of the baseline, and a text."""
    single = rows[rows["depth"].notna()]
    whole = rows[rows["depth"].isna()]
    x = chart.percent_axis(alt.X, "share", "share of the selections")
    scale = alt.Scale(type="log", domain=[1, max(2, int(rows["experts"].max()))], nice=False)
    axis = alt.Axis(
        values=[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000], format="~s", grid=True
    )
    y = alt.Y("experts:Q", title="experts", scale=scale, axis=axis)
    tooltip = chart.tooltip(("depth:Q",), ("share:Q", ".1%"), ("experts:Q",))
    layers: list[alt.Chart] = []
    if len(single):
        deepest = max(2, int(single["depth"].max()))
        colour = chart.ramp(
            "depth",
            np.linspace(1, deepest, len(RAMP)).tolist(),
            title="depth",
            orient="right",
            gradientLength=120,
            values=chart.depth_ticks(deepest),
            format="d",
        )
        lines = alt.Chart(chart.records(single, ["depth", "experts", "share"])).mark_line(
            strokeWidth=1.2
        )
        layers.append(
            lines.encode(x=x, y=y, detail=alt.Detail("depth:N"), color=colour, tooltip=tooltip)
        )
    if len(whole):
        line = alt.Chart(chart.records(whole, ["experts", "share"]))
        layers.append(
            line.mark_line(color=style.light, strokeWidth=1.6, strokeDash=[1, 3]).encode(x=x, y=y)
        )
    if baseline is not None:
        layered = (
            baseline[baseline["depth"].notna()].groupby("experts", as_index=False)["share"].mean()
        )
        line = alt.Chart(chart.records(layered, ["experts", "share"]))
        layers.append(
            line.mark_line(color=LIGHT["v0"], strokeWidth=2.4, strokeDash=[6, 4]).encode(x=x, y=y)
        )
    written = alt.Chart(alt.InlineData(values=[{"words": text}])).mark_text(
        align="left", baseline="top", fontSize=10
    )
    layers.append(written.encode(x=alt.XValue(6), y=alt.YValue(4), text=alt.Text("words:N")))
    return chart.layered(*layers, width=chart.WIDTH, height=HEIGHT)


def balance(
    gini: pd.DataFrame,
    gini_at_end: pd.DataFrame,
    diversity: pd.DataFrame,
    styles: Mapping[str, Style],
) -> Figure | None:
    """Draw balance over training, and the experts that each depth draws on.

    Two panels for each depth of models. Left the Gini coefficient (y) against tokens (x), right the
    experts with 90 % of a depth's selections as a multiple of the baseline's (y) against depth (x),
    both coloured by variant. `gini` has the rows of `expert_gini`, `gini_at_end` and `diversity`
    those of `gini_at_end` and `expert_diversity`. None without rows.
    """
    whole = gini[gini["depth"].isna()]
    compared = without_baseline(diversity[diversity["ratio"].notna()])
    panels = []
    for depth in sorted({*whole["model_depth"], *compared["model_depth"]}):
        over_training = whole[whole["model_depth"] == depth]
        by_depth = compared[compared["model_depth"] == depth]
        if len(over_training):
            at_end = gini_at_end[gini_at_end["model_depth"] == depth]
            shown = present(styles, over_training)
            panels.append(_gini_panel(over_training, at_end, shown, depth))
        if len(by_depth):
            panels.append(_diversity_panel(by_depth, present(styles, by_depth), depth))
    return figure(
        "expert-use",
        "Experts used over training and by depth",
        "Gini coefficient of the experts’ selections over the whole model at each checkpoint, a"
        " line for each run: 0 is even use. At the end the mean over the runs, in brackets the"
        " lowest and the highest."
        " Experts at a depth: those that together have 90% of its selections, over"
        f" {baseline_of(diversity)}’s there, at the end (in the paper 2 to 11 times).",
        panels,
        present(styles, whole, compared),
    )


def _gini_panel(
    rows: pd.DataFrame, at_end: pd.DataFrame, styles: Mapping[str, Style], depth: int
) -> Panel:
    coefficients = [
        f"{row['variant']} {number(row['gini'], 3)}{_span(row)}"
        for row in ordered(at_end, styles).to_dict("records")
    ]
    description = (
        f"Gini coefficient of expert selection at {depth_name(depth).lower()}, at the end:"
        f" {listed(coefficients)}."
    )
    drawn = chart.run_curves(rows, styles, "gini", zero=True)
    title = f"{depth_name(depth)}: Gini coefficient"
    return panel(title, description, drawn, finding=description, depth=depth)


def _span(row: Mapping[str, Any]) -> str:
    """Say from where to where the runs of a model lie; nothing of one run."""
    if row["lowest"] == row["highest"]:
        return ""
    return f" ({number(row['lowest'], 3)} to {number(row['highest'], 3)})"


def _diversity_panel(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Panel:
    baseline = baseline_of(rows)
    ratios = rows.groupby("variant")["ratio"].agg(["min", "max"])
    spans = [
        f"{name} {ratios.loc[name, 'min']:.2g} to {ratios.loc[name, 'max']:.2g} times"
        for name in styles
    ]
    deepest = int(rows["depth"].max())
    x_scale = alt.Scale(domain=[1, max(2, deepest)])
    x_axis = alt.Axis(values=chart.depth_ticks(deepest), format="d")
    y_scale = alt.Scale(domain=[0, max(1.2, float(rows["ratio"].max()))], nice=True)
    base = alt.Chart(width=chart.WIDTH, height=chart.HEIGHT).encode(
        x=alt.X("depth:Q", title="depth", scale=x_scale, axis=x_axis),
        y=chart.y_axis("ratio", labelExpr="datum.label + '×'").scale(y_scale),
        color=chart.colour(styles),
    )
    tooltip = chart.tooltip(
        ("variant:N",),
        ("depth:Q",),
        ("ratio:Q", ".2f"),
        ("experts_for_90:Q", "", "experts"),
        ("baseline_experts_for_90:Q", "", f"{baseline}’s"),
    )
    line_at_one, name = chart.level(1, baseline, LIGHT["v0"], "left")
    data = chart.records(
        rows, ["variant", "depth", "ratio", "experts_for_90", "baseline_experts_for_90"]
    )
    lines = chart.line_and_markers(base, styles, tooltip)
    drawn = chart.layered(line_at_one, *lines, name, data=data)
    title = f"{depth_name(depth)}: experts used, against {baseline}"
    description = f"{title}’s: {listed(spans)}."
    return panel(title, description, drawn, finding=description, depth=depth)
