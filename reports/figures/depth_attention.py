"""Draw where depth attention looks: the paper's Figure 4."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style
from dreamer_study.reports.text.numbers import counted, listed, percent

DEPTHS_WITH_NUMBERS = 8  # up to this depth a map's cells have room for their numbers


def depth_attention(scores: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw mean depth-attention scores as a map from query depth (y) to key depth (x).

    A panel for each model. `scores` has the rows of the table `depth_attention` at the newest
    checkpoints. None without scores.
    """
    panels = []
    for title, rows, style, keys in chart.by_model(scores[scores["score"].notna()], styles):
        strongest = rows.loc[rows.groupby("query_depth")["score"].idxmax()]
        pairs = [
            f"{row.query_depth} to {row.key_depth} ({percent(row.score, 0)})"
            for row in strongest.itertuples()
        ]
        description = (
            f"Mean depth-attention scores of {title}. Strongest from each depth: {listed(pairs)}."
        )
        later = strongest[strongest["query_depth"] > 1]
        to_itself = int((later["key_depth"] == later["query_depth"]).sum())
        to_depth_before = int((later["key_depth"] == later["query_depth"] - 1).sum())
        finding = (
            f"{title}: of {counted(len(later), 'depth')} after the first, most attention goes to"
            f" the depth itself in {to_itself}, to the depth before in {to_depth_before}."
        )
        panels.append(panel(title, description, _chart(rows, style), finding=finding, **keys))
    unit = ", in per cent" if scores["query_depth"].max() <= DEPTHS_WITH_NUMBERS else ""
    return figure(
        "depth-attention",
        "Depth attention",
        "Where each depth (rows) looks among itself and the depths before it (columns): mean"
        f" scores over a sample of text{unit}, at the last checkpoint. As in the paper’s Figure 4"
        " every row has the same colour at its strongest: a row of one even colour would be a"
        " plain average of all depths so far.",
        panels,
    )


def _chart(rows: pd.DataFrame, style: Style) -> chart.Specification:
    depths = int(rows["query_depth"].max())
    rows = rows.assign(
        strength=rows["score"] / rows.groupby("query_depth")["score"].transform("max")
    )
    axis = alt.Axis(values=chart.depth_ticks(depths), labelAngle=0, domain=False, ticks=False)
    base = alt.Chart(width=chart.WIDTH, height=chart.WIDTH - 40).encode(
        x=alt.X("key_depth:O", title="to depth", axis=axis, scale=alt.Scale(padding=0.06)),
        y=alt.Y("query_depth:O", title="from depth", axis=axis, scale=alt.Scale(padding=0.06)),
    )
    numbered = depths <= DEPTHS_WITH_NUMBERS
    darkest = 0.6 if numbered else 1  # so that numbers stay legible, in light and dark
    scale = alt.Scale(domain=[0, 1], range=[0.04, darkest], clamp=True)
    tooltip = chart.tooltip(
        ("query_depth:O", "", "from depth"),
        ("key_depth:O", "", "to depth"),
        ("score:Q", ".3f", "mean score"),
        ("even:Q", ".2f", "times an even share"),
    )
    opacity = alt.FillOpacity("strength:Q", scale=scale, legend=None)
    layers = [base.mark_rect(color=style.light).encode(fillOpacity=opacity, tooltip=tooltip)]
    if numbered:
        layers.append(
            base.mark_text(fontSize=11, color=LIGHT["ink"]).encode(text=alt.Text("label:N"))
        )
        # An even share at depth d is 1 / d.
    calculated = {
        "even": "datum.score * datum.query_depth",
        "label": "format(100 * datum.score, '.0f')",
    }
    return chart.layered(
        *layers,
        data=chart.records(rows, ["query_depth", "key_depth", "score", "strength"]),
        transform=[
            {"calculate": expression, "as": name} for name, expression in calculated.items()
        ],
    )
