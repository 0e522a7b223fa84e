"""The way of the data from raw rows to packed tokens: what every stage kept and dropped, in documents and in text."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from reports.drawing import COUNT_LABEL, WIDE, WIDTH, Figure, Panel, panel, records
from reports.tables import Cell, Table, grouped, heads, left
from reports.theme import LIGHT
from reports.words import listed, missing, number, percent, stage_name, tokens

KEPT, DROPPED = LIGHT["kept"], LIGHT["dropped"]
AMOUNTS = ["documents", "characters", "tokens"]


def stages(rows: pd.DataFrame, curation: pd.DataFrame) -> Figure | None:
    """Documents and text kept and dropped by every stage over all sources. `rows` are those of the view `funnel`."""
    if rows.empty:
        return None
    dropped = _dropped(rows, curation)
    panels = [_stages_panel(rows, dropped, "documents", "kept")]
    # Tokens are often counted by the last stage only, which is no funnel.
    text = next((amount for amount in ("tokens", "characters") if rows[f"{amount}_kept"].notna().sum() > 1), "")
    if text:
        panels.append(_stages_panel(rows, dropped, text, f"{text}_kept"))
    return Figure(
        name="data-funnel",
        title="The data funnel",
        caption=f"Documents{f' and {text}' * bool(text)} that each stage kept (light) and dropped (dark).",
        panels=tuple(panels),
    )


def reasons(rows: pd.DataFrame, curation: pd.DataFrame) -> Figure | None:
    """Documents dropped for each reason, over all sources."""
    dropped = _dropped(rows, curation)
    if dropped.empty:
        return None
    return Figure(
        name="data-dropped",
        title="Documents dropped, by reason",
        caption="Documents that the stages dropped, by reason.",
        panels=(_reasons_panel(dropped),),
        wide=True,
    )


def _dropped(rows: pd.DataFrame, curation: pd.DataFrame) -> pd.DataFrame:
    """What was dropped by stage and reason over all sources, in the order of the stages, most documents first."""
    part = curation[(curation["reason"] != "kept") & (curation["documents"] > 0)]
    sums = part.groupby(["stage", "reason"], as_index=False)[AMOUNTS].sum(min_count=1)
    place = {stage: i for i, stage in enumerate(rows["stage"])}
    sums = sums.assign(place=sums["stage"].map(place), reason=sums["reason"].str.replace("_", " "))
    return sums.sort_values(["place", "documents"], ascending=[True, False])


def _stages_panel(rows: pd.DataFrame, dropped: pd.DataFrame, amount: str, kept: str) -> Panel:
    order = [stage_name(stage) for stage in rows["stage"]]
    lost = rows["stage"].map(dropped.groupby("stage")[amount].sum()).fillna(0)
    stages = pd.DataFrame({"name": order, "kept": rows[kept].to_numpy(), "dropped": lost.to_numpy()})
    said = [
        f"{row.name_} kept {tokens(row.kept) if amount != 'documents' else number(row.kept)} and dropped "
        f"{tokens(row.dropped) if amount != 'documents' else number(row.dropped)}"
        for row in stages.rename(columns={"name": "name_"}).itertuples()
        if not missing(row.kept)
    ]
    stages = stages.melt("name", ["kept", "dropped"], "fate", "count")
    base = alt.Chart(records(stages, ["name", "fate", "count"]), width=WIDTH, height={"step": 26})
    axis = alt.Axis(domain=False, labelLimit=150)
    y = alt.Y("name:N", title=None, sort=order, axis=axis, scale=alt.Scale(padding=0.3))
    x = alt.X("count:Q", title=amount, axis=alt.Axis(labelExpr=COUNT_LABEL, tickCount=4, grid=True), stack="zero")
    bars = base.mark_bar().encode(
        y=y,
        x=x,
        color=alt.Color("fate:N", scale=alt.Scale(domain=["kept", "dropped"], range=[KEPT, DROPPED]), legend=None),
        order=alt.Order("fate:N", sort="descending"),
        tooltip=[alt.Tooltip("name:N", title="stage"), alt.Tooltip("fate:N"), alt.Tooltip("count:Q", format=",")],
    )
    return panel(f"{amount.capitalize()} by stage", f"{amount.capitalize()} by stage: {listed(said)}.", bars)


def _reasons_panel(dropped: pd.DataFrame) -> Panel:
    names = [f"{stage_name(row.stage)}: {row.reason}" for row in dropped.itertuples()]
    dropped = dropped.assign(name=names, label=dropped["documents"].map(number))
    base = alt.Chart(records(dropped, ["name", "documents", "label"]), width=WIDE, height={"step": 20}).encode(
        y=alt.Y(
            "name:N",
            title=None,
            sort=names,
            axis=alt.Axis(domain=False, labelLimit=300),
            scale=alt.Scale(padding=0.25),
        ),
        x=alt.X(
            "documents:Q", title=None, axis=None, scale=alt.Scale(domain=[0, 1.1 * float(dropped["documents"].max())])
        ),
    )
    bars = base.mark_bar(color=DROPPED)
    labels = base.mark_text(align="left", dx=4, fontSize=10, color=LIGHT["muted"]).encode(text="label:N")
    said = [f"{name}, {label}" for name, label in zip(names, dropped["label"], strict=True)]
    return panel("", f"Documents dropped: {'; '.join(said)}.", alt.layer(bars, labels))


def table(rows: pd.DataFrame, curation: pd.DataFrame) -> Table:
    """What each stage kept over all sources, and what it dropped for which reason."""
    dropped = _dropped(rows, curation)
    body = []
    for row in rows.to_dict("records"):
        stage, came = row["stage"], row["documents"]
        kept = {"documents": row["kept"], "characters": row["characters_kept"], "tokens": row["tokens_kept"]}
        head = Cell(stage_name(stage), kind="left", scope="row")
        body.append((stage, [head, *_amounts(kept, row["share_kept"])]))
        for lost in dropped[dropped["stage"] == stage].to_dict("records"):
            share = lost["documents"] / came if came else None
            head = Cell(f"− {lost['reason']}", kind="inset", scope="row")
            body.append((stage, [head, *_amounts(lost, share, kind="quiet")]))
    return Table(
        name="table-funnel",
        caption=(
            "What each stage kept, over all sources; indented, what it dropped for which reason. Shares are of the "
            "documents that came into the stage."
        ),
        head=(heads("<Stage", "Documents", "Share", "Characters", "Tokens"),),
        rows=grouped(body),
    )


def _amounts(amounts: Mapping[str, float], share: float | None, kind: str = "") -> list[Cell]:
    texts = [number(amounts["documents"]), percent(share), *(tokens(amounts[name]) for name in AMOUNTS[1:])]
    return [Cell(text, kind=kind) for text in texts]


def by_source(rows: pd.DataFrame) -> Table:
    """The same for each source, the reasons in words. `rows` are those of `funnel_by_source`."""
    body = []
    for row in rows.to_dict("records"):
        reasons = "" if missing(row["reasons"]) else str(row["reasons"]).replace("_", " ")
        cells = [Cell(str(row["source"]), kind="left", scope="row"), left(stage_name(row["stage"]))]
        cells += [Cell(number(row[name])) for name in ("documents", "kept", "dropped")]
        cells += [Cell(tokens(row["characters_kept"])), Cell(tokens(row["tokens_kept"]))]
        body.append((row["source"], [*cells, Cell(reasons, kind="long")]))
    names = ("<Source", "<Stage", "Documents", "Kept", "Dropped", "Characters kept", "Tokens kept", "<Reasons")
    caption = "Documents through the stages, source by source."
    return Table("table-funnel-sources", caption, (heads(*names),), grouped(body))
