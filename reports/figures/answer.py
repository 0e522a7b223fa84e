"""Draw the answer: the average curves of a depth, and beside them a strip with the ratios.

Arrows between the curves are as long as the ratios of tokens.
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
from dreamer_study.reports.figures.arrows import (
    ARROW,
    MANY_ARROWS,
    Grid,
    answer_in_words,
    is_of,
    of_answers,
    of_scores,
)
from dreamer_study.reports.figures.ratios import (
    what_filled_means,
    with_bounds,
)
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.figures.strip import ANSWER, NAME, strip
from dreamer_study.reports.style.theme import LIGHT, Style, ordered, present
from dreamer_study.reports.text.names import (
    depth_name,
    measure_label,
    measure_name,
    owner,
    shortest,
)
from dreamer_study.reports.text.numbers import listed
from dreamer_study.reports.text.ratios import leading, score

WIDTH, HEIGHT = 520, 250  # of the curves in pixels
CHARACTER = 0.033  # of the token axis, that a character of such a name takes
LINE = 14  # pixels between the names of two curves
ROOM = 16  # pixels between the end of a curve and its name
LED_FROM = 3  # pixels: a name further from the height of its curve has a line to the curve
# Arrow heads to more tokens, and to fewer: the tip is the end of the arrow.
HEADS = ("M0,0L-1.6,-0.9V0.9Z", "M0,0L1.6,-0.9V0.9Z")
HEAD = 60  # pixels², as Vega sizes marks
LEAST_HEAD = 10  # else a head is at most half as long as its arrow
HEAD_LENGTH = 0.8  # pixels, of a head of one pixel²


def answer(
    ratios: pd.DataFrame,
    accuracies: pd.DataFrame,
    losses: pd.DataFrame,
    at_scores: pd.DataFrame,
    runs: pd.DataFrame,
    loss_runs: pd.DataFrame,
    styles: Mapping[str, Style],
) -> Figure | None:
    """Draw the curve of the answer's measure (y) against training tokens (x).

    Each depth has a panel with curves and one with a strip of ratios. `ratios` has the rows of
    `StudyData.ratios`, `accuracies` and `losses` those of the mean curves, `at_scores` those of the
    view `tokens_at_scores`, `runs` and `loss_runs` the curves of the single seeds. A slider moves
    the arrows from the answer to one score of all models. None without an answer.
    """
    accuracies = accuracies.rename(columns={"accuracy": "value"}).assign(metric="accuracy")
    curves = pd.concat([accuracies, losses.assign(metric="loss")])
    single = pd.concat(
        [
            runs.rename(columns={"accuracy": "value"}).assign(metric="accuracy"),
            loss_runs.rename(columns={"loss": "value"}).assign(metric="loss"),
        ]
    )
    shown = present(styles, curves)
    panels = []
    dashes = ""
    bounds = ""
    led = with_bounds(leading(ratios))
    for depth, rows in ordered(led, styles).groupby("depth"):
        first = _most_common_measure(rows)
        keys = pd.DataFrame([first])[["depth", "task", "metric"]]
        curve = curves.merge(keys)
        grid = Grid(at_scores.merge(keys), first["baseline"])
        name = measure_label(first)
        at_depth = depth_name(depth).lower()
        description = f"{name} against training tokens at {at_depth}: {_in_words(rows, first)}"
        arrows = pd.concat([of_answers(rows, first, grid, curve), of_scores(grid)])
        if arrows["dashed"].eq(True).any():
            bounds = "; a dashed arrow is a bound"
        slider = _slider(arrows, first)
        # The panels' keys name no task and no measure, so that the toolbar's choice of a benchmark
        # does not hide them.
        missed = _missed(rows.merge(keys), curve)
        drawn = _chart(curve, single.merge(keys), arrows, missed, grid, shown, first, slider)
        panels.append(panel(f"{name}, {at_depth}", description, drawn, depth=depth))
        beside = strip(rows, arrows, _headings(grid), shown, slider)
        panels.append(panel("", f"Ratios: {_in_words(rows, first)}", beside, depth=depth))
        if len(_drawn(missed, shown)):
            dashes = " Vertical dashes lead from a variant’s best to the baseline’s, never reached."
    baseline = baseline_of(ratios)
    missed_by_some = len(_short(led)) > 0
    at_edge = f" → at the edge: {baseline}’s best was never reached." if missed_by_some else ""
    arrow = "An arrow"
    if panels and len(shown) > MANY_ARROWS + 1:
        arrow = "Where the slider is at one score an arrow"
    caption = (
        "Each marker is a checkpoint, the mean over its seeds."
        f" {chart.of_bands(curves['seeds'])} {arrow} leads from {baseline}, the baseline, to a"
        f" variant at equal height, and is as long as the ratio{bounds}.{dashes}"
        " The strip has the ratios with 95 % confidence intervals (CI), over seeds and items, each"
        f" at the scores that the variant and {baseline} both reached. {what_filled_means(led)}"
        f"{at_edge}"
    )
    # no legend: the names are at the ends of the curves
    return figure("answer", "The answer", caption, panels)


def _most_common_measure(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the first row of the measure that the answers of most models are of.

    A panel has the curves of one measure; other models are in words beside them.
    """
    by_measure = rows.groupby(["metric", "task"], sort=False)["variant"]
    largest = rows[by_measure.transform("size") == by_measure.size().max()]
    return largest.iloc[0].to_dict()


def _in_words(rows: pd.DataFrame, first: Mapping[str, Any]) -> str:
    """Say the ratios, and which variants did not reach the baseline's best."""
    records = rows.to_dict("records")
    text = f"{listed([answer_in_words(row, first) for row in records])}."
    short = _short(rows[[is_of(row, first) for row in records]])
    if short.empty:
        return text
    best = f"{first['baseline']}’s best, {score(first['baseline_best'], first['metric'])},"
    return f"{text} {best} was never reached by {listed(list(short['variant']))}."


def _short(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the variants that did not reach the baseline's best."""
    return rows[~rows["reached"].astype("boolean").fillna(True).astype(bool)]


def _missed(rows: pd.DataFrame, curve: pd.DataFrame) -> pd.DataFrame:
    """Return from which to which score a variant stayed below the baseline, at its last tokens."""
    last_tokens = curve.groupby("variant")["tokens"].max().reset_index()
    return _short(rows)[["variant", "best", "baseline_best"]].merge(last_tokens)


def _drawn(missed: pd.DataFrame, styles: Mapping[str, Style]) -> pd.DataFrame:
    """Return the rows of `missed` that have dashes: none where there are too many variants."""
    return missed if len(styles) <= MANY_ARROWS + 1 else missed.iloc[:0]


def _chart(
    rows: pd.DataFrame,
    runs: pd.DataFrame,
    arrows: pd.DataFrame,
    missed: pd.DataFrame,
    grid: Grid,
    styles: Mapping[str, Style],
    first: Mapping[str, Any],
    slider: chart.Parameter,
) -> chart.Specification:
    """Draw curves with bands or thin lines of seeds, names at their ends, and arrows."""
    loss = first["metric"] == "loss"
    rows = chart.with_bands(rows, "value")
    names = shortest(styles, NAME)
    x = _axis_with_room(rows["tokens"], max(len(names[name]) for name in rows["variant"].unique()))
    low, high = _limits(rows)
    y = chart.y_axis("value", format="~g" if loss else ".0%")
    y = y.scale(domain=[low, high], zero=False, nice=False).title(measure_label(first))
    levels = [] if loss else chart.chance_level(rows)
    data = chart.records(rows, ["variant", "tokens", "value", "low", "high"])
    base = alt.Chart(data).encode(x=x, color=chart.colour(styles))
    tooltip = chart.tooltip(
        ("variant:N",), ("tokens:Q", ","), ("value:Q", ".3f" if loss else ".1%", first["metric"])
    )
    layers: list[alt.Chart | chart.Specification] = [line for line, _ in levels]
    layers += chart.uncertainty(base, rows, runs, x, y, styles)
    layers += chart.line_and_markers(base.encode(y=y), styles, tooltip, size=26)
    if len(grid.scores):
        layers.append(_height_of_slider(grid, slider["name"], y))
    layers += _arrow_marks(arrows, slider["name"], x, y, styles)
    shown = _drawn(missed, styles)
    for place in range(len(shown)):  # apart, though all stop at the same tokens
        columns = ["variant", "tokens", "best", "baseline_best"]
        stopped = alt.Chart(chart.records(shown.iloc[[place]], columns))
        dashed = stopped.mark_rule(strokeDash=[4, 3], strokeWidth=1.6, xOffset=-4 * place)
        dashed = dashed.encode(x=x, color=chart.colour(styles))
        of_best = alt.Y("best:Q", title=measure_label(first))
        layers.append(dashed.encode(y=of_best, y2=alt.Y2("baseline_best:Q")))
    layers += [name for _, name in levels]
    layers += _names_at_ends(rows.assign(words=rows["variant"].map(names)), x, y, styles)
    return chart.layered(*layers, width=WIDTH, height=HEIGHT, params=[slider])


def _axis_with_room(counts: pd.Series, longest: int) -> alt.X:
    """Return the token axis with room on its right for the names of the curves."""
    x = chart.token_axis(counts)
    scale = x.to_dict(validate=False)["scale"]
    low, high = scale["domain"]
    room = 0.13 + CHARACTER * min(longest, NAME)
    if scale.get("type") == "log":
        high *= (high / low) ** room
    elif scale.get("type") == "symlog":
        high *= (1 + high / scale["constant"]) ** room
    else:
        high += room * (high - low)
    return x.scale(**{**scale, "domain": [low, high], "nice": False})


def _limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of the axis of scores: all that is drawn, and a margin."""
    drawn = rows[["value", "low", "high", "chance"]].astype(float)
    low = float(drawn.min().min())
    high = float(drawn[["value", "high"]].max().max())
    margin = 0.04 * (high - low or 1)
    return low - margin, high + margin


def _names_at_ends(
    rows: pd.DataFrame, x: alt.X, y: alt.Y, styles: Mapping[str, Style]
) -> list[alt.Chart]:
    """Draw the name of each curve behind its last point; names that would meet are moved apart.

    A thin line leads from the end of the curve to a name that is not beside it.
    """
    low, high = _limits(rows)
    ends = rows.loc[rows.groupby("variant")["tokens"].idxmax()].sort_values("value")
    pixels = (ends["value"].to_numpy() - low) / (high - low) * HEIGHT
    placed = spread(pixels, LINE, HEIGHT)
    last = rows["tokens"].max()
    is_led = (np.abs(placed - pixels) > LED_FROM) | (ends["tokens"] < last)
    ends = ends.assign(name_value=low + placed / HEIGHT * (high - low), name_tokens=last)
    columns = ["variant", "tokens", "value", "name_tokens", "name_value", "words"]
    axes = {name: axis.to_dict(validate=False) for name, axis in (("x", x), ("y", y))}
    names = alt.Chart(chart.records(ends, columns)).encode(color=chart.colour(styles))
    names = names.mark_text(align="left", dx=ROOM, fontSize=11, fontWeight=600).encode(
        x=alt.X(**{**axes["x"], "field": "name_tokens"}),
        y=alt.Y(**{**axes["y"], "field": "name_value"}),
        text=alt.Text("words:N"),
        tooltip=chart.tooltip(("variant:N",)),
    )
    if not is_led.any():
        return [names]
    lines = alt.Chart(chart.records(ends[is_led], columns)).encode(color=chart.colour(styles))
    lines = lines.mark_rule(strokeWidth=0.9, strokeOpacity=0.7, xOffset=4, x2Offset=ROOM - 2)
    ends_at = {"x2": alt.X2("name_tokens:Q"), "y2": alt.Y2("name_value:Q")}
    return [lines.encode(x=x, y=y, **ends_at), names]


def spread(places: np.ndarray, step: float, end: float) -> np.ndarray:
    """Move places, the lowest first, until each is `step` above the one below, as little as can be.

    The least sum of squares of the moves: places that would meet are moved as one block, whose
    middle stays. All stay half a step within 0 and `end`, where there is room.
    """
    blocks: list[list[float]] = []
    for number, place in enumerate(places):
        blocks.append([place - step * number])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    steps = step * np.arange(len(places))
    apart = np.concatenate([np.full(len(block), np.mean(block)) for block in blocks]) + steps
    lowest = steps + step / 2
    highest = end - step / 2 - steps[::-1]
    return np.maximum(np.minimum(apart, highest), lowest)


def _slider(arrows: pd.DataFrame, first: Mapping[str, Any]) -> chart.Parameter:
    """Return the parameter with the place of the arrows, which begins at the answer."""
    depth = str(first["depth"]).replace("-", "_")
    parameter = {"name": f"place_{depth}", "value": ANSWER}
    last = int(arrows["place"].max())
    if last > ANSWER:
        parameter["bind"] = {
            "input": "range",
            "min": ANSWER,
            "max": last,
            "step": 1,
            "name": f"Drag for the tokens to one {measure_name(first)}; left end: the answer",
        }
    return parameter


def _height_of_slider(grid: Grid, slider: str, y: alt.Y) -> alt.Chart:
    """Draw a line at the score where the slider is."""
    places = [{"place": step + ANSWER + 1, "value": value} for step, value in grid.scores.items()]
    frame = pd.DataFrame(places, columns=["place", "value"])
    base = alt.Chart(chart.records(frame, ["place", "value"]))
    base = base.transform_filter(f"datum.place === {slider}")
    return base.mark_rule(color=LIGHT["rule"], strokeDash=[2, 3]).encode(y=y)


def _arrow_marks(
    arrows: pd.DataFrame, slider: str, x: alt.X, y: alt.Y, styles: Mapping[str, Style]
) -> list[alt.Chart]:
    """Draw arrows where the slider is; an arrow tells its label."""
    data = chart.records(arrows, [*ARROW, "label", "place", "line"])
    base = (
        alt.Chart(data)
        .transform_filter(f"datum.place === {slider}")
        .transform_filter("isValid(datum.tokens) && isValid(datum.baseline_tokens)")
        .encode(color=chart.colour(styles), tooltip=chart.tooltip(("label:N", "", "ratio")))
    )
    tail = alt.X(**{**x.to_dict(validate=False), "field": "baseline_tokens"})
    more, fewer = HEADS
    head = alt.condition("datum.tokens > datum.baseline_tokens", alt.value(more), alt.value(fewer))
    dash = alt.condition("datum.dashed", alt.value([5, 3]), alt.value([1, 0]))
    shaft = base.mark_rule(strokeWidth=2.4).encode(x=tail, x2=alt.X2("tokens:Q"), y=y)
    return [
        shaft.encode(strokeDash=dash),
        base.mark_point(filled=True, opacity=1).encode(
            x=x, y=y, shape=head, size=alt.SizeValue({"expr": _size_of_head(x)})
        ),
    ]


def _size_of_head(x: alt.X) -> str:
    """Return an expression of the size at which a head is half as long as its arrow."""
    scale = x.to_dict(validate=False)["scale"]
    low, high = scale["domain"]
    if scale.get("type") == "log":
        share = f"log(datum.tokens / datum.baseline_tokens) / {math.log(high / low):.5g}"
    else:
        share = f"(datum.tokens - datum.baseline_tokens) / {high - low:.5g}"
    pixels = f"abs({share}) * (width || {WIDTH})"
    return f"clamp(pow({pixels} / {HEAD_LENGTH:g} / 2, 2), {LEAST_HEAD}, {HEAD})"


def _headings(grid: Grid) -> list[dict[str, Any]]:
    """Return what the strip is about at each place of the slider."""
    named = owner(grid.baseline)
    of_training = "Training tokens" if named == grid.baseline else "Tokens"  # a long name
    scores = [
        {"place": step + ANSWER + 1, "words": f"Tokens to {grid.in_words(value)}"}
        for step, value in grid.scores.items()
    ]
    return [{"place": ANSWER, "words": f"{of_training} over {named}’s"}, *scores]
