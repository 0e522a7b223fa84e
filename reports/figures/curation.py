"""Draw the way of the documents from raw rows to packed tokens."""

from __future__ import annotations

import altair as alt
import pandas as pd

from reports.data import dropped_by_reason
from reports.figures import chart
from reports.figures.rendering import Figure, Panel, figure, panel
from reports.style.theme import LIGHT
from reports.text.names import stage_name
from reports.text.numbers import listed, number, percent, tokens

KEPT, DROPPED = LIGHT["kept"], LIGHT["dropped"]


def kept_and_dropped(funnel: pd.DataFrame, curation: pd.DataFrame) -> Figure | None:
    """Draw documents, and their text, kept and dropped (x, stacked) by every stage (y) over all sources.

    `funnel` has the rows of the view `funnel`, `curation` of the table `curation`. None without rows.
    """
    if funnel.empty:
        return None
    panels = [_stages_panel(funnel, curation, "documents", "kept")]
    # Tokens are often counted by the final stage only, which is no funnel.
    text = next((amount for amount in ("tokens", "characters") if funnel[f"{amount}_kept"].notna().sum() > 1), "")
    if text:
        panels.append(_stages_panel(funnel, curation, text, f"{text}_kept"))
    caption = f"Documents{f' and {text}' * bool(text)} that each stage kept (light) and dropped (dark)."
    read, kept = funnel["documents"].iloc[0], funnel["kept"].iloc[-1]
    finding = f"Of {number(read)} documents {number(kept)} are left ({percent(kept / read if read else None)})."
    return figure("data-funnel", "What each stage keeps", caption, panels, finding=finding)


def _stages_panel(funnel: pd.DataFrame, curation: pd.DataFrame, amount: str, kept: str) -> Panel:
    order = [stage_name(stage) for stage in funnel["stage"]]
    sums = dropped_by_reason(funnel, curation).groupby("stage")[amount].sum()
    stages = pd.DataFrame({"name": order, "kept": funnel[kept], "dropped": funnel["stage"].map(sums).fillna(0)})
    shown = number if amount == "documents" else tokens
    words = [
        f"{row['name']} kept {shown(row['kept'])} and dropped {shown(row['dropped'])}"
        for row in stages[stages["kept"].notna()].to_dict("records")
    ]
    stages = stages.melt("name", ["kept", "dropped"], "fate", "count")
    base = alt.Chart(chart.records(stages, ["name", "fate", "count"]), width=chart.WIDTH, height={"step": 26})
    names = alt.Axis(domain=False, labelLimit=150)
    axis = alt.Axis(labelExpr=chart.COUNT_LABEL, tickCount=4, grid=True)
    bars = base.mark_bar().encode(
        y=alt.Y("name:N", title=None, sort=order, scale=alt.Scale(padding=0.3), axis=names),
        x=alt.X("count:Q", title=amount, axis=axis, stack="zero"),
        color=alt.Color("fate:N", scale=alt.Scale(domain=["kept", "dropped"], range=[KEPT, DROPPED]), legend=None),
        order=alt.Order("fate:N", sort="descending"),
        tooltip=chart.tooltip(("name:N", "", "stage"), ("fate:N",), ("count:Q", ",")),
    )
    return panel(f"{amount.capitalize()} by stage", f"{amount.capitalize()} by stage: {listed(words)}.", bars)
