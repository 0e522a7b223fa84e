"""Draw which experts serve which depths (the paper's Figure 5) and how evenly they are used (its Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from reports.data import BASELINE
from reports.figures import chart
from reports.figures.rendering import Figure, Panel, figure, panel
from reports.style.theme import LIGHT, Style, present
from reports.text.names import depth_name
from reports.text.numbers import listed, number, percent

CURVE_POINTS = 30  # points drawn of each Lorenz curve
# Of a map of experts: with more experts, neighbours are drawn as one, so that no page gets too heavy.
COLUMNS, CELLS = 80, 800
EVEN = [{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}]


def selections(counts: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw how the selections of each expert (x) spread over the depths (y); a panel for each recurrent model.

    `counts` has the rows of `expert_selections` of single depths at the newest checkpoints. None without selections.
    """
    panels = []
    for title, rows, style in chart.one_run_each(counts, runs, styles):
        table = rows.pivot_table(index="depth", columns="expert", values="selections", fill_value=0, aggfunc="sum")
        if style.variant != BASELINE and len(table) > 1 and table.to_numpy().sum() > 0:
            panels.append(_selections_panel(title, table, style, chart.run_keys(rows, runs)))
    return figure(
        "expert-selections",
        "Experts by depth",
        "Every column is an expert, or the mean of a few neighbours where there are many, and its colours how its "
        "selections spread over the depths. Experts that serve few depths are on the left, those that serve many on "
        f"the right. {BASELINE} is not shown: each of its experts belongs to one depth.",
        panels,
        wide=True,
    )


def _selections_panel(title: str, table: pd.DataFrame, style: Style, keys: Mapping[str, Any]) -> Panel:
    """Draw the selections in `table` [depth, expert].

    The paper's order of experts: by the number of depths that have nine tenths of an expert's selections; ties by the
    mean depth of the selections.
    """
    used = table.loc[:, table.sum() > 0]
    shares, depths = (used / used.sum()).to_numpy(), used.index.to_numpy()
    highest_first = -np.sort(-shares, axis=0)
    before = np.cumsum(highest_first, axis=0) - highest_first
    place = np.lexsort((depths @ shares, (before < 0.9).sum(axis=0)))
    columns = min(COLUMNS, CELLS // len(depths), len(place))
    edges = np.linspace(0, len(place), columns + 1).round().astype(int)
    cells = pd.DataFrame(
        [
            {"depth": depth, "share": shares[row, place[start:stop]].mean(), "start": start, "stop": stop}
            for start, stop in pairwise(edges)
            for row, depth in enumerate(depths)
        ]
    )
    cells = cells[cells["share"] >= 0.005]  # fainter ones cannot be seen
    cells = cells.assign(start=cells["start"] / len(place), stop=cells["stop"] / len(place))
    description = (
        f"Depths that select each of {len(place)} experts in {title}: at its strongest depth the most specialised has "
        f"{percent(shares[:, place[0]].max(), 0)} of its selections, the most general "
        f"{percent(shares[:, place[-1]].max(), 0)}."
    )
    axis = alt.Axis(values=chart.depth_ticks(int(depths.max())), domain=False, ticks=False)
    step = min(24, max(9, 260 // len(depths)))
    opacity = alt.Scale(type="sqrt", domain=[0, float(cells["share"].max())], range=[0, 1])
    data = chart.records(cells, ["depth", "share", "start", "stop"])
    base = alt.Chart(data, width=chart.PAGE_WIDTH, height=step * len(depths))
    drawn = base.mark_rect(color=style.light).encode(
        x=chart.percent_axis(alt.X, "start", "share of the experts, from those of few depths to those of many"),
        x2="stop:Q",
        y=alt.Y("depth:O", title="depth", axis=axis, scale=alt.Scale(padding=0.04, domain=depths.tolist())),
        opacity=alt.Opacity("share:Q", scale=opacity, legend=None),
        tooltip=chart.tooltip(("depth:O",), ("share:Q", ".0%", "of the expert’s selections")),
    )
    return panel(title, description, drawn, **keys)


def lorenz(curves: pd.DataFrame, gini: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw Lorenz curves: share of selections (y) of the least selected share of experts (x); a panel for each model.

    `curves` has the rows of `expert_lorenz` at the newest checkpoints, `gini` of `expert_gini`. None without curves.
    """
    panels = []
    for title, rows, style in chart.one_run_each(curves, runs, styles):
        run, tokens = rows[["run_id", "tokens"]].iloc[0]
        whole = gini[(gini["run_id"] == run) & (gini["tokens"] == tokens) & gini["depth"].isna()]
        words = f" Gini coefficient over all depths: {number(whole['gini'].iloc[0], 3)}." if len(whole) else ""
        description = f"Lorenz curves of expert selection in {title}.{words}"
        panels.append(panel(title, description, _lorenz_chart(rows, style), **chart.run_keys(rows, runs)))
    return figure(
        "expert-balance",
        "Lorenz curves of expert selection",
        "Share of all selections that go to the least selected experts; the straight line is perfectly even use. Thin "
        "lines are single depths (some of them where there are many), from the first (faint) to the last (strong); the "
        "dashed line is the whole model, the one to be balanced.",
        panels,
    )


def _lorenz_chart(rows: pd.DataFrame, style: Style) -> alt.LayerChart:
    parts = []
    for _, part in rows.groupby("depth", dropna=False):
        chosen = np.unique(np.linspace(0, len(part) - 1, CURVE_POINTS).round().astype(int))
        parts.append(part.sort_values("rank").iloc[chosen])
    drawn = pd.concat(parts)
    fields = {"depth": "depth", "expert_share": "x", "selection_share": "y"}
    x, y = chart.percent_axis(alt.X, "x", "share of experts"), chart.percent_axis(alt.Y, "y", "share of selections")
    even = alt.Chart(alt.InlineData(values=EVEN), width=chart.WIDTH, height=230)
    layers = [even.mark_line(color=LIGHT["rule"], strokeWidth=1).encode(x=x, y=y)]
    single, whole = drawn[drawn["depth"].notna()], drawn[drawn["depth"].isna()]
    if len(single):
        single = single[single["depth"].isin(chart.depth_ticks(int(single["depth"].max())))]
        opacity = alt.Opacity("depth:Q", scale=alt.Scale(range=[0.2, 0.95], zero=False), legend=None)
        told = chart.tooltip(("depth:Q",), ("x:Q", ".0%"), ("y:Q", ".1%"))
        lines = alt.Chart(chart.records(single, fields)).mark_line(color=style.light, strokeWidth=1.2)
        layers.append(lines.encode(x=x, y=y, detail="depth:N", opacity=opacity, tooltip=told))
    if len(whole):
        line = alt.Chart(chart.records(whole, fields)).mark_line(color=LIGHT["ink"], strokeWidth=1.8, strokeDash=[5, 3])
        layers.append(line.encode(x=x, y=y))
    return alt.layer(*layers)


def balance(gini: pd.DataFrame, diversity: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw balance over training, and the experts that each depth draws on; two panels for each depth of models.

    Left the Gini coefficient (y) against tokens (x), right the experts with 90 % of a depth's selections as a multiple
    of the baseline's (y) against depth (x), both coloured by variant. `gini` has the rows of `expert_gini`,
    `diversity` of `expert_diversity`. None without rows.
    """
    whole = gini[gini["depth"].isna()]
    compared = diversity[(diversity["variant"] != BASELINE) & diversity["ratio"].notna()]
    panels = []
    for depth in sorted({*whole["model_depth"], *compared["model_depth"]}):
        for rows, draw in ((whole, _gini_panel), (compared, _diversity_panel)):
            part = rows[rows["model_depth"] == depth]
            panels += [draw(part, present(styles, part), depth)] if len(part) else []
    return figure(
        "expert-use",
        "Experts used over training and by depth",
        "Gini coefficient of the experts’ selections over the whole model at each checkpoint, a line for each run: 0 "
        "is even use. Experts at a depth: those that together have 90% of its selections, as a multiple of "
        f"{BASELINE}’s at the same depth, at the last checkpoint.",
        panels,
        present(styles, whole, compared),
    )


def _gini_panel(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Panel:
    newest = rows.sort_values("tokens").groupby(["variant", "run_id"], as_index=False).last()
    words = listed([f"{row.variant} {row.gini:.3f}" for row in newest.itertuples()])
    description = f"Gini coefficient of expert selection at {depth_name(depth).lower()}; at the end {words}."
    drawn = chart.run_curves(rows, styles, "gini", zero=True)
    return panel(f"{depth_name(depth)}: Gini coefficient", description, drawn, depth=depth)


def _diversity_panel(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> Panel:
    ratios = rows.groupby("variant")["ratio"].agg(["min", "max"])
    words = [f"{name} {ratios.loc[name, 'min']:.2g} to {ratios.loc[name, 'max']:.2g} times" for name in styles]
    deepest = int(rows["depth"].max())
    x_scale, x_axis = alt.Scale(domain=[1, max(2, deepest)]), alt.Axis(values=chart.depth_ticks(deepest), format="d")
    y_scale = alt.Scale(domain=[0, max(1.2, float(rows["ratio"].max()))], nice=True)
    base = alt.Chart(width=chart.WIDTH, height=chart.HEIGHT).encode(
        x=alt.X("depth:Q", title="depth", scale=x_scale, axis=x_axis),
        y=chart.y_axis("ratio", labelExpr="datum.label + '×'").scale(y_scale),
        color=chart.colour(styles),
    )
    told = chart.tooltip(
        ("variant:N",),
        ("depth:Q",),
        ("ratio:Q", ".2f"),
        ("experts:Q", "", "experts"),
        ("baseline:Q", "", f"{BASELINE}’s"),
    )
    one, label = chart.level(1, BASELINE, LIGHT["v0"], "left")
    names = {"experts_for_90": "experts", "baseline_experts_for_90": "baseline"}
    fields = {"variant": "variant", "depth": "depth", "ratio": "ratio", **names}
    drawn = alt.layer(one, *chart.line_and_markers(base, styles, told), label, data=chart.records(rows, fields))
    title = f"{depth_name(depth)}: experts used, against {BASELINE}"
    return panel(title, f"{title}’s: {listed(words)}.", drawn, depth=depth)
