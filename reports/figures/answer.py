"""Draw the answer: the average curves of a depth, with arrows between them.

An arrow is as long as the ratio of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.data import baseline_of
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style, ordered, present
from dreamer_study.reports.text.mean_factors import headline, never_reached
from dreamer_study.reports.text.names import depth_name, measure_label, measure_name
from dreamer_study.reports.text.numbers import as_many, interval, listed, ratio, tokens

HEIGHT = 250
APART = 0.08  # of the range of the curves, between the heights of two arrows
# An arrow's length, as a ratio, is at most this far from what its label says.
EXACT = math.log(1.03)
# Arrow heads to more tokens, and to fewer: the tip is the end of the arrow.
HEADS = ("M0,0L-1.6,-0.9V0.9Z", "M0,0L1.6,-0.9V0.9Z")
STEPS = 100  # of the slider
LINE = 17  # pixels between two labels


def answer(
    factors: pd.DataFrame,
    accuracies: pd.DataFrame,
    losses: pd.DataFrame,
    by_target: pd.DataFrame,
    styles: Mapping[str, Style],
) -> Figure | None:
    """Draw the curve of the headline's measure (y) against training tokens (x).

    A panel for each depth. `factors` has the rows of `StudyData.mean_factors`, `accuracies` and
    `losses` those of the mean curves, `by_target` those of `factor_by_target`. A slider moves the
    arrows from their mean to one height. None without a headline.
    """
    accuracies = accuracies.rename(columns={"accuracy": "value"}).assign(metric="accuracy")
    curves = pd.concat([accuracies, losses.assign(metric="loss")])
    shown = present(styles, curves)
    panels = []
    for depth, rows in ordered(headline(factors), styles).groupby("depth"):
        first = rows.iloc[0]
        keys = rows[["depth", "task", "metric"]].head(1)  # all of a panel are of one measure
        curve = curves.merge(keys)
        targets = by_target.merge(keys)
        rows = rows.merge(keys)
        last_tokens = curve.groupby("variant")["tokens"].max().reset_index()
        stops = rows[rows["bounded"]].merge(last_tokens)
        name = measure_label(first)
        ratios = [
            never_reached(row) if row["bounded"] else _label(row) for row in rows.to_dict("records")
        ]
        description = (
            f"{name} against training tokens at {depth_name(depth).lower()}: {listed(ratios)}."
        )
        targets = targets[targets["variant"].isin(rows["variant"])]
        arrows = pd.concat([_means(rows, targets, curve), _at_targets(targets, first["baseline"])])
        # The panel's keys name no task and no measure, so that the toolbar's choice of a benchmark
        # does not hide it.
        drawn = _chart(curve, arrows, stops, shown, first)
        panels.append(
            panel(f"{name}, {depth_name(depth).lower()}", description, drawn, depth=depth)
        )
    caption = (
        "Each marker is a checkpoint, the mean over its seeds. Arrows lead from"
        f" {baseline_of(factors)}, the baseline, to a variant at equal height. Dashed: what a"
        " variant never reached. In brackets 95% intervals."
    )
    return figure("answer", "The answer", caption, panels, shown)


def _label(row: Mapping[str, Any]) -> str:
    least = "at least " if row.get("bounded") else ""
    text = f"{row['variant']} {least}{as_many(row['factor'])}"
    span = interval(row)
    return f"{text} ({span})" if span else text


def _means(rows: pd.DataFrame, by_target: pd.DataFrame, curve: pd.DataFrame) -> pd.DataFrame:
    """Find for each variant the height at which its ratio equals its mean ratio.

    Heights that are too near each other are moved apart.
    """
    arrows = []
    for row in rows.to_dict("records"):
        own = by_target[by_target["variant"] == row["variant"]].sort_values("target")
        place = None if row["bounded"] else _place_of(own["factor"].to_numpy(), row["factor"])
        height = tail = tip = math.nan  # without an arrow the label is there
        if place is not None:
            targets = np.arange(len(own))
            tails, tips = np.log(own[["baseline_tokens", "variant_tokens"]]).to_numpy().T
            height = float(np.interp(place, targets, own["target"]))
            tail = math.exp(float(np.interp(place, targets, tails)))
            tip = math.exp(float(np.interp(place, targets, tips)))
        arrows.append((row["variant"], height, tail, tip, _label(row)))
    means = pd.DataFrame(arrows, columns=["variant", "value", "baseline_tokens", "tokens", "label"])
    means = means.sort_values("value", ignore_index=True)
    steps = APART * (curve["value"].max() - curve["value"].min()) * np.arange(len(means))
    return means.assign(
        value=(means["value"] - steps).cummax() + steps, start=math.nan, end=math.nan
    )


def _at_targets(by_target: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return an arrow for each variant and value to be reached.

    It is shown where the slider is from `start` to `end`, which the value represents.
    """
    half = by_target.groupby("variant")["target"].transform(
        lambda values: values.sort_values().diff().median() / 2
    )
    arrows = by_target.rename(columns={"variant_tokens": "tokens", "target": "value"})
    labels = []
    for row in by_target.to_dict("records"):
        own = tokens(row["variant_tokens"])
        others = tokens(row["baseline_tokens"])
        label = f"{row['variant']} {own}, {ratio(row['factor'])}× the {others} of {baseline}"
        span = interval(row)
        labels.append(f"{label} ({span})" if span else label)
    arrows = arrows.assign(label=labels, start=arrows["value"] - half, end=arrows["value"] + half)
    return arrows[["variant", "value", "baseline_tokens", "tokens", "label", "start", "end"]]


def _place_of(factors: np.ndarray, mean: float) -> float | None:
    """Return between which two targets the factor is the mean, as a place among the targets.

    Of several such places that nearest to the middle; None where there is none.
    """
    above = np.log(factors) - math.log(mean)
    crossed = np.flatnonzero(np.sign(above[:-1]) != np.sign(above[1:]))
    if len(crossed):
        before = crossed[np.abs(crossed - len(factors) / 2).argmin()]
        return before + above[before] / (above[before] - above[before + 1])
    if not len(above):
        return None
    # Factors that are all nearly the mean may all be on one side of it.
    nearest = int(np.abs(above).argmin())
    return float(nearest) if abs(above[nearest]) <= EXACT else None


def _chart(
    rows: pd.DataFrame,
    arrows: pd.DataFrame,
    stops: pd.DataFrame,
    styles: Mapping[str, Style],
    first: pd.Series,
) -> chart.Specification:
    loss = first["metric"] == "loss"
    x = chart.token_axis(rows["tokens"])
    y = chart.y_axis("value", format="~g" if loss else ".0%")
    levels = [] if loss else chart.chance_level(rows)
    base = alt.Chart(chart.records(rows, ["variant", "tokens", "value"])).encode(
        x=x, y=y, color=chart.colour(styles)
    )
    tooltip = chart.tooltip(
        ("variant:N",), ("tokens:Q", ","), ("value:Q", ".3f" if loss else ".1%", first["metric"])
    )
    slider = _slider(arrows, first)
    layers = [line for line, _ in levels]
    layers += chart.line_and_markers(base, styles, tooltip, size=26)
    layers += _arrow_marks(arrows, slider, rows["tokens"], y, styles, loss)
    for place in range(len(stops)):  # apart, though all stop at the same tokens
        missed = alt.Chart(
            chart.records(stops.iloc[[place]], ["variant", "tokens", "missed_low", "missed_high"])
        )
        dashed = missed.mark_rule(strokeDash=[4, 3], strokeWidth=1.6, xOffset=-4 * place)
        dashed = dashed.encode(x=x, color=chart.colour(styles))
        layers.append(
            dashed.encode(y=alt.Y("missed_low:Q", title=None), y2=alt.Y2("missed_high:Q"))
        )
    layers += [name for _, name in levels]
    return chart.layered(*layers, width=520, height=HEIGHT, params=[slider])


def _slider(arrows: pd.DataFrame, first: pd.Series) -> dict[str, Any]:
    """Return the parameter with the height of the arrows.

    At its least, where the slider begins, the arrows are at their means.
    """
    low = _rounded(arrows["start"].min())
    high = _rounded(arrows["end"].max())
    step = (high - low) / STEPS
    depth = str(first["depth"]).replace("-", "_")
    parameter = {"name": f"reached_{depth}", "value": low - step}
    if step:
        parameter["bind"] = {
            "input": "range",
            "min": low - step,
            "max": high,
            "step": step,
            "name": f"Drag for the ratio at one {measure_name(first)}; left end: the mean",
        }
    return parameter


def _rounded(value: float) -> float:
    """Round to the digits that the data of a chart have; 0 where there are no targets (NaN)."""
    return 0.0 if math.isnan(value) else float(f"{value:.6g}")


def _arrow_marks(
    arrows: pd.DataFrame,
    slider: Mapping[str, Any],
    counts: pd.Series,
    y: alt.Y,
    styles: Mapping[str, Style],
    loss: bool,
) -> list[alt.Chart]:
    """Draw arrows where the slider is, and a line of text for each.

    The lines are in a corner that the curves leave free.
    """
    reached = slider["name"]
    least = slider["value"]
    variants = [name for name in styles if name in set(arrows["variant"])]
    lines_of_text = {name: line for line, name in enumerate(variants)}
    with_lines = arrows.assign(line=arrows["variant"].map(lines_of_text))
    data = chart.records(with_lines, [*arrows, "line"])
    at_slider = (
        f"isValid(datum.start) ? datum.start <= {reached} && {reached} < datum.end : {reached} <="
        f" {least}"
    )
    base = alt.Chart(data).transform_filter(at_slider).encode(color=chart.colour(styles))
    tail = chart.token_axis(counts, "baseline_tokens")
    x = chart.token_axis(counts, "tokens")
    more, fewer = HEADS
    head = alt.condition("datum.tokens > datum.baseline_tokens", alt.value(more), alt.value(fewer))
    corner = {
        "align": "right" if loss else "left",
        "baseline": "top",
        "fontSize": 13,
        "fontWeight": 600,
    }
    place = alt.XValue("width" if loss else 6)
    lines = base.encode(
        x=place, y=alt.YValue({"expr": f"{LINE} * (datum.line + 1)"}), text=alt.Text("label:N")
    )
    shown = "format({}, '.3~g') + ' bits per byte'" if loss else "format({}, '.1%')"
    title = f"{reached} <= {least} ? 'Tokens, on average' : 'Tokens at ' + {shown.format(reached)}"
    heading = alt.Chart(alt.InlineData(values=[{}])).mark_text(
        **corner, text={"expr": title}, color=LIGHT["muted"]
    )
    return [
        base.mark_rule(strokeWidth=2.4).encode(x=tail, x2=alt.X2("tokens:Q"), y=y),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y, shape=head),
        heading.encode(x=place, y=alt.YValue(0)),
        lines.mark_text(**corner, stroke=LIGHT["paper"], strokeWidth=4),
        lines.mark_text(**corner),
    ]
