"""Draw architectures on a map: the ratio on one ability against the ratio on another."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.data import baseline_of
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.ratios import (
    ROUND,
    label,
    ratio_axis,
    with_bounds,
)
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT
from dreamer_study.reports.text.names import ability_name, panel_name
from dreamer_study.reports.text.numbers import counted
from dreamer_study.sql.names import AT_LEAST, AT_MOST, AVERAGE

ABILITIES = 2  # of a map
FEWEST = 4  # variants: fewer are read from a table
SIDE = 620  # pixels of the map
BAND = 0.15  # of an axis, where architectures never rose above chance
WIDE_BAND = 0.3  # where more of them did than a band has columns
COLUMNS = 5  # in a narrow band
BEYOND = 3.0  # an interval is drawn so far beyond the outermost ratio
TURNS = 3  # of places across a band before one stands beside the first
CHARACTER, LINE = 6.2, 13  # pixels of a name
RADII = (13, 20, 30, 44, 62, 84)  # pixels from a point to its name
ANGLES = 16
LED_FROM = 26  # pixels: a name further away has a line to its point
MARKED, OTHERS = LIGHT["v2"], LIGHT["v1"]
NO_RATIO = "never above chance"
SHAPES = {
    ("", ""): "circle",
    (AT_LEAST, ""): "triangle-right",
    (AT_MOST, ""): "triangle-left",
    ("", AT_LEAST): "triangle-up",
    ("", AT_MOST): "triangle-down",
}
BOTH = "diamond"  # a bound on both
Box = tuple[float, float, float, float]  # left, bottom, right and top, in pixels
FIELDS = ("ratio", "low", "high", "bound", "label")


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis: `low` to `high`, of which what is beyond `edge` is the band."""

    low: float
    high: float
    edge: float

    def in_band(self, count: int) -> np.ndarray:
        """Return this many places across the band, so that no interval lies on another.

        Successive places are far from each other, as their names stand beside them.
        """
        by_turns = np.argsort(np.arange(count) % TURNS, kind="stable")
        column = np.empty(count)
        column[by_turns] = np.arange(count)
        edge = self.pixels_of(self.edge) + LINE  # beyond the words of the band
        pixels = edge + (1 + column) / (1 + count) * (SIDE - edge)
        return np.array([self.value(place) for place in pixels])

    @property
    def vega(self) -> alt.Scale:
        """The scale of the axis in a chart."""
        return alt.Scale(type="log", domain=[self.low, self.high], nice=False)

    def pixels(self, values: pd.Series) -> np.ndarray:
        """Return how far values are from the low end of the axis."""
        return np.array([self.pixels_of(value) for value in values.to_numpy(float)])

    def pixels_of(self, value: float) -> float:
        """Return how far one value is from the low end of the axis."""
        return SIDE * math.log(value / self.low) / math.log(self.high / self.low)

    def value(self, pixels: float) -> float:
        """Return the value at some pixels from the low end."""
        return self.low * (self.high / self.low) ** (pixels / SIDE)


def where_yours_stand(rows: pd.DataFrame, elsewhere: pd.DataFrame) -> Figure | None:
    """Draw the map of a study; marked are the variants that others have not trained."""
    own = set(rows["variant"]) - set(elsewhere["variant"]) if len(elsewhere) else set()
    return ability_map(rows, own)


def ability_map(rows: pd.DataFrame, marked: Collection[str] = ()) -> Figure | None:
    """Draw a point for each variant: its ratios of accuracy on two tasks, intervals as a cross.

    `rows` are those of `StudyData.ratios`. Variants that are `marked` have another colour. Variants
    that never rose above chance on a task are in a band at the end of its axis, whether or not a
    bound is known. None unless there are exactly two tasks and at least four variants.
    """
    rows = _known(rows[(rows["metric"] == "accuracy") & (rows["task"] != AVERAGE)])
    tasks = sorted(set(rows["task"]))
    if len(tasks) != ABILITIES or with_bounds(rows)["variant"].nunique() < FEWEST:
        return None
    panels = []
    all_points = []
    for depth, part in rows.groupby("depth"):
        points = _points(with_bounds(part), tasks)
        all_points.append(points)
        drawn = _chart(points, tasks, baseline_of(rows), marked)
        description = "; ".join(
            f"{row.variant}: {row.label_x} on {ability_name(tasks[0])}, {row.label_y} on"
            f" {ability_name(tasks[1])}"
            for row in points.itertuples(False)
        )
        title = panel_name(depth, rows["depth"])
        panels.append(panel(title, f"{description}.", drawn, depth=depth))
    return figure(
        "ability-map",
        f"{ability_name(tasks[1])} against {ability_name(tasks[0])}",
        f"Training tokens divided by those of {baseline_of(rows)}, to equal accuracy on each task;"
        " logarithmic axes. Left and down is better. Crosses: 95 % confidence intervals over seeds"
        f" and items, cut at the edges.{_of_marks(pd.concat(all_points))}",
        panels,
        wide=True,
        finding=_findings(all_points, rows, tasks),
    )


def _known(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out models with a task that has neither ratio nor bound, and is not at chance.

    Such a task is not evaluated yet, or has one seed. The model then has no place on the map.
    """
    nothing = rows[["ratio", "low", "high"]].isna().all(axis=1) & ~rows["near_chance"].eq(True)
    has_nothing = nothing.groupby([rows["depth"], rows["variant"]]).transform("any")
    return rows[~has_nothing]


def _points(rows: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
    """Return one row for each variant, with the fields of both tasks as `ratio_x`, `ratio_y`."""
    has_ratio = rows["ratio"].notna()
    # at most: it is the baseline that never rose
    never_rose = ~has_ratio & rows["near_chance"].eq(True) & (rows["bound"] != AT_MOST)
    rows = rows.assign(
        label=[label(row) for row in rows.to_dict("records")],
        low=rows["low"].where(has_ratio),
        high=rows["high"].where(has_ratio),
        ratio=rows["shown"].mask(never_rose),
        bound=rows["bound"].mask(never_rose, ""),
    )
    sides = [
        rows.loc[rows["task"] == task, ["variant", *FIELDS]].rename(
            columns={field: f"{field}_{side}" for field in FIELDS}
        )
        for task, side in zip(tasks, ("x", "y"), strict=True)
    ]
    return sides[0].merge(sides[1], on="variant", how="outer").sort_values("variant")


def _of_marks(points: pd.DataFrame) -> str:
    """Explain the bands and the triangles that are there."""
    text = ""
    if points[["ratio_x", "ratio_y"]].isna().any(axis=None):
        text += (
            " In the grey bands are those whose mean accuracy never rose above chance: they have no"
            " ratio, and their place across a band says nothing."
        )
    if _lacks_interval(points).any():
        text += " A hollow circle has a ratio whose interval is not known."
    if (points[["bound_x", "bound_y"]] != "").any(axis=None):
        text += " A triangle is a bound, on the side to which it points."
    return text


def _lacks_interval(points: pd.DataFrame) -> pd.Series:
    """Tell which variants have a ratio on a task, and no end of its interval."""
    lacks = [
        points[f"ratio_{side}"].notna()
        & (points[f"bound_{side}"] == "")
        & points[[f"low_{side}", f"high_{side}"]].isna().all(axis=1)
        for side in ("x", "y")
    ]
    return lacks[0] | lacks[1]


def _findings(all_points: Sequence[pd.DataFrame], rows: pd.DataFrame, tasks: Sequence[str]) -> str:
    """Say the finding of each depth, which is named where there are several."""
    baseline = baseline_of(rows)
    told = [_finding(points, tasks, baseline) for points in all_points]
    if len(told) == 1:
        return told[0]
    depths = sorted(rows["depth"].unique())
    return " ".join(f"Depth {depth}: {text}" for depth, text in zip(depths, told, strict=True))


def _finding(points: pd.DataFrame, tasks: Sequence[str], baseline: str) -> str:
    """Count the variants that rose above chance on both tasks, on one of them, and on neither."""
    first, second = points["ratio_x"].notna(), points["ratio_y"].notna()
    counts = {
        "on both": first & second,
        f"on {ability_name(tasks[0])} alone": first & ~second,
        f"on {ability_name(tasks[1])} alone": second & ~first,
        "on neither": ~first & ~second,
    }
    told = [f"{int(those.sum())} {where}" for where, those in counts.items() if those.any()]
    count = counted(len(points), "architecture")
    return f"Of {count} beside {baseline}, above chance: {', '.join(told)}."


def _scale(points: pd.DataFrame, side: str) -> Scale:
    """Return an axis that holds all ratios, and their intervals as far as these say something."""
    ratios = [1.0, *points[f"ratio_{side}"].dropna()]  # with the baseline's
    lowest = min(ratios)
    highest = max(ratios)
    # an interval without an end, and a ratio without an interval, reach to the outermost ratio
    lows = points[f"low_{side}"].fillna(lowest)
    highs = points[f"high_{side}"].fillna(highest)
    low = min(max(lows.min(), lowest / BEYOND), 0.8) / 1.1
    edge = max(min(highs.max(), highest * BEYOND), 1.25) * 1.2
    absent = int(points[f"ratio_{side}"].isna().sum())
    if not absent:
        return Scale(low, edge, edge)
    share = BAND if absent <= COLUMNS else WIDE_BAND
    return Scale(low, edge * (edge / low) ** (share / (1 - share)), edge)


def _chart(
    points: pd.DataFrame, tasks: Sequence[str], baseline: str, marked: Collection[str]
) -> chart.Specification:
    scales = {"x": _scale(points, "x"), "y": _scale(points, "y")}
    for side, other in (("x", "y"), ("y", "x")):
        scale = scales[side]
        points = points.sort_values([f"ratio_{other}", "variant"], ignore_index=True)
        absent = points[f"ratio_{side}"].isna()
        place = points[f"ratio_{side}"].copy()
        place[absent] = scale.in_band(int(absent.sum()))
        points = points.assign(
            **{
                side: place,
                f"from_{side}": points[f"low_{side}"].clip(lower=scale.low, upper=scale.edge),
                f"to_{side}": points[f"high_{side}"].clip(lower=scale.low, upper=scale.edge),
            }
        )
    points = points.assign(
        colour=np.where(points["variant"].isin(list(marked)), MARKED, OTHERS),
        shape=[
            SHAPES.get((x, y), BOTH)
            for x, y in zip(points["bound_x"], points["bound_y"], strict=True)
        ],
        filled=~_lacks_interval(points),
    )
    of_baseline = {
        "variant": baseline,
        "x": 1.0,
        "y": 1.0,
        "colour": LIGHT["v0"],
        "shape": "circle",
        "filled": True,
    }
    points = pd.concat([points, pd.DataFrame([of_baseline])], ignore_index=True)
    points = _with_names(points, scales)
    axes = {
        side: _axis(side, scale, f"{ability_name(task)}: tokens divided by {baseline}’s")
        for (side, scale), task in zip(scales.items(), tasks, strict=True)
    }
    layers: list[alt.Chart | chart.Specification] = list(_background(scales, axes))
    layers += _crosses(points, axes, scales)
    layers += _names(points, scales)
    return chart.layered(*layers, width=SIDE, height=SIDE)


def _axis(side: str, scale: Scale, title: str) -> alt.X | alt.Y:
    channel = alt.X if side == "x" else alt.Y
    return channel(
        f"{side}:Q",
        title=title,
        scale=scale.vega,
        axis=ratio_axis(
            scale.low,
            scale.edge,
            scale.high,
            usual=SIDE,
            is_vertical=side == "y",
            candidates=ROUND,
        ),
    )


def _background(scales: dict[str, Scale], axes: dict[str, alt.X | alt.Y]) -> Iterator[alt.Chart]:
    """Draw the lines at 1, and the bands of those without a ratio, with their names."""
    one = alt.Chart(chart.records(pd.DataFrame([{"x": 1.0, "y": 1.0}]), ["x", "y"]))
    for side in scales:
        yield one.mark_rule(color=LIGHT["rule"]).encode(**{side: axes[side]})
    for side, scale in scales.items():
        if scale.high == scale.edge:
            continue
        band = pd.DataFrame([{side: scale.edge, "end": scale.high, "words": NO_RATIO}])
        base = alt.Chart(chart.records(band, [side, "end", "words"]))
        ends = {side: axes[side], f"{side}2": alt.datum(scale.high)}
        yield base.mark_rect(color=LIGHT["grid"], opacity=0.6).encode(**ends)
        look = {"fontSize": 10, "color": LIGHT["muted"]}
        if side == "x":
            text = base.mark_text(**look, angle=270, align="left", dx=4, dy=8)
            yield text.encode(x=axes["x"], y=alt.value(SIDE), text="words:N")
        else:
            text = base.mark_text(**look, align="left", dx=4, dy=-8)
            yield text.encode(y=axes["y"], x=alt.value(0), text="words:N")


def _crosses(
    points: pd.DataFrame, axes: dict[str, alt.X | alt.Y], scales: dict[str, Scale]
) -> list[alt.Chart]:
    """Draw the points, and their intervals as crosses behind them."""
    ends = [f"{end}_{side}" for side in axes for end in ("from", "to")]
    columns = ["variant", "x", "y", *ends, "colour", "shape", "filled", "label_x", "label_y"]
    base = alt.Chart(chart.records(points, columns))
    colour = alt.Color("colour:N", scale=None, legend=None)
    lines = base.mark_rule(strokeWidth=1, opacity=0.4)
    across = lines.transform_filter("isValid(datum.from_x)").encode(
        x=alt.X("from_x:Q", scale=scales["x"].vega), x2="to_x:Q", y=axes["y"], color=colour
    )
    along = lines.transform_filter("isValid(datum.from_y)").encode(
        y=alt.Y("from_y:Q", scale=scales["y"].vega), y2="to_y:Q", x=axes["x"], color=colour
    )
    told = chart.tooltip(("variant:N",), ("label_x:N", "", "x"), ("label_y:N", "", "y"))
    inside = alt.condition(
        "datum.filled", alt.Fill("colour:N", scale=None, legend=None), alt.value(LIGHT["paper"])
    )
    marks = base.mark_point(size=52, opacity=1, strokeWidth=1.6).encode(
        x=axes["x"],
        y=axes["y"],
        stroke=alt.Stroke("colour:N", scale=None, legend=None),
        fill=inside,
        shape=alt.Shape("shape:N", scale=None, legend=None),
        tooltip=told,
    )
    return [across, along, marks]


def _names(points: pd.DataFrame, scales: dict[str, Scale]) -> list[alt.Chart]:
    """Draw the names, and lines to those that are away from their points."""
    led = points[points["led"]]
    columns = ["variant", "x", "y", "name_x", "name_y", "colour"]
    at_name = {
        "x": alt.X("name_x:Q", scale=scales["x"].vega),
        "y": alt.Y("name_y:Q", scale=scales["y"].vega),
    }
    lines = alt.Chart(chart.records(led, columns)).mark_rule(color=LIGHT["rule"], strokeWidth=0.8)
    base = alt.Chart(chart.records(points, columns)).encode(**at_name, text="variant:N")
    halo = base.mark_text(
        fontSize=11, stroke=LIGHT["paper"], strokeWidth=3, strokeOpacity=0.85, strokeJoin="round"
    )
    over = base.mark_text(fontSize=11, color=LIGHT["ink"])
    return [lines.encode(**at_name, x2="x:Q", y2="y:Q"), halo, over]


def _with_names(points: pd.DataFrame, scales: dict[str, Scale]) -> pd.DataFrame:
    """Add the places of the names, `name_x` and `name_y`, and whether a line leads there, `led`.

    Each name takes the nearest free place around its point; those with the most neighbours first.
    """
    x = scales["x"].pixels(points["x"])
    y = scales["y"].pixels(points["y"])
    points_themselves = [
        (across - 5, along - 5, across + 5, along + 5) for across, along in zip(x, y, strict=True)
    ]
    taken: list[Box] = [*points_themselves, *words_of_bands(scales)]
    apart = np.hypot(x[:, None] - x[None, :], y[:, None] - y[None, :])
    neighbours = (apart < 2 * RADII[-1]).sum(axis=1)
    places: dict[int, tuple[float, float, bool]] = {}
    for number in np.argsort(-neighbours, kind="stable"):
        width = CHARACTER * len(points["variant"].iloc[number])
        place, distance = _free_place(x[number], y[number], width, taken)
        taken.append(_box(*place, width))
        value = (scales["x"].value(place[0]), scales["y"].value(place[1]))
        places[number] = (*value, distance >= LED_FROM)
    chosen = [places[number] for number in range(len(points))]
    name_x, name_y, led = zip(*chosen, strict=True)
    return points.assign(name_x=name_x, name_y=name_y, led=led)


def words_of_bands(scales: dict[str, Scale]) -> Iterator[Box]:
    """Yield the boxes of the words in the bands, from left or from below, beside the edge."""
    length = CHARACTER * len(NO_RATIO)
    for side, scale in scales.items():
        if scale.high == scale.edge:
            continue
        edge = scale.pixels_of(scale.edge)
        if side == "x":
            yield edge, 0, edge + LINE, length
        else:
            yield 0, edge, length, edge + LINE


def _free_place(
    x: float, y: float, width: float, taken: Sequence[Box]
) -> tuple[tuple[float, float], float]:
    """Return the nearest place for the middle of a name that meets nothing, and its distance.

    Where none is free, the one that meets the least.
    """
    candidates = []
    for radius in RADII:
        for step in range(ANGLES):
            angle = 2 * math.pi * step / ANGLES
            # the middle of a name is further away where the name is beside the point
            across = math.cos(angle) * (radius + width / 2 - 4)
            place = (x + across, y + math.sin(angle) * radius)
            box = _box(*place, width)
            met = sum(_common(box, other) for other in taken) + _outside(box)
            if met == 0:
                return place, radius
            candidates.append((met, radius, place))
    _, radius, place = min(candidates)
    return place, radius


def _box(x: float, y: float, width: float) -> Box:
    return x - width / 2, y - LINE / 2, x + width / 2, y + LINE / 2


def _common(first: Box, second: Box) -> float:
    """Return the area that two boxes have in common."""
    across = min(first[2], second[2]) - max(first[0], second[0])
    along = min(first[3], second[3]) - max(first[1], second[1])
    return max(across, 0) * max(along, 0)


def _outside(box: Box) -> float:
    """Return how far a box is beyond the map, in pixels."""
    left, bottom, right, top = box
    return max(-left, 0) + max(-bottom, 0) + max(right - SIDE, 0) + max(top - SIDE, 0)
