"""Draw the strip beside the answer's curves: a row for each variant, with its ratio and interval.

Rows are those of `ratios.with_bounds`, one for each variant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.ratios import (
    EDGE,
    by_effect,
    distinguished,
    mark_of,
    ratio_axis,
)
from dreamer_study.reports.style.theme import LIGHT, Style
from dreamer_study.reports.text.names import shortest

ANSWER = 0  # the left end of the slider; its other places are scores
WIDTH = 260
ROW = 36  # pixels of a variant: its ratio in words, and its interval below
TOP = 26  # pixels of the heading
NAME = 14  # characters of a name
CHARACTER = 5.7  # pixels of a label
GAP = 5  # pixels between a label and the line at 1
TITLE = "fewer  ←  1  →  more"
LOOK: dict[str, Any] = {"baseline": "top", "fontSize": 11, "fontWeight": 600}


def strip(
    rows: pd.DataFrame,
    arrows: pd.DataFrame,
    headings: Sequence[Mapping[str, Any]],
    styles: Mapping[str, Style],
    slider: chart.Parameter,
) -> chart.Specification:
    """Draw a row for each variant: its ratio in words, and below that point and interval.

    Where the slider is at one score, the rows say the tokens to it in place of the ratios. `arrows`
    has `variant`, `place` of the slider and `label`; `headings` have `place` and `words`.
    """
    is_answer = f"{slider['name']} === {ANSWER}"
    order = {name: place for place, name in enumerate(by_effect(rows, "variant"))}
    drawn = rows[rows["shown"] > 0]
    drawn = drawn.assign(
        row=TOP + ROW * drawn["variant"].map(order).astype(float) + 24,
        hollow=~distinguished(drawn),
        symbol=mark_of(drawn, styles),  # not "mark": Altair takes a field of that name for a mark
        missed=~drawn["reached"].astype("boolean").fillna(True).astype(bool),
    )
    limits = drawn[["shown", "low", "high"]].astype(float)
    low = min(0.8, float(limits.min().min()) / EDGE) if len(drawn) else 0.8
    high = max(1.25, float(limits.max().max()) * EDGE) if len(drawn) else 1.25
    no_ends = drawn["low"].isna() & drawn["high"].isna()
    drawn = drawn.assign(
        least=drawn["low"].fillna(low).mask(no_ends), most=drawn["high"].fillna(high).mask(no_ends)
    )
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = ratio_axis(low, high, title=TITLE, usual=WIDTH)
    x = alt.X("shown:Q", title=TITLE, scale=scale, axis=axis)
    row_of = alt.YValue({"expr": "datum.row"})
    fields = ["variant", "shown", "least", "most", "bound", "hollow", "missed", "row", "symbol"]
    base = alt.Chart(chart.records(drawn, fields)).transform_filter(is_answer)
    base = base.encode(y=row_of, color=chart.colour(styles))
    fill = alt.condition("datum.hollow", alt.value(LIGHT["paper"]), chart.colour(styles))
    spans = base.transform_filter("isValid(datum.least) && isValid(datum.most)")
    one = alt.Chart(alt.InlineData(values=[{"shown": 1}])).transform_filter(is_answer)
    beyond = base.transform_filter("datum.missed").mark_text(fontSize=15, align="right", dx=4)
    return chart.layered(
        one.mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(
            x=x, y=alt.YValue(TOP - 4), y2=alt.Y2Value("height")
        ),
        spans.mark_rule(strokeWidth=2, strokeOpacity=0.55).encode(
            x=alt.X("least:Q", title=TITLE, scale=scale), x2=alt.X2("most:Q")
        ),
        base.mark_point(size=70, opacity=1, strokeWidth=1.6).encode(
            x=x, fill=fill, shape=alt.Shape("symbol:N", scale=None, legend=None)
        ),
        beyond.encode(x=alt.XValue("width"), text=alt.value("→")),
        _heading(headings, slider["name"]),
        *_labels(arrows, order, styles, slider["name"], -math.log(low) / math.log(high / low)),
        width=WIDTH,
        height=TOP + ROW * len(order) + 10,
        params=[slider],
    )


def _heading(headings: Sequence[Mapping[str, Any]], slider: str) -> alt.Chart:
    """Write what the strip is about where the slider is."""
    frame = pd.DataFrame(headings, columns=["place", "words"])
    base = alt.Chart(chart.records(frame, ["place", "words"]))
    text = base.transform_filter(f"datum.place === {slider}").mark_text(
        **LOOK, align="left", color=LIGHT["muted"]
    )
    return text.encode(x=alt.XValue(0), y=alt.YValue(0), text=alt.Text("words:N"))


def _labels(
    arrows: pd.DataFrame,
    order: Mapping[str, int],
    styles: Mapping[str, Style],
    slider: str,
    share: float,
) -> list[alt.Chart]:
    """Write a line for each model beside the line at 1, which is at a `share` of the width.

    All labels are on one side of that line, or where neither has room, names are on its left and
    numbers at the right edge.
    """
    # the baseline, of which the answer says nothing, is below all others
    rows = arrows["variant"].map(order).fillna(len(order))
    names = shortest([*styles, *arrows["variant"]], NAME)
    labels = [
        label.replace(variant, names[variant], 1)
        for variant, label in zip(arrows["variant"], arrows["label"], strict=True)
    ]
    lines = arrows.assign(row=TOP + ROW * rows, label=labels, name=arrows["variant"].map(names))
    at_answer = lines[lines["place"] == ANSWER]
    whole = CHARACTER * max(at_answer["label"].str.len(), default=0)
    number = CHARACTER * max(at_answer["label"].str.len() - at_answer["name"].str.len(), default=0)
    width = f"(width || {WIDTH})"
    at_one = f"{share:.4g} * {width}"
    # a score of the slider has no line at 1
    is_left = f"(datum.place !== {ANSWER} || {at_one} > {whole + GAP:g})"
    is_right = f"{width} - {at_one} > {whole + GAP:g}"
    # else the number is on the line's left, and the name on its right
    is_number_right = f"{width} - {at_one} > {number + GAP:g}"
    beyond_one = f"{at_one} + {GAP}"
    number_place = f"{is_number_right} ? {width} : {at_one} - {GAP}"
    text = alt.Chart(chart.records(lines, ["variant", "label", "place", "row", "name"]))
    text = text.transform_filter(f"datum.place === {slider}")
    text = text.encode(y=alt.YValue({"expr": "datum.row"}))
    is_split = f"!({is_left} || {is_right})"
    label_at = f"{is_left} ? 0 : {is_right} || !({is_number_right}) ? {beyond_one} : 0"
    first = {
        "x": alt.XValue({"expr": label_at}),
        "text": alt.TextValue({"expr": f"{is_split} ? datum.name : datum.label"}),
    }
    rest = "trim(slice(datum.label, length(datum.name) + 1))"
    second = {
        "x": alt.XValue({"expr": number_place}),
        "text": alt.TextValue({"expr": rest}),
    }
    halo = {"stroke": LIGHT["paper"], "strokeWidth": 4}  # for the grid of the ratios lies below
    colour = chart.colour(styles)
    told = chart.tooltip(("variant:N",))
    split = text.transform_filter(is_split)
    return [
        text.mark_text(**LOOK, align="left", **halo).encode(**first),
        split.mark_text(**LOOK, align="right", **halo).encode(**second),
        text.mark_text(**LOOK, align="left").encode(**first, color=colour, tooltip=told),
        split.mark_text(**LOOK, align="right").encode(**second, color=colour),
    ]
