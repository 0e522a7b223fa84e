"""Build the parts that the Altair charts of all figures have.

These are inline data, axes, encodings by variant, and layers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from scipy.special import stdtrit  # scipy.stats takes a second to be imported

from dreamer_study.reports.style.theme import LIGHT, RAMP, Style, ordered
from dreamer_study.reports.text.names import (
    LONGEST,
    depth_name,
    shortest,
    task_name,
    task_order,
)
from dreamer_study.sql.names import AVERAGE

WIDTH, HEIGHT = 300, 190  # of a panel in pixels
WIDE = 640
PAGE_WIDTH = 920  # of a wide panel on the page, which is wider than a page of a paper
BANDS_FROM = 4  # seeds: the interval of fewer would be wider than what it is about
NORMAL_95 = 1.96  # standard errors to either side that hold 95 % of a normal distribution
# Tokens are drawn on a logarithmic axis where the highest are this many times the lowest.
LOG_FROM = 8
MANY_LINES = 12  # of runs in a panel; where there are more, each is thinner and fainter
Parameter = dict[str, Any]  # of Vega-Lite: what a slider or a menu below a panel chooses
Specification = dict[str, Any]  # of Vega-Lite, with its data by name in `datasets`
# Of fields whose name does not say what they are.
Y_TITLES = {"loss": "loss (nats per token)", "value": "loss (bits per byte)"}
COUNT_LABEL = "replace(replace(format(datum.value, '~s'), 'G', 'B'), 'k', 'K')"


def records(frame: pd.DataFrame, columns: Sequence[str]) -> alt.InlineData:
    """Turn columns of a frame into data for a chart.

    Charts have only fixed names of this package as fields, so no name from the data is ever read as
    an expression. The rows are one text in CSV: a quarter of the size of JSON objects, and Altair
    copies its parts again and again.
    """
    chosen = frame[list(columns)].replace([np.inf, -np.inf], np.nan)
    kinds = {column: _kind(chosen[column]) for column in chosen}
    for column, kind in kinds.items():
        if kind == "boolean":
            chosen[column] = chosen[column].map({True: "true", False: "false"})
    # With these line ends, texts with either character are quoted.
    text = chosen.to_csv(index=False, float_format="%.6g", lineterminator="\r\n")
    return alt.InlineData(values=text.removesuffix("\r\n"), format={"type": "csv", "parse": kinds})


def _kind(values: pd.Series) -> str:
    if pd.api.types.infer_dtype(values) == "boolean":  # also of an object column with nulls
        return "boolean"
    return "number" if pd.api.types.is_numeric_dtype(values) else "string"


def plain(chart: alt.Chart, data: alt.InlineData | None = None) -> Specification:
    """Turn a chart into a specification without schema and configuration.

    `data` are those of the parent, where the chart is a layer.
    """
    datasets: dict[str, Any] = {}
    context: dict[str, Any] = {"top_level": False, "datasets": datasets}
    if data is not None:
        context["data"] = data
    specification = chart.to_dict(validate=False, context=context)
    return {**specification, "datasets": datasets} if datasets else specification


def layered(
    *layers: alt.Chart | Specification, data: alt.InlineData | None = None, **properties: Any
) -> Specification:
    """Lay charts over each other, the first at the back; `data` are those of charts without any.

    Altair's own `layer` copies all parts of its charts four times, which took two fifths of the
    time of a report.
    """
    specifications = [layer if isinstance(layer, dict) else plain(layer, data) for layer in layers]
    whole: Specification = {"layer": specifications}
    if data is not None:
        of_data = plain(alt.Chart(data))
        whole |= {key: part for key, part in of_data.items() if key != "mark"}
    # Data and sizes are of the whole chart.
    for specification in specifications:
        whole["datasets"] = {**whole.get("datasets", {}), **specification.pop("datasets", {})}
        for size in ("width", "height"):
            if size in specification:
                whole[size] = specification.pop(size)
    return whole | properties


def by_model(
    rows: pd.DataFrame, styles: Mapping[str, Style]
) -> list[tuple[str, pd.DataFrame, Style, dict[str, Any]]]:
    """Return title, rows, style, and keys of a panel of each model, by depth and variant."""
    columns = ["model_depth" if "model_depth" in rows else "depth", "variant"]
    panels = []
    for (depth, variant), part in ordered(rows, styles).groupby(columns, sort=False):
        title = f"{variant}, {depth_name(depth).lower()}"
        panels.append((title, part, styles[variant], {"variant": variant, "depth": depth}))
    return panels


def token_axis(values: pd.Series, field: str = "tokens") -> alt.X:
    """Return the token axis over these counts: logarithmic, or linear from zero.

    Logarithmic where the counts span more than `LOG_FROM`, or are one.
    """
    low = float(values.min())
    high = float(values.max())
    axis = alt.Axis(labelExpr=COUNT_LABEL, tickCount=5, labelOverlap=True)
    # An evaluation before training: a logarithm that is linear up to the first positive count.
    if low <= 0 < high:
        first = float(values[values > 0].min())
        scale = alt.Scale(type="symlog", constant=first, domain=[0, high])
        axis.values = [0, *_round_counts(first, high)]
    elif high == low and high > 0:
        scale = alt.Scale(type="log", domain=[low / 2, high * 2])
        axis.values = [low]
    elif high >= LOG_FROM * low > 0:
        scale = alt.Scale(type="log", domain=[low, high])
        axis.values = _round_counts(low, high)
    else:
        scale = alt.Scale(domain=[0, max(high, 1)])
    return alt.X(f"{field}:Q", title="training tokens", scale=scale, axis=axis)


def _round_counts(low: float, high: float) -> list[float]:
    """Return at most seven ticks of a logarithmic axis.

    They are 1, 2 and 5 of each decade over up to two decades, else 1.
    """
    steps = (1, 2, 5) if high / low <= 100 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    counts = [step * 10.0**decade for decade in decades for step in steps]
    ticks = [count for count in counts if low <= count <= high]
    return ticks[:: math.ceil(len(ticks) / 7)] or [low]


def name_axis(names: Iterable[str], **axis: Any) -> alt.Axis:
    """Return an axis of names, of which long ones are shortened to what tells them apart.

    `axis` has further properties of Vega-Lite.
    """
    shown = shortest(names, LONGEST)
    long = [name for name, text in shown.items() if text != name]
    looks: dict[str, Any] = {"domain": False, "labelFontSize": 12, "labelLimit": 400}
    if long:
        texts = [shown[name] for name in long]
        place = f"indexof({json.dumps(long)}, datum.label)"
        # texts in quotes, with every other character escaped: no name is read as an expression
        looks["labelExpr"] = f"{place} < 0 ? datum.label : {json.dumps(texts)}[{place}]"
    return alt.Axis(**{**looks, **axis})


def chosen_benchmark(tasks: pd.Series, depth: int) -> Parameter:
    """Return the menu that chooses one of these benchmarks for the panels of a depth.

    The page's script knows the menu by its name, and chooses what is clicked in a map.
    """
    names = task_order(set(tasks) - {AVERAGE})
    menu = {
        "input": "select",
        "options": names,
        "labels": list(shortest(map(task_name, names), LONGEST).values()),
        "name": "Benchmark ",
    }
    return {"name": f"benchmark_{depth}".replace("-", "_"), "value": names[0], "bind": menu}


def is_chosen(parameter: Parameter) -> str:
    """Return the condition for rows of the benchmark that a menu chose."""
    return f"datum.task === {parameter['name']}"


def depth_ticks(depths: int) -> list[int]:
    """Return about eight of the depths from 1 on."""
    every = max(1, depths // 8)
    return [depth for depth in range(1, depths + 1) if depth % every == 0 or depth == 1]


def y_axis(field: str, zero: bool = False, **axis: Any) -> alt.Y:
    """Return a quantitative y axis with what the field is as its title.

    `axis` has further properties of Vega-Lite.
    """
    return alt.Y(
        f"{field}:Q",
        title=Y_TITLES.get(field, field.replace("_", " ")),
        scale=alt.Scale(zero=zero, nice=True),
        axis=alt.Axis(tickCount=5, **axis),
    )


def percent_axis(channel: Callable[..., Any], field: str, title: str) -> Any:
    """Return an axis of shares from 0 to 100 %; `channel` is `alt.X` or `alt.Y`."""
    axis = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    return channel(f"{field}:Q", title=title, axis=axis, scale=alt.Scale(domain=[0, 1]))


def tooltip(*rows: tuple[str, ...]) -> list[alt.Tooltip]:
    """Return the rows of a tooltip, each from (field with type, format, title).

    Format and title may be left out, or empty.
    """
    keys = ("shorthand", "format", "title")
    tooltips = []
    for row in rows:
        given = {key: text for key, text in zip(keys, row, strict=False) if text}
        tooltips.append(alt.Tooltip(**given))
    return tooltips


def ramp(field: str, stops: Sequence[float], kind: Any = alt.Undefined, **legend: Any) -> alt.Color:
    """Encode a field by colours from dark to bright at these values.

    `legend` has further properties of the legend.
    """
    looks = {
        "gradientThickness": 8,
        "gradientStrokeColor": LIGHT["rule"],
        "titleFontWeight": "normal",
        "labelColor": LIGHT["muted"],
        "titleColor": LIGHT["muted"],
    }
    colours = alt.Scale(type=kind, domain=list(stops), range=list(RAMP))
    return alt.Color(f"{field}:Q", scale=colours, legend=alt.Legend(**looks, **legend))


def colour(styles: Mapping[str, Style]) -> alt.Color:
    """Encode the field `variant` by colour."""
    return _by_variant(alt.Color, styles, [style.light for style in styles.values()])


def shape(styles: Mapping[str, Style]) -> alt.Shape:
    """Encode the field `variant` by marker shape."""
    return _by_variant(alt.Shape, styles, [style.vega_shape for style in styles.values()])


def dash(styles: Mapping[str, Style]) -> alt.StrokeDash:
    """Encode the field `variant` by line dash: whole for up to seven variants, broken for more."""
    return _by_variant(alt.StrokeDash, styles, [list(style.dash) for style in styles.values()])


def _by_variant(channel: Callable[..., Any], styles: Mapping[str, Style], looks: list[Any]) -> Any:
    return channel("variant:N", scale=alt.Scale(domain=list(styles), range=looks), legend=None)


def line_and_markers(
    base: alt.Chart,
    styles: Mapping[str, Style],
    rows: list[alt.Tooltip],
    size: int = 34,
    **line: float,
) -> list[alt.Chart]:
    """Draw a line and a marker of `size` at each point, with a tooltip.

    `base` encodes x, y and colour, `line` has further properties of the line.
    """
    lines = base.mark_line(**{"strokeWidth": 1.8, **line})
    markers = base.mark_point(filled=True, size=size, opacity=1)
    return [
        lines.encode(strokeDash=dash(styles)),
        markers.encode(shape=shape(styles), tooltip=rows),
    ]


def seed_lines(rows: pd.DataFrame, x: alt.X, y: alt.Y, styles: Mapping[str, Style]) -> alt.Chart:
    """Draw a faint line for each run in `rows`: the seeds behind a mean.

    The rows have the fields of x and y.
    """
    fields = [axis.to_dict(validate=False)["field"] for axis in (x, y)]
    base = alt.Chart(records(rows, ["variant", "run_id", *fields]), name="seeds")
    many = rows["run_id"].nunique() > MANY_LINES
    return base.mark_line(strokeWidth=0.8, strokeOpacity=0.2 if many else 0.5).encode(
        x=x, y=y, color=colour(styles), detail=alt.Detail("run_id:N")
    )


def run_curves(
    rows: pd.DataFrame, styles: Mapping[str, Style], field: str, zero: bool = False
) -> Specification:
    """Draw a column (y) against training tokens (x), a line for each run.

    The axis of y is from zero on, or where the values are. Checkpoints are marked unless there are
    many lines.
    """
    data = records(rows, ["variant", "run_id", "tokens", field])
    base = alt.Chart(data, width=WIDTH, height=HEIGHT).encode(
        x=token_axis(rows["tokens"]),
        y=y_axis(field, zero),
        color=colour(styles),
        detail=alt.Detail("run_id:N"),
    )
    if rows["run_id"].nunique() > MANY_LINES:
        lines = base.mark_line(strokeWidth=0.8, strokeOpacity=0.6)
        return layered(lines.encode(strokeDash=dash(styles)))
    values = tooltip(("variant:N",), ("tokens:Q", ","), (f"{field}:Q", ".3f"))
    return layered(*line_and_markers(base, styles, values, size=30))


def rings(rows: pd.DataFrame, x: alt.X, y: alt.Y, styles: Mapping[str, Style]) -> list[alt.Chart]:
    """Draw a ring around every point of `rows`, which have the fields of x and y.

    No layer without points.
    """
    if rows.empty:
        return []
    fields = [axis.to_dict(validate=False)["field"] for axis in (x, y)]
    base = alt.Chart(records(rows, ["variant", *fields])).encode(x=x, y=y, color=colour(styles))
    return [base.mark_point(size=150, strokeWidth=1.4, filled=False, shape="circle")]


def level(value: float, name: str, ink: str, align: str) -> tuple[alt.Chart, Specification]:
    """Draw a horizontal line across a panel, and its name on the line with a halo."""
    base = alt.Chart(alt.InlineData(values=[{"y": value, "words": name}])).encode(y=alt.Y("y:Q"))
    x = alt.XValue(2 if align == "left" else "width")
    text = {"align": align, "dy": -6, "fontSize": 10}
    halo = base.mark_text(**text, stroke=LIGHT["paper"], strokeWidth=3, strokeOpacity=0.8)
    over = base.mark_text(**text, color=ink)
    texts = [layer.encode(x=x, text=alt.Text("words:N")) for layer in (halo, over)]
    line = base.mark_rule(color=ink, strokeDash=[2, 3], strokeWidth=1.2)
    return line, layered(*texts)


def chance_level(rows: pd.DataFrame) -> list[tuple[alt.Chart, Specification]]:
    """Draw the level of chance; nothing where the task has none."""
    chance = float(rows["chance"].max())
    if math.isnan(chance):
        return []
    return [level(chance, "chance", LIGHT["muted"], "right")]


def with_bands(rows: pd.DataFrame, field: str = "accuracy") -> pd.DataFrame:
    """Add `low` and `high`, the 95 % interval of the mean, over seeds and items.

    The seeds' part is Student's, the items' part normal. Without an interval where there are fewer
    than `BANDS_FROM` seeds, of which the spread cannot be estimated well. Accuracies are within 0
    to 1.
    """
    enough = rows["seeds"] >= BANDS_FROM
    of_seeds = stdtrit(rows["seeds"].clip(lower=2) - 1, 0.975) * rows["seed_error"]
    of_items = NORMAL_95 * rows["stderr"].astype(float).fillna(0)
    half = np.sqrt(of_seeds**2 + of_items**2).where(enough)
    low = rows[field] - half
    high = rows[field] + half
    if field == "accuracy" or ("metric" in rows and (rows["metric"] == "accuracy").all()):
        low, high = low.clip(lower=0), high.clip(upper=1)
    return rows.assign(low=low, high=high)


def interval_told(rows: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return what a tooltip tells of the intervals of accuracies, where all means have one."""
    if rows["low"].isna().any():
        return []
    return [("low:Q", ".2%", "95 % CI from"), ("high:Q", ".2%", "to")]


def of_bands(seeds: pd.Series, drawn: str = "Bands", over: str = "seeds and items") -> str:
    """Say how the uncertainty of a mean is drawn.

    `drawn` names what intervals are drawn as, `over` what they are over.
    """
    if seeds.max() < 2:
        return "With one seed no interval is known."
    if seeds.max() < BANDS_FROM:
        return f"Thin lines are the seeds: fewer than {BANDS_FROM} have no interval."
    sentence = f"{drawn} are 95 % intervals of the mean, over {over}."
    if seeds.min() < BANDS_FROM:
        sentence += f" Models of fewer than {BANDS_FROM} seeds have their seeds as thin lines."
    return sentence


def bands(base: alt.Chart, rows: pd.DataFrame, y: alt.Y) -> list[alt.Chart]:
    """Draw bands around the means that have an interval; `base` is as of `uncertainty`."""
    if rows["low"].isna().all():
        return []
    band = base.transform_filter("isValid(datum.low)").mark_area(fillOpacity=0.13)
    # the title of another layer, or the axis would have none
    title = y.to_dict(validate=False).get("title")
    return [band.encode(y=alt.Y("low:Q", title=title), y2=alt.Y2("high:Q"))]


def uncertainty(
    base: alt.Chart,
    rows: pd.DataFrame,
    runs: pd.DataFrame,
    x: alt.X,
    y: alt.Y,
    styles: Mapping[str, Style],
) -> list[alt.Chart]:
    """Draw bands around means, and the single seeds of models that have few.

    `base` has the data of `rows`, which are those of `with_bands`, with x and colour; `runs` are
    the curves of single runs, with the fields of x and y.
    """
    layers = bands(base, rows, y)
    few = rows.loc[rows["seeds"].between(2, BANDS_FROM - 1), "variant"]
    of_few = runs[runs["variant"].isin(few)]
    if len(of_few):
        layers.append(seed_lines(of_few, x, y, styles))
    return layers
