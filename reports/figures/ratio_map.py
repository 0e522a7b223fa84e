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
from dreamer_study.reports.text.names import LONGEST, depth_name, measure_label, shortest
from dreamer_study.reports.text.numbers import THIN, counted, ratio
from dreamer_study.reports.text.ratios import LEAST, MOST
from dreamer_study.sql.names import AT_LEAST, AT_MOST, AVERAGE

ROW = 20  # pixels of a benchmark
FEWER, MORE = LIGHT["v1"], LIGHT["v2"]
FAINTEST, STRONGEST = 0.18, 0.6  # so that numbers in ink can be read on the colour
CHARACTER = 6  # pixels of a number or a name
BOUNDS = {AT_LEAST: f"{LEAST}{THIN}", AT_MOST: f"{MOST}{THIN}"}  # before the number of a bound
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
    outside = (rows["low"] > 1) | (rows["high"] < 1)
    is_coloured = outside & ~rows["within_checkpoint"].astype(bool)
    size = np.log(rows["shown"]).abs().clip(upper=DOUBLE) / DOUBLE
    strength = FAINTEST + (STRONGEST - FAINTEST) * size
    rows = rows.assign(
        name=[measure_label(row) for row in records],
        label=[label(row) for row in records],
        number=[f"{BOUNDS.get(row['bound'], '')}{ratio(row['shown'])}" for row in records],
        side=np.where(rows["shown"] < 1, "fewer", "more"),
        strength=strength.where(is_coloured, 0.0),
    )
    panels = []
    for depth, part in rows.groupby("depth"):
        coloured = part[part["strength"] > 0]
        fewer = int((coloured["side"] == "fewer").sum())
        description = (
            f"Ratios of {counted(part['name'].nunique(), 'benchmark')} and"
            f" {counted(part['variant'].nunique(), 'variant')} at {depth_name(depth).lower()}:"
            f" {fewer} of {len(part)} cells show fewer tokens, {len(coloured) - fewer} more."
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
        "Blue: fewer tokens; orange: more; the stronger, the further from 1. A cell has a colour"
        " where its 95 % confidence interval (CI) excludes 1 and the models are at least one"
        f" checkpoint apart, without correction for the {counted(len(rows), 'comparison')}: by"
        " chance alone about 1 in 20 would have one."
    )
    if rows["bound"].ne("").any():
        text += f" {LEAST} and {MOST} stand before bounds."
    detectable = rows["detectable"].dropna()
    if detectable.empty:
        return text
    usual = float(detectable.median())
    return (
        f"{text} Four of five such studies would colour a cell whose true ratio is above"
        f" {ratio(max(usual, 1 / usual))} or below {ratio(min(usual, 1 / usual))} (median of the"
        " cells)."
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
    # Numbers and names of columns never meet: where a phone has no room, names stand upright, and
    # cells have their colours alone.
    width = f"(width || {chart.WIDE})"
    shown_names = shortest(variants, LONGEST).values()
    longest_name = max(map(len, shown_names)) + 2
    longest_number = rows["number"].str.len().max() + 1
    is_upright = f"{width} < {CHARACTER * longest_name * len(variants)}"
    has_numbers = f"{width} >= {CHARACTER * longest_number * len(variants)}"
    looks: dict[str, Any] = {
        "orient": "top",
        "labelFontSize": 11,
        "labelAngle": {"expr": f"{is_upright} ? -90 : 0"},
        "labelAlign": {"expr": f"{is_upright} ? 'left' : 'center'"},
        "labelBaseline": {"expr": f"{is_upright} ? 'middle' : 'bottom'"},
    }
    columns: dict[str, Any] = {
        "x": alt.X(
            "variant:N", title="variant", sort=variants, axis=chart.name_axis(variants, **looks)
        ),
        "y": alt.Y(
            "name:N",
            title="benchmark",
            sort=names,
            axis=chart.name_axis(names, labelFontSize=11),
        ),
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
        text=alt.condition(has_numbers, "number:N", alt.value("")),
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
