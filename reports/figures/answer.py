"""Draw the answer: the average curves of a depth, with the horizontal distance between them that the factor is."""

from __future__ import annotations

import math
from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from reports.figures import chart
from reports.figures.rendering import Figure, figure, panel
from reports.style.theme import LIGHT, Style, ordered, present
from reports.text.answer import times
from reports.text.mean_factors import headline, never_reached
from reports.text.names import depth_name, measure_label, variants_in_words
from reports.text.numbers import listed

HEIGHT = 250
APART = 0.08  # of the range of the curves, between the heights of two distances: their labels do not meet
EXACT = math.log(1.03)  # a bar's length, as a factor, is at most this far from what its label says
ROOM = 0.65, 0.4  # a distance to the baseline, or from it, that ends before this part has its label on the right
END = "M0,-0.6V0.6"


def answer(
    factors: pd.DataFrame,
    accuracies: pd.DataFrame,
    losses: pd.DataFrame,
    by_target: pd.DataFrame,
    models: pd.DataFrame,
    styles: Mapping[str, Style],
) -> Figure | None:
    """Draw the curve of the headline's measure (y) against training tokens (x), a panel for each depth.

    `factors` has the rows of `StudyData.mean_factors`, `accuracies` and `losses` those of the mean curves, `by_target`
    those of `factor_by_target`, `models` those of `StudyData.models`. None without a headline.
    """
    accuracies = accuracies.rename(columns={"accuracy": "value"}).assign(metric="accuracy")
    curves = pd.concat([accuracies, losses.assign(metric="loss")])
    panels, shown = [], present(styles, curves)
    for depth, rows in ordered(headline(factors), styles).groupby("depth"):
        first = rows.iloc[0]
        keys = {"depth": depth, "task": first["task"], "metric": first["metric"]}
        curve, targets, rows = (_where(frame, keys) for frame in (curves, by_target, rows))
        apart = APART * (curve["value"].max() - curve["value"].min())
        distances = _distances(rows[~rows["bounded"]], targets, apart)
        stops = rows[rows["bounded"]].merge(curve.groupby("variant")["tokens"].max().reset_index())
        name = measure_label(first)
        words = [
            f"{row.variant} {row.label} {'than' if row.fewer else 'as'} {first['baseline']}"
            for row in distances.itertuples()
        ]
        words += [never_reached(row) for row in stops.to_dict("records")]
        description = f"{name} against training tokens at {depth_name(depth).lower()}: {listed(words)}."
        title = f"{name}, {depth_name(depth).lower()}"
        panels.append(panel(title, description, _chart(curve, distances, stops, shown, first["metric"]), **keys))
    caption = (
        "Each marker is a checkpoint, the mean over its seeds. A bar between two curves shows how many times fewer "
        "tokens a model needs for equal height, or how many times as many: the mean over all heights, drawn where "
        "the curves are as far apart as that mean, or a little above or below where two bars would meet. A dashed line "
        "at the end of a curve: what the model never reached."
    )
    words = variants_in_words(ordered(models, styles))
    return figure("answer", "The answer", f"{words} {caption}".strip(), panels, shown)


def _where(frame: pd.DataFrame, keys: Mapping[str, object]) -> pd.DataFrame:
    return frame[np.logical_and.reduce([frame[name] == value for name, value in keys.items()])]


def _distances(rows: pd.DataFrame, by_target: pd.DataFrame, apart: float) -> pd.DataFrame:
    """Find for each variant the height at which its factor is its mean factor; nearly equal heights are put `apart`."""
    found = []
    for row in rows.itertuples():
        own = by_target[by_target["variant"] == row.variant].sort_values("target")
        place = _place_of(own["factor"].to_numpy(), row.factor)
        if place is None:
            continue
        ends = np.log(own[["variant_tokens", "baseline_tokens"]]).to_numpy()
        ends = sorted(math.exp(np.interp(place, np.arange(len(own)), end)) for end in ends.T)
        height = np.interp(place, np.arange(len(own)), own["target"])
        found.append((row.variant, *ends, height, f"{times(row.factor)} tokens", row.factor >= 1))
    distances = pd.DataFrame(found, columns=["variant", "tokens", "to", "value", "label", "fewer"])
    distances = distances.sort_values("value", ignore_index=True)
    steps = apart * np.arange(len(distances))
    moved = (distances["value"] - steps).cummax() + steps - distances["value"]
    # Up where labels are on the left, above the curves, and down where they are on the right, below.
    return distances.assign(value=distances["value"] + moved - moved.max() * distances["fewer"].all())


def _place_of(factors: np.ndarray, mean: float) -> float | None:
    """Return where, between which two targets, the factor is the mean: near the middle; None where it never is."""
    above = np.log(factors) - math.log(mean)
    crossed = np.flatnonzero(np.sign(above[:-1]) != np.sign(above[1:]))
    if len(crossed):
        before = crossed[np.abs(crossed - len(factors) / 2).argmin()]
        return before + above[before] / (above[before] - above[before + 1])
    nearest = int(np.abs(above).argmin()) if len(above) else 0
    return float(nearest) if len(above) and abs(above[nearest]) <= EXACT else None


def _chart(
    rows: pd.DataFrame, distances: pd.DataFrame, stops: pd.DataFrame, styles: Mapping[str, Style], metric: str
) -> chart.Specification:
    loss = metric == "loss"
    x, end = (chart.token_axis(rows["tokens"], field) for field in ("tokens", "to"))
    y = chart.y_axis("value", format="~g" if loss else ".0%")
    base = alt.Chart(chart.records(rows, ["variant", "tokens", "value"]))
    told = chart.tooltip(("variant:N",), ("tokens:Q", ","), ("value:Q", ".3f" if loss else ".1%", metric))
    layers = chart.line_and_markers(base.encode(x=x, y=y, color=chart.colour(styles)), styles, told, size=26)
    low, high = rows["tokens"].agg(["min", "max"])
    logarithmic = high >= chart.LOG_FROM * low > 0
    reach = np.log(distances["to"] / low) / math.log(high / low) if logarithmic else distances["to"] / high
    right = reach < np.where(distances["fewer"], *ROOM)
    for part, align in ((distances[right], "left"), (distances[~right], "right")):
        layers += _distance_marks(part, x, end, y, styles, align)
    if len(stops):
        missed = alt.Chart(chart.records(stops, ["variant", "tokens", "missed_low", "missed_high"]))
        y = chart.y_axis("missed_low", format="~g" if loss else ".0%")
        dashed = missed.mark_rule(strokeDash=[4, 3], strokeWidth=1.6)
        layers.append(dashed.encode(x=x, y=y, y2=alt.Y2("missed_high:Q"), color=chart.colour(styles)))
    return chart.layered(*layers, width=520, height=HEIGHT)


def _distance_marks(
    rows: pd.DataFrame, x: alt.X, end: alt.X, y: alt.Y, styles: Mapping[str, Style], align: str
) -> list[alt.Chart]:
    """Draw distances as lines with two ends; `align` is "left" for labels beside the right end, else "right"."""
    if rows.empty:
        return []
    base = alt.Chart(chart.records(rows, ["variant", "tokens", "to", "value", "label"])).encode(
        y=y, color=chart.colour(styles)
    )
    beside = end if align == "left" else x
    text = {"align": align, "dx": 9 if align == "left" else -9, "fontSize": 13, "fontWeight": 600, "baseline": "middle"}
    told = chart.tooltip(("variant:N",), ("label:N", "", "mean factor"), ("tokens:Q", ",.0f", "from"), ("to:Q", ",.0f"))
    return [
        base.mark_rule(strokeWidth=2.4).encode(x=x, x2=alt.X2("to:Q"), tooltip=told),
        *(base.mark_point(shape=END, size=200, strokeWidth=2.4, opacity=1).encode(x=one) for one in (x, end)),
        base.mark_text(**text, stroke=LIGHT["paper"], strokeWidth=4).encode(x=beside, text=alt.Text("label:N")),
        base.mark_text(**text).encode(x=beside, text=alt.Text("label:N")),
    ]
