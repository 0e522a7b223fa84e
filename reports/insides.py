"""Figures of what goes on inside the models: depth attention, which experts serve which depths, how evenly.

A model with several seeds is drawn by one of its runs: experts have no common order, and maps of several runs blur.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import altair as alt
import numpy as np
import pandas as pd

from reports.drawing import (
    HEIGHT,
    PAGE_WIDTH,
    WIDTH,
    Figure,
    Panel,
    colour,
    dash,
    level,
    panel,
    records,
    shape,
    token_axis,
)
from reports.theme import BASELINE, LIGHT, Style
from reports.words import depth_name, listed, number, percent

CURVE_POINTS = 30  # points drawn of each Lorenz curve
# Of a map of experts: with more experts, neighbours are drawn as one, so that no page gets too heavy.
COLUMNS, CELLS = 80, 800
DEPTHS_WITH_NUMBERS = 8  # up to this depth a map's cells have room for their numbers
EVEN = [{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}]


def drawn_runs(rows: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]) -> list[tuple[str, pd.DataFrame]]:
    """Rows of one run of each model with its title, by depth and variant: a complete run before a screened one, then
    the lowest seed. `runs` has the rows of the table `runs`."""
    known = runs[runs["run_id"].isin(rows["run_id"]) & runs["variant"].isin(styles)]
    place = {name: i for i, name in enumerate(styles)}
    known = known.assign(screened=known["status"] == "screened", place=known["variant"].map(place))
    known = known.sort_values(["depth", "place", "screened", "seed", "run_id"]).drop_duplicates(["depth", "variant"])
    return [
        (f"{row.variant}, {depth_name(row.depth).lower()}", rows[rows["run_id"] == row.run_id])
        for row in known.itertuples()
    ]


def attention(scores: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Mean depth-attention scores (the paper's Figure 4) at the last checkpoint: a panel for each model."""
    panels = []
    for title, rows in drawn_runs(scores[scores["score"].notna()], runs, styles):
        strongest = rows.loc[rows.groupby("query_depth")["score"].idxmax()]
        said = [f"{row.query_depth} to {row.key_depth} ({percent(row.score, 0)})" for row in strongest.itertuples()]
        words = f"Mean depth-attention scores of {title}. Strongest from each depth: {listed(said)}."
        panels.append(panel(title, words, _attention_chart(rows, styles[rows["variant"].iloc[0]])))
    if not panels:
        return None
    small = bool(scores["query_depth"].max() <= DEPTHS_WITH_NUMBERS)
    return Figure(
        name="depth-attention",
        title="Depth attention",
        caption=(
            "Where each depth (rows) looks among itself and the depths before it (columns): mean scores over a sample "
            f"of text{', in per cent' * small}, at the last checkpoint. As in the paper’s Figure 4 every row has the "
            "same colour at its strongest: a row of one even colour would be a plain average of all depths so far."
        ),
        panels=tuple(panels),
    )


def _attention_chart(rows: pd.DataFrame, style: Style) -> alt.LayerChart:
    depths = int(rows["query_depth"].max())
    rows = rows.assign(strength=rows["score"] / rows.groupby("query_depth")["score"].transform("max"))
    axis = alt.Axis(values=_depth_ticks(depths), labelAngle=0, domain=False, ticks=False)
    base = alt.Chart(width=WIDTH, height=WIDTH - 40).encode(
        x=alt.X("key_depth:O", title="to depth", axis=axis, scale=alt.Scale(padding=0.06)),
        y=alt.Y("query_depth:O", title="from depth", axis=axis, scale=alt.Scale(padding=0.06)),
    )
    numbered = depths <= DEPTHS_WITH_NUMBERS
    strongest = 0.6 if numbered else 1  # so that numbers stay legible, in light and dark
    scale = alt.Scale(domain=[0, 1], range=[0.04, strongest], clamp=True)
    strength = alt.Opacity("strength:Q", scale=scale, legend=None)
    cells = base.mark_rect(color=style.light).encode(
        opacity=strength,
        tooltip=[
            alt.Tooltip("query_depth:O", title="from depth"),
            alt.Tooltip("key_depth:O", title="to depth"),
            alt.Tooltip("score:Q", title="mean score", format=".3f"),
            alt.Tooltip("even:Q", title="times an even share", format=".2f"),
        ],
    )
    layers = [cells]
    if numbered:
        layers.append(base.mark_text(fontSize=11, color=LIGHT["ink"]).encode(text="label:N"))
    layered = alt.layer(*layers, data=records(rows, ["query_depth", "key_depth", "score", "strength"]))
    # An even share at depth d is 1 / d.
    return layered.transform_calculate(even="datum.score * datum.query_depth", label="format(100 * datum.score, '.0f')")


def _depth_ticks(depths: int) -> list[int]:
    every = max(1, depths // 8)
    return [depth for depth in range(1, depths + 1) if depth % every == 0 or depth == 1]


def selections(counts: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Which depths select which experts (the paper's Figure 5) at the last checkpoint: a panel for each model whose
    depths share their experts. `counts` has the rows of `expert_selections` that are about a single depth."""
    panels = []
    for title, rows in drawn_runs(counts, runs, styles):
        table = rows.pivot_table(index="depth", columns="expert", values="selections", fill_value=0, aggfunc="sum")
        shared = rows["variant"].iloc[0] != BASELINE and len(table) > 1
        if shared and table.to_numpy().sum() > 0:
            panels.append(_selections_panel(title, table, styles[rows["variant"].iloc[0]]))
    if not panels:
        return None
    return Figure(
        name="expert-selections",
        title="Experts by depth",
        caption=(
            "Every column is an expert, or the mean of a few neighbours where there are many, and its colours how its "
            "selections spread over the depths. Experts that serve few depths are on the left, those that serve many "
            f"on the right. {BASELINE} is not shown: each of its experts belongs to one depth."
        ),
        panels=tuple(panels),
        wide=True,
    )


def _selections_panel(title: str, table: pd.DataFrame, style: Style) -> Panel:
    """`table` [depth, expert] has the selections."""
    used = table.loc[:, table.sum() > 0]
    shares = (used / used.sum()).to_numpy()
    depths = used.index.to_numpy()
    # The paper's order: by the number of depths that have nine tenths of an expert's selections; ties by the depth
    # where they lie.
    highest_first = -np.sort(-shares, axis=0)
    before = np.cumsum(highest_first, axis=0) - highest_first
    breadth = (before < 0.9).sum(axis=0)
    place = np.lexsort((depths @ shares, breadth))
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
    first, last = shares[:, place[0]].max(), shares[:, place[-1]].max()
    words = (
        f"Depths that select each of {len(place)} experts in {title}: at its strongest depth the most specialised has "
        f"{percent(first, 0)} of its selections, the most general {percent(last, 0)}."
    )
    y_axis = alt.Axis(values=_depth_ticks(int(depths.max())), domain=False, ticks=False)
    step = min(24, max(9, 260 // len(depths)))
    chart = alt.Chart(records(cells, ["depth", "share", "start", "stop"]), width=PAGE_WIDTH, height=step * len(depths))
    chart = chart.mark_rect(color=style.light).encode(
        x=alt.X(
            "start:Q",
            title="share of the experts, from those of few depths to those of many",
            axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
            scale=alt.Scale(domain=[0, 1]),
        ),
        x2="stop:Q",
        y=alt.Y("depth:O", title="depth", axis=y_axis, scale=alt.Scale(padding=0.04, domain=depths.tolist())),
        opacity=alt.Opacity(
            "share:Q", scale=alt.Scale(type="sqrt", domain=[0, float(cells["share"].max())], range=[0, 1]), legend=None
        ),
        tooltip=[
            alt.Tooltip("depth:O"),
            alt.Tooltip("share:Q", title="of the expert’s selections", format=".0%"),
        ],
    )
    return panel(title, words, chart)


def lorenz(curves: pd.DataFrame, gini: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Lorenz curves of expert selection (the paper's Figure 6) at the last checkpoint: a panel for each model."""
    panels = []
    for title, rows in drawn_runs(curves, runs, styles):
        run, tokens = rows[["run_id", "tokens"]].iloc[0]
        whole = gini[(gini["run_id"] == run) & (gini["tokens"] == tokens) & gini["depth"].isna()]
        said = f" Gini coefficient over all depths: {number(whole['gini'].iloc[0], 3)}." if len(whole) else ""
        words = f"Lorenz curves of expert selection in {title}.{said}"
        panels.append(panel(title, words, _lorenz_chart(rows, styles[rows["variant"].iloc[0]])))
    if not panels:
        return None
    return Figure(
        name="expert-balance",
        title="Expert balance",
        caption=(
            "Share of all selections that go to the least selected experts; the straight line is perfectly even use. "
            "Thin lines are single depths (some of them where there are many), from the first (faint) to the last "
            "(strong); the dashed line is the whole model, the one to be balanced."
        ),
        panels=tuple(panels),
    )


def _lorenz_chart(rows: pd.DataFrame, style: Style) -> alt.LayerChart:
    parts = []
    for _, part in rows.groupby("depth", dropna=False):
        chosen = np.unique(np.linspace(0, len(part) - 1, CURVE_POINTS).round().astype(int))
        parts.append(part.sort_values("rank").iloc[chosen])
    drawn = pd.concat(parts)
    fields = {"depth": "depth", "expert_share": "x", "selection_share": "y"}
    axis = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    x = alt.X("x:Q", title="share of experts", axis=axis, scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("y:Q", title="share of selections", axis=axis, scale=alt.Scale(domain=[0, 1]))
    size = {"width": WIDTH, "height": 230}
    even = alt.Chart(alt.InlineData(values=EVEN), **size).mark_line(color=LIGHT["rule"], strokeWidth=1).encode(x=x, y=y)
    layers = [even]
    by_depth = drawn[drawn["depth"].isin(_depth_ticks(int(rows["depth"].max())))] if rows["depth"].notna().any() else []
    if len(by_depth):
        opacity = alt.Opacity("depth:Q", scale=alt.Scale(range=[0.2, 0.95], zero=False), legend=None)
        tooltip = [alt.Tooltip("depth:Q"), alt.Tooltip("x:Q", format=".0%"), alt.Tooltip("y:Q", format=".1%")]
        lines = alt.Chart(records(by_depth, fields)).mark_line(color=style.light, strokeWidth=1.2)
        layers.append(lines.encode(x=x, y=y, detail="depth:N", opacity=opacity, tooltip=tooltip))
    whole = drawn[drawn["depth"].isna()]
    if len(whole):
        line = alt.Chart(records(whole, fields)).mark_line(color=LIGHT["ink"], strokeWidth=1.8, strokeDash=[5, 3])
        layers.append(line.encode(x=x, y=y))
    return alt.layer(*layers)


def balance(gini: pd.DataFrame, diversity: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """How balance changes over training, and how many experts each depth draws on against the baseline: two panels for
    each model depth. `gini` has the rows of `expert_gini`, `diversity` of `expert_diversity`."""
    whole = gini[gini["depth"].isna()]
    compared = diversity[(diversity["variant"] != BASELINE) & diversity["ratio"].notna()]
    panels = []
    for depth in sorted({*whole["model_depth"], *compared["model_depth"]}):
        panels += _gini_panel(whole[whole["model_depth"] == depth], styles, depth)
        panels += _diversity_panel(compared[compared["model_depth"] == depth], styles, depth)
    if not panels:
        return None
    seen = {*whole["variant"], *compared["variant"]}
    return Figure(
        name="expert-use",
        title="Expert use",
        caption=(
            "Gini coefficient of the experts’ selections over the whole model at each checkpoint, a line for each "
            f"run: 0 is even use. Experts at a depth: those that together have 90% of its selections, as a multiple "
            f"of {BASELINE}’s at the same depth, at the last checkpoint."
        ),
        panels=tuple(panels),
        marks=tuple(style for name, style in styles.items() if name in seen),
    )


def _gini_panel(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> list[Panel]:
    if rows.empty:
        return []
    shown = {name: style for name, style in styles.items() if name in set(rows["variant"])}
    last = rows.sort_values("tokens").groupby(["variant", "run_id"], as_index=False).last()
    said = [f"{row.variant} {row.gini:.3f}" for row in last.itertuples()]
    base = alt.Chart(width=WIDTH, height=HEIGHT).encode(
        x=token_axis(rows["tokens"]),
        y=alt.Y("gini:Q", title=None, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=5)),
        color=colour(shown),
        detail="run_id:N",
    )
    tooltip = ["variant:N", alt.Tooltip("tokens:Q", format=","), alt.Tooltip("gini:Q", format=".3f")]
    lines = base.mark_line(strokeWidth=1.8).encode(strokeDash=dash(shown))
    points = base.mark_point(filled=True, size=30, opacity=1).encode(shape=shape(shown), tooltip=tooltip)
    chart = alt.layer(lines, points, data=records(rows, ["variant", "run_id", "tokens", "gini"]))
    words = f"Gini coefficient of expert selection at {depth_name(depth).lower()}; at the end {listed(said)}."
    return [panel(f"{depth_name(depth)}: Gini coefficient", words, chart)]


def _diversity_panel(rows: pd.DataFrame, styles: Mapping[str, Style], depth: int) -> list[Panel]:
    if rows.empty:
        return []
    shown = {name: style for name, style in styles.items() if name in set(rows["variant"])}
    said = [
        f"{name} {part['ratio'].min():.2g} to {part['ratio'].max():.2g} times"
        for name in shown
        for part in [rows[rows["variant"] == name]]
    ]
    deepest = int(rows["depth"].max())
    x = alt.X(
        "depth:Q",
        title="depth",
        scale=alt.Scale(domain=[1, max(2, deepest)]),
        axis=alt.Axis(values=_depth_ticks(deepest), format="d"),
    )
    y = alt.Y(
        "ratio:Q",
        title=None,
        scale=alt.Scale(domain=[0, max(1.2, float(rows["ratio"].max()))], nice=True),
        axis=alt.Axis(tickCount=5, labelExpr="datum.label + '×'"),
    )
    base = alt.Chart(width=WIDTH, height=HEIGHT).encode(x=x, y=y, color=colour(shown))
    tooltip = [
        "variant:N",
        "depth:Q",
        alt.Tooltip("ratio:Q", format=".2f"),
        alt.Tooltip("experts:Q", title="experts"),
        alt.Tooltip("baseline:Q", title=f"{BASELINE}’s"),
    ]
    one, words = level(1, BASELINE, LIGHT["v0"], "left")
    lines = base.mark_line(strokeWidth=1.8).encode(strokeDash=dash(shown))
    points = base.mark_point(filled=True, size=34, opacity=1).encode(shape=shape(shown), tooltip=tooltip)
    names = {"experts_for_90": "experts", "baseline_experts_for_90": "baseline"}
    fields = {"variant": "variant", "depth": "depth", "ratio": "ratio", **names}
    chart = alt.layer(one, lines, points, words, data=records(rows, fields))
    title = f"{depth_name(depth)}: experts used, against {BASELINE}"
    return [panel(title, f"{title}’s: {listed(said)}.", chart)]
