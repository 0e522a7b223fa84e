"""What all figures share: panels, the token axis, colours by variant, and turning charts into drawings and files.

A figure is a grid of small panels. The page lays the panels out itself, so that they flow on a phone, with one legend
in HTML; for papers the same panels are put into one chart with the legend inside.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from reports.theme import LIGHT, Style, themed, vega_config
from reports.words import missing

WIDTH, HEIGHT = 300, 190
WIDE = 640
PAGE_WIDTH = 920  # of a wide panel on the page, which is wider than a page of a paper
NORMAL_95 = 1.96  # standard errors to either side that hold 95 % of a normal distribution
LOG_FROM = 8  # a range of tokens this many times as long as its start is drawn on a logarithmic axis
_TAG, _LONG_NUMBER = re.compile(r"<[^>]+>"), re.compile(r"(\d\.\d\d)\d+")
# What drawings say in every tag and the page says once: its own font, one description for all of a panel.
_REPEATED = re.compile(r' (?:font-family|class|role|aria-[a-z]+|pointer-events)="[^"]*"| opacity="1"')
_NOTHING = '<path d="" display="none"/>'
COUNT_LABEL = "replace(replace(format(datum.value, '~s'), 'G', 'B'), 'k', 'K')"


@dataclass(frozen=True)
class Panel:
    """One chart as a Vega-Lite specification without title, legend and configuration, the words above it, and what a
    screen reader says in its place."""

    title: str
    description: str
    specification: Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """Panels under one caption. `name` becomes file names and anchor; `marks` are the variants of the legend."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    marks: tuple[Style, ...] = ()
    wide: bool = False

    @property
    def columns(self) -> int:
        return 1 if self.wide else min(3, len(self.panels))


def panel(title: str, description: str, chart: alt.TopLevelMixin) -> Panel:
    """A panel of an Altair chart."""
    specification = chart.to_dict(validate=False)
    return Panel(title, description, {k: v for k, v in specification.items() if k not in ("$schema", "config")})


def records(frame: pd.DataFrame, columns: Mapping[str, str] | Sequence[str]) -> alt.InlineData:
    """The columns of a frame as data for a chart; with a mapping, the columns get its values as names.

    Charts only see the fixed names of this package as fields, so no name from the data is ever read as an expression.
    The rows are one text in CSV: a quarter of the size of JSON objects, and Altair copies its parts again and again.
    """
    names = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    chosen = frame[list(names)].rename(columns=names)
    lines = [
        ",".join(chosen.columns),
        *(",".join(map(_field, row)) for row in chosen.itertuples(index=False, name=None)),
    ]
    kinds = {column: _kind(chosen[column]) for column in chosen.columns}
    return alt.InlineData(values="\n".join(lines), format={"type": "csv", "parse": kinds})


def _kind(values: pd.Series) -> str:
    known = values.dropna()
    if pd.api.types.is_bool_dtype(known) or (len(known) and all(isinstance(value, bool) for value in known)):
        return "boolean"
    return "number" if pd.api.types.is_numeric_dtype(values) else "string"


def _field(value: Any) -> str:
    """A value as CSV has it; nulls and infinities are empty, which is read as null."""
    if missing(value) or (isinstance(value, float) and math.isinf(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, int | float | np.number):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    return '"' + str(value).replace('"', '""') + '"'


def token_axis(values: pd.Series, field: str = "tokens", title: str = "training tokens") -> alt.X:
    """The token axis over these counts: logarithmic when they span more than `LOG_FROM`, else linear from zero."""
    low, high = float(values.min()), float(values.max())
    axis = alt.Axis(labelExpr=COUNT_LABEL, tickCount=5, labelOverlap=True)
    if low <= 0 < high:  # an evaluation before training: a logarithm that is linear up to the first positive count
        scale = alt.Scale(type="symlog", constant=float(values[values > 0].min()), domain=[0, high])
        axis.values = [0, *_round_counts(float(values[values > 0].min()), high)]
    elif high == low and high > 0:
        scale = alt.Scale(type="log", domain=[low / 2, high * 2])
        axis.values = [low]
    elif high >= LOG_FROM * low > 0:
        scale = alt.Scale(type="log", domain=[low, high])
        axis.values = _round_counts(low, high)
    else:
        scale = alt.Scale(domain=[0, max(high, 1)])
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)


def _round_counts(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: 1, 2, 5 per decade over up to two decades, 1 above that, at most seven."""
    steps = (1, 2, 5) if high / low <= 100 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
    return ticks[:: math.ceil(len(ticks) / 7)] or [low]


def colour(styles: Mapping[str, Style]) -> alt.Color:
    """Colour by the field `variant`."""
    scale = alt.Scale(domain=list(styles), range=[style.light for style in styles.values()])
    return alt.Color("variant:N", scale=scale, legend=None)


def shape(styles: Mapping[str, Style]) -> alt.Shape:
    """Marker shape by the field `variant`."""
    scale = alt.Scale(domain=list(styles), range=[style.shape for style in styles.values()])
    return alt.Shape("variant:N", scale=scale, legend=None)


def dash(styles: Mapping[str, Style]) -> alt.StrokeDash:
    """Line dash by the field `variant`: whole for up to seven variants, broken for the further ones."""
    scale = alt.Scale(domain=list(styles), range=[list(style.dash) for style in styles.values()])
    return alt.StrokeDash("variant:N", scale=scale, legend=None)


def level(value: float, words: str, ink: str, align: str) -> tuple[alt.Chart, alt.LayerChart]:
    """A horizontal line across a panel, and the few words on it with a halo."""
    base = alt.Chart(alt.InlineData(values=[{"y": value, "words": words}])).encode(y="y:Q")
    x = alt.value(2) if align == "left" else alt.value("width")
    text = {"align": align, "dy": -6, "fontSize": 10}
    halo = base.mark_text(**text, stroke=LIGHT["paper"], strokeWidth=3, strokeOpacity=0.8).encode(x=x, text="words:N")
    over = base.mark_text(**text, color=ink).encode(x=x, text="words:N")
    return base.mark_rule(color=ink, strokeDash=[2, 3], strokeWidth=1.2), alt.layer(halo, over)


def complete(specification: Mapping[str, Any], description: str) -> dict[str, Any]:
    """A specification with the configuration of all figures and a description."""
    return {"$schema": alt.SCHEMA_URL, "config": vega_config(), "description": description, **specification}


def page_specification(panel: Panel) -> str:
    """A panel for the page as JSON: as wide as its place, colours as CSS variables, safe inside a script element."""
    specification = complete(panel.specification, panel.description)
    specification["width"] = "container"
    return script_json(themed(json.dumps(specification, separators=(",", ":"), allow_nan=False)))


def script_json(text: str) -> str:
    """JSON that can stand in an HTML script element whatever its strings hold."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def page_drawing(panel: Panel, number: int, wide: bool = False) -> str:
    """A panel drawn as SVG: what the page shows before, and without, any script. `number` makes its ids unique."""
    specification = complete(panel.specification, panel.description)
    drawing = vl_convert.vegalite_to_svg({**specification, "width": PAGE_WIDTH} if wide else specification)
    for name in set(re.findall(r'\bid="([^"]+)"', drawing)):
        unique = f"figure-{number}-{name}"
        drawing = drawing.replace(f'id="{name}"', f'id="{unique}"').replace(f"#{name})", f"#{unique})")
    shorter = _TAG.sub(lambda tag: _LONG_NUMBER.sub(r"\1", _REPEATED.sub("", tag[0])), drawing)
    return themed(shorter.replace(_NOTHING, ""))


def export(figure: Figure, folder: Path) -> list[Path]:
    """Write the figure for papers, as SVG, PDF and PNG (two pixels a point); returns the files."""
    specification = composed(figure)
    drawing = vl_convert.vegalite_to_svg(specification)
    contents = {
        "svg": drawing.encode(),
        "pdf": vl_convert.svg_to_pdf(drawing),
        "png": vl_convert.svg_to_png(drawing, scale=2),
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending, content in contents.items():
        path = folder / f"{figure.name}.{ending}"
        path.write_bytes(content)
        paths.append(path)
    return paths


def composed(figure: Figure) -> dict[str, Any]:
    """All panels of a figure as one Vega-Lite specification, with their titles and the legend above them."""
    datasets: dict[str, Any] = {}
    parts = []
    for part in figure.panels:
        datasets |= part.specification.get("datasets", {})
        inner = {key: value for key, value in part.specification.items() if key != "datasets"}
        parts.append({**inner, "title": part.title} if part.title else inner)
    apart = {
        "scale": dict.fromkeys(("color", "fill", "shape", "strokeDash", "opacity"), "independent")
    }  # as in the page
    grid: dict[str, Any] = {"concat": parts, "columns": figure.columns, "spacing": 28, "resolve": apart}
    if figure.marks:
        legend = panel("", "", _legend(figure.marks)).specification
        datasets |= legend["datasets"]
        above = {key: value for key, value in legend.items() if key != "datasets"}
        grid = {"vconcat": [above, grid], "spacing": 18, "resolve": apart}
    return complete({**grid, "datasets": datasets, "padding": 12}, figure.caption)


def _legend(marks: Sequence[Style]) -> alt.LayerChart:
    """The legend as a chart of its own: one row of markers and names."""
    step = 26 + 7.5 * max(len(style.variant) for style in marks)
    frame = pd.DataFrame({"variant": [style.variant for style in marks], "x": [i * step for i in range(len(marks))]})
    styles = {style.variant: style for style in marks}
    base = alt.Chart(width=len(marks) * step, height=16).encode(
        x=alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, len(marks) * step], nice=False, zero=False))
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(color=colour(styles), shape=shape(styles))
    names = base.mark_text(align="left", dx=9, fontSize=12).encode(text="variant:N")
    return alt.layer(points, names, data=records(frame, ["variant", "x"]))
