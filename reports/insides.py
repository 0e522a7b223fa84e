"""Figures of what goes into the models and on inside them: the data funnel, expert balance, depth attention."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from reports.drawing import COUNT_LABEL, WIDTH, Figure, Panel, panel, records
from reports.theme import LIGHT, Style
from reports.words import depth_name, listed, number, percent, stage_name

CURVE_POINTS = 60  # points drawn of each Lorenz curve
EVEN = [{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}]
KEPT, DROPPED = LIGHT["kept"], LIGHT["dropped"]


def funnel(rows: pd.DataFrame, curation: pd.DataFrame) -> Figure | None:
    """Documents kept and dropped by every stage, and for which reasons, over all sources."""
    if rows.empty:
        return None
    order = [stage_name(stage) for stage in rows["stage"]]
    stages = rows.assign(name=order).melt(["name", "documents"], ["kept", "dropped"], "fate", "count")
    base = alt.Chart(records(stages, ["name", "fate", "count"]), width=WIDTH, height={"step": 26})
    y = alt.Y(
        "name:N", title=None, sort=order, axis=alt.Axis(domain=False, labelLimit=150), scale=alt.Scale(padding=0.3)
    )
    x = alt.X("count:Q", title="documents", axis=alt.Axis(labelExpr=COUNT_LABEL, tickCount=4, grid=True), stack="zero")
    bars = base.mark_bar().encode(
        y=y,
        x=x,
        color=alt.Color("fate:N", scale=alt.Scale(domain=["kept", "dropped"], range=[KEPT, DROPPED]), legend=None),
        order=alt.Order("fate:N", sort="descending"),
        tooltip=[alt.Tooltip("name:N", title="stage"), alt.Tooltip("fate:N"), alt.Tooltip("count:Q", format=",")],
    )
    said = [f"{stage_name(row.stage)} kept {number(row.kept)} of {number(row.documents)}" for row in rows.itertuples()]
    panels = [panel("Documents by stage", f"Documents kept by each stage: {listed(said)}.", bars)]
    dropped = _reasons(rows, curation)
    if len(dropped):
        panels.append(_reasons_panel(dropped))
    return Figure(
        name="data-funnel",
        title="The data funnel",
        caption="Documents that each stage kept (light) and dropped (dark), and how many were dropped for each reason.",
        panels=tuple(panels),
    )


def _reasons(rows: pd.DataFrame, curation: pd.DataFrame) -> pd.DataFrame:
    """Documents dropped by stage and reason, in the order of the stages, most frequent first."""
    part = curation[(curation["reason"] != "kept") & (curation["documents"] > 0)]
    sums = part.groupby(["stage", "reason"], as_index=False)["documents"].sum()
    place = {stage: i for i, stage in enumerate(rows["stage"])}
    sums = sums.assign(place=sums["stage"].map(place)).sort_values(["place", "documents"], ascending=[True, False])
    return sums.assign(name=[f"{stage_name(row.stage)}: {row.reason}".replace("_", " ") for row in sums.itertuples()])


def _reasons_panel(dropped: pd.DataFrame) -> Panel:
    dropped = dropped.assign(label=dropped["documents"].map(number))
    base = alt.Chart(records(dropped, ["name", "documents", "label"]), width=WIDTH, height={"step": 20}).encode(
        y=alt.Y(
            "name:N",
            title=None,
            sort=list(dropped["name"]),
            axis=alt.Axis(domain=False, labelLimit=230),
            scale=alt.Scale(padding=0.25),
        ),
        x=alt.X(
            "documents:Q", title=None, axis=None, scale=alt.Scale(domain=[0, 1.25 * float(dropped["documents"].max())])
        ),
    )
    bars = base.mark_bar(color=DROPPED)
    labels = base.mark_text(align="left", dx=4, fontSize=10, color=LIGHT["muted"]).encode(text="label:N")
    said = [f"{row.name_}, {row.label}" for row in dropped.rename(columns={"name": "name_"}).itertuples()]
    return panel("Dropped, by reason", f"Documents dropped: {'; '.join(said)}.", alt.layer(bars, labels))


def lorenz(curves: pd.DataFrame, gini: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Lorenz curves of expert selection (the paper's Figure 6), a panel for each run, at its last checkpoint with "
    "counts."""
    curves = curves[curves["tokens"] == curves.groupby("run_id")["tokens"].transform("max")] if len(curves) else curves
    panels = []
    for run, rows in _runs(curves, styles):
        whole = gini[(gini["run_id"] == run) & (gini["tokens"] == rows["tokens"].iloc[0]) & gini["depth"].isna()]
        said = f" Gini coefficient over all depths: {number(whole['gini'].iloc[0], 3)}." if len(whole) else ""
        variant, depth = rows["variant"].iloc[0], int(rows["model_depth"].iloc[0])
        title = f"{variant}, {depth_name(depth).lower()}"
        panels.append(
            panel(title, f"Lorenz curves of expert selection in {title}.{said}", _lorenz_chart(rows, styles[variant]))
        )
    if not panels:
        return None
    return Figure(
        name="expert-balance",
        title="Expert balance",
        caption=(
            "Share of all selections that go to the least selected experts; the straight line is perfectly even use. "
            "Thin lines are depths, from the first (faint) to the last (strong); the dashed line is the whole model."
        ),
        panels=tuple(panels),
    )


def _runs(rows: pd.DataFrame, styles: Mapping[str, Style]) -> list[tuple[str, pd.DataFrame]]:
    """Rows by run, in the order of depth and variant."""
    if rows.empty:
        return []
    place = {name: i for i, name in enumerate(styles)}
    depth = "model_depth" if "model_depth" in rows.columns else "depth"
    groups = [(run, part) for run, part in rows.groupby("run_id") if part["variant"].iloc[0] in styles]
    return sorted(groups, key=lambda group: (group[1][depth].iloc[0], place[group[1]["variant"].iloc[0]], group[0]))


def _lorenz_chart(rows: pd.DataFrame, style: Style) -> alt.LayerChart:
    parts = []
    for _, part in rows.groupby("depth", dropna=False):
        chosen = np.unique(np.linspace(0, len(part) - 1, CURVE_POINTS).round().astype(int))
        start = part.iloc[:1].assign(expert_share=0.0, selection_share=0.0)
        parts.append(pd.concat([start, part.sort_values("rank").iloc[chosen]]))
    drawn = pd.concat(parts)
    fields = {"depth": "depth", "expert_share": "x", "selection_share": "y"}
    axis = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    x = alt.X("x:Q", title="share of experts", axis=axis, scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("y:Q", title="share of selections", axis=axis, scale=alt.Scale(domain=[0, 1]))
    size = {"width": WIDTH, "height": 230}
    even = alt.Chart(alt.InlineData(values=EVEN), **size).mark_line(color=LIGHT["rule"], strokeWidth=1).encode(x=x, y=y)
    layers = [even]
    by_depth = drawn[drawn["depth"].notna()]
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


def attention(scores: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Mean depth-attention scores (the paper's Figure 4): a panel for each run, its last checkpoint with scores."""
    scores = scores[scores["score"].notna()]
    scores = scores[scores["tokens"] == scores.groupby("run_id")["tokens"].transform("max")] if len(scores) else scores
    panels = []
    for _, rows in _runs(scores, styles):
        variant = rows["variant"].iloc[0]
        title = f"{variant}, {depth_name(int(rows['depth'].iloc[0])).lower()}"
        strongest = rows.loc[rows.groupby("query_depth")["score"].idxmax()]
        said = [f"{row.query_depth} to {row.key_depth} ({percent(row.score, 0)})" for row in strongest.itertuples()]
        words = f"Mean depth-attention scores of {title}. Strongest from each depth: {listed(said)}."
        panels.append(panel(title, words, _attention_chart(rows, styles[variant])))
    if not panels:
        return None
    return Figure(
        name="depth-attention",
        title="Depth attention",
        caption=(
            "Mean attention from each depth (rows) to itself and the depths before it (columns): the stronger the "
            "colour, the more."
        ),
        panels=tuple(panels),
    )


def _attention_chart(rows: pd.DataFrame, style: Style) -> alt.Chart:
    depths = int(rows["query_depth"].max())
    every = max(1, depths // 8)
    choosing = rows[rows["query_depth"] > 1]["score"]  # the first depth has only itself to attend to
    strongest = float(choosing.max()) if len(choosing) else 1.0
    axis = alt.Axis(
        values=[d for d in range(1, depths + 1) if d % every == 0 or d == 1], labelAngle=0, domain=False, ticks=False
    )
    chart = alt.Chart(records(rows, ["query_depth", "key_depth", "score"]), width=WIDTH, height=WIDTH - 40)
    return chart.mark_rect(color=style.light).encode(
        x=alt.X("key_depth:O", title="to depth", axis=axis, scale=alt.Scale(padding=0.06)),
        y=alt.Y("query_depth:O", title="from depth", axis=axis, scale=alt.Scale(padding=0.06)),
        opacity=alt.Opacity(
            "score:Q", scale=alt.Scale(domain=[0, strongest], range=[0.04, 1], clamp=True), legend=None
        ),
        tooltip=[
            alt.Tooltip("query_depth:O", title="from depth"),
            alt.Tooltip("key_depth:O", title="to depth"),
            alt.Tooltip("score:Q", title="mean score", format=".3f"),
        ],
    )
