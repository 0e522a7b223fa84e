"""Draw the ratios of all benchmarks and variants as a map: which tasks show a difference at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.data import baseline_of
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.ratios import by_effect, known, label
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style
from dreamer_study.reports.text.names import depth_name, measure_label
from dreamer_study.reports.text.numbers import counted, ratio
from dreamer_study.sql.names import AVERAGE

ROW = 20  # pixels of a benchmark
FEWER, MORE = LIGHT["v1"], LIGHT["v2"]
FAINTEST, STRONGEST = 0.18, 0.6  # so that numbers in ink can be read on the colour
DOUBLE = float(np.log(2))  # a ratio of 2, or of one half, has the strongest colour


def ratio_map(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw a cell for each benchmark (y) and variant (x), coloured where its interval excludes 1.

    A panel for each depth, in which benchmarks and variants are in the order of their mean ratios.
    `rows` are those of `StudyData.ratios`. None with fewer than two benchmarks or two variants.
    """
    rows = known(rows)
    rows = rows[rows["task"] != AVERAGE]
    if rows["variant"].nunique() < 2 or rows["task"].nunique() < 2:
        return None
    records = rows.to_dict("records")
    excludes_one = (rows["low"] > 1) | (rows["high"] < 1)
    size = np.log(rows["shown"]).abs().clip(upper=DOUBLE) / DOUBLE
    strength = FAINTEST + (STRONGEST - FAINTEST) * size
    rows = rows.assign(
        name=[measure_label(row) for row in records],
        label=[label(row) for row in records],
        number=[ratio(row["shown"]) for row in records],
        side=np.where(rows["shown"] < 1, "fewer", "more"),
        strength=strength.where(excludes_one, 0.0),
    )
    panels = []
    for depth, part in rows.groupby("depth"):
        coloured = part[part["strength"] > 0]
        fewer = int((coloured["side"] == "fewer").sum())
        description = (
            f"Ratios of {counted(part['name'].nunique(), 'benchmark')} and"
            f" {counted(part['variant'].nunique(), 'variant')} at {depth_name(depth).lower()}:"
            f" {fewer} of {len(part)} intervals are below 1, {len(coloured) - fewer} above 1."
        )
        panels.append(panel(depth_name(depth), description, _chart(part), depth=depth))
    return figure(
        "ratio-map",
        "Ratio of each benchmark",
        f"Training tokens over those of {baseline_of(rows)}, each at equal scores. {_legend(rows)}",
        panels,
        wide=True,
        finding=_finding(rows),
    )


def _legend(rows: pd.DataFrame) -> str:
    """Say what the colours mean, and which ratios a benchmark can show at all."""
    text = (
        "Blue: fewer tokens; orange: more; the stronger, the further from 1. Coloured where the"
        " 95 % confidence interval (CI) of this benchmark excludes 1, without correction for the"
        f" {counted(len(rows), 'comparison')}: of 20 cells without any difference one is coloured."
    )
    detectable = rows["detectable"].dropna()
    if detectable.empty:
        return text
    usual = float(detectable.median())
    return (
        f"{text} Detectable: four of five such studies would colour a cell with a ratio above"
        f" {ratio(max(usual, 1 / usual))} or below {ratio(min(usual, 1 / usual))} (median of the"
        " benchmarks)."
    )


def _finding(rows: pd.DataFrame) -> str:
    """Say how many cells are coloured."""
    coloured = rows[rows["strength"] > 0]
    fewer = int((coloured["side"] == "fewer").sum())
    more = len(coloured) - fewer
    return f"Of {counted(len(rows), 'cell')} {fewer} show fewer tokens and {more} more."


def _chart(rows: pd.DataFrame) -> chart.Specification:
    names = by_effect(rows, "name")
    variants = by_effect(rows, "variant")
    columns: dict[str, Any] = {
        "x": alt.X(
            "variant:N",
            title=None,
            sort=variants,
            axis=chart.name_axis(
                variants, orient="top", labelAngle=40, labelAlign="right", labelFontSize=11
            ),
        ),
        "y": alt.Y("name:N", title=None, sort=names, axis=chart.name_axis(names, labelFontSize=11)),
    }
    base = alt.Chart().encode(**columns)
    sides = alt.Scale(domain=["fewer", "more"], range=[FEWER, MORE])
    told = chart.tooltip(
        ("variant:N",), ("name:N", "", "benchmark"), ("label:N", "", "ratio (95 % CI)")
    )
    cells = base.mark_rect(stroke=LIGHT["grid"]).encode(
        fill=alt.Fill("side:N", scale=sides, legend=None),
        fillOpacity=alt.FillOpacity("strength:Q", scale=None, legend=None),
        tooltip=told,
    )
    numbers = base.mark_text(fontSize=10).encode(
        text=alt.Text("number:N"),
        opacity=alt.condition("datum.strength > 0", alt.value(1), alt.value(0.55)),
    )
    fields = ["variant", "task", "metric", "name", "label", "number", "side", "strength"]
    return chart.layered(
        cells,
        numbers,
        data=chart.records(rows, fields),
        width=chart.WIDE,
        height=ROW * len(names),
    )
