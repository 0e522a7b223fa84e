"""Render figures for the page as specifications, and for papers as SVG, PDF and PNG.

The first figure of the page is SVG too. The page lays the panels out itself, with one legend in
HTML, so that they flow on a phone. For papers the panels are put into one chart with the legend
inside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import Any
from uuid import uuid4

import altair as alt
import pandas as pd
import vl_convert

from dreamer_study.reports.figures.addresses import check_drawing
from dreamer_study.reports.figures.chart import (
    Specification,
    colour,
    layered,
    plain,
    records,
    shape,
)
from dreamer_study.reports.style.theme import LIGHT, Style, themed, vega_config
from dreamer_study.reports.text.names import LONGEST, shortest

CAPTION = {1: 100, 2: 110, 3: 160}  # characters of a line of a caption, by columns of panels
ENDINGS = ("svg", "pdf", "png")  # of the files of a figure for papers
# Panels have their scales for themselves in a composed figure, as in the page.
_APART = {
    "scale": dict.fromkeys(
        ("color", "fill", "shape", "strokeDash", "fillOpacity", "strokeOpacity"), "independent"
    )
}

# In JSON: control characters, escaped (behind an even number of backslashes) or not.
UNDRAWN = re.compile(r"((?<!\\)(?:\\\\)*)(?:\\u00[01][0-9a-f]|\\[bf]|[\x7f-\x9f\ud800-\udfff])")


@dataclass(frozen=True)
class Panel:
    """One chart: its title, its description for screen readers, its Vega-Lite specification.

    The specification has no title, legend or configuration. `keys` (of depth, task, metric,
    variant) name what the whole panel is about: the page's toolbar hides a panel by its keys. Rows
    of a panel's data answer to the toolbar by their columns `variant`, `task` and `metric`; a layer
    named `seeds` or `raw` by its name, behind which `composed` puts the panel's number.
    """

    title: str
    description: str
    specification: Mapping[str, Any]
    keys: Mapping[str, str] = field(default_factory=dict)
    finding: str = ""


@dataclass(frozen=True)
class Figure:
    """Panels under one caption.

    `name` becomes file names and anchor; `marks` are the variants of the legend. `finding` says
    what the figure shows in this study; `caption` says how to read the figure. Where the panels
    have findings, the figure's is that of the first panel, or of every one (`each_finding`): the
    page's script says those of the panels that the toolbar leaves.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    marks: tuple[Style, ...] = ()
    wide: bool = False
    finding: str = ""
    each_finding: bool = False


def figure(
    name: str,
    title: str,
    caption: str,
    panels: list[Panel],
    marks: Mapping[str, Style] | None = None,
    wide: bool = False,
    finding: str = "",
    each_finding: bool = False,
) -> Figure | None:
    """Make a figure; None when there are no panels."""
    if not panels:
        return None
    legend = tuple(marks.values()) if marks else ()
    findings = [panel.finding for panel in panels]
    if any(findings):
        finding = " ".join(dict.fromkeys(findings)) if each_finding else findings[0]
    return Figure(name, title, caption, tuple(panels), legend, wide, finding, each_finding)


def panel(
    title: str,
    description: str,
    chart: alt.Chart | Specification,
    *,
    finding: str = "",
    **keys: object,
) -> Panel:
    """Make a panel of a chart; `keys` are those of `Panel`."""
    assert keys.keys() <= {"depth", "task", "metric", "variant"}
    specification = chart if isinstance(chart, dict) else plain(chart)
    keys_as_texts = {name: str(value) for name, value in keys.items()}
    return Panel(title, description, specification, keys_as_texts, finding)


def complete(specification: Mapping[str, Any], description: str) -> dict[str, Any]:
    """Add the configuration of all figures and a description to a specification."""
    return {
        "$schema": alt.SCHEMA_URL,
        "config": vega_config(),
        "description": description,
        **specification,
    }


def page_specifications(
    figures: Sequence[Figure], costs: pd.DataFrame, short: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the page's script draws and saves figures from.

    Composed figures lack what all of them have, and their texts, which depend on the choice.
    Colours are light, as on paper; `colours` has the name of the page's variable for each. `costs`
    has the rows of `StudyData.costs`, `short` the texts that are shown in place of long names.
    """
    specifications = {figure.name: composed(figure) for figure in figures}
    for specification in specifications.values():
        del specification["config"], specification["$schema"]
        del specification["description"]
        del specification["title"]["text"], specification["title"]["subtitle"]
    costs_by_depth = {}
    for depth, rows in costs.groupby("depth"):
        known_costs = rows.set_index("variant")[["flops", "seconds"]].dropna(axis=1)
        costs_by_depth[str(depth)] = known_costs.to_dict("index")
    return {
        "config": vega_config(),
        "colours": {light: name for name, light in LIGHT.items()},
        "figures": specifications,
        "texts": {figure.name: _texts(figure) for figure in figures},
        "costs": costs_by_depth,
        "short": dict(short),
    }


def _texts(figure: Figure) -> dict[str, Any]:
    """Return all that a figure says, of which the page's script says what is chosen."""
    panels = [
        {"title": panel.title, "description": panel.description, "finding": panel.finding}
        for panel in figure.panels
    ]
    return {
        "title": figure.title,
        "caption": figure.caption,
        "finding": figure.finding,
        "each": figure.each_finding,
        "panels": panels,
        "characters": CAPTION[_columns(figure)],
    }


def _columns(figure: Figure) -> int:
    return 1 if figure.wide else min(3, len(figure.panels))


def page_drawing(panel: Panel, number: int) -> str:
    """Draw a panel as SVG: what the page shows before, and without, any script.

    `number` makes the ids of the drawing unique.
    """
    drawing = _drawn(complete(panel.specification, panel.description))
    for name in set(re.findall(r'\bid="([^"]+)"', drawing)):
        unique = f"figure-{number}-{name}"
        drawing = drawing.replace(f'id="{name}"', f'id="{unique}"')
        drawing = drawing.replace(f"#{name})", f"#{unique})")
    return themed(drawing)


def _drawn(specification: Mapping[str, Any]) -> str:
    """Draw a specification as SVG.

    The library ends this process at a control character, which a name in a stranger's file may
    have: there a sign stands for the character.
    """
    check_drawing()
    text = json.dumps(specification, ensure_ascii=False)
    drawable = UNDRAWN.sub(lambda found: f"{found[1]}\ufffd", text)
    return vl_convert.vegalite_to_svg(drawable)


def export(figure: Figure, folder: Path) -> None:
    """Write a figure for papers into a folder as SVG, PDF and PNG (two pixels a point)."""
    drawing = _drawn(composed(figure))
    folder.mkdir(parents=True, exist_ok=True)
    svg, pdf, png = (folder / f"{figure.name}.{ending}" for ending in ENDINGS)
    put(svg, drawing.encode())
    put(pdf, vl_convert.svg_to_pdf(drawing))
    put(png, vl_convert.svg_to_png(drawing, scale=2))


def save(figure: Figure, file: Path) -> None:
    """Write a figure to one file, of the kind that its ending says: SVG, PDF or PNG."""
    drawing = _drawn(composed(figure))
    kinds = {
        ".svg": drawing.encode,
        ".pdf": lambda: vl_convert.svg_to_pdf(drawing),
        ".png": lambda: vl_convert.svg_to_png(drawing, scale=2),
    }
    put(file, kinds[file.suffix]())


def put(file: Path, content: bytes) -> None:
    """Write a file in one step, so that no reader sees half of it.

    A link, as in a stranger's folder, is replaced.
    """
    written = file.with_name(f".{file.name}.{uuid4().hex}")
    try:
        written.write_bytes(content)
        written.replace(file)
    except OSError as error:
        error.filename = str(file)  # which the caller knows
        raise
    finally:
        written.unlink(missing_ok=True)


def composed(figure: Figure) -> dict[str, Any]:
    """Put all panels of a figure into one Vega-Lite specification.

    Title and legend are above the panels. The panels are `concat` of the specification, or where
    there is a legend of the second part of its `vconcat`.
    """
    datasets: dict[str, Any] = {}
    # Of all panels: Vega-Lite has parameters for a whole chart only.
    parameters: dict[str, dict[str, Any]] = {}  # a slider may move several panels

    def part(panel: Panel, number: int) -> dict[str, Any]:
        inner = dict(panel.specification)
        datasets.update(inner.pop("datasets", {}))
        parameters.update({one["name"]: one for one in inner.pop("params", [])})
        if "layer" in inner:
            inner["layer"] = [_numbered(layer, number) for layer in inner["layer"]]
        title = _with_benchmark(panel.title, panel.specification.get("params", []))
        return {**inner, "title": title} if title else inner

    panels = [part(panel, number) for number, panel in enumerate(figure.panels)]
    columns = _columns(figure)
    grid: dict[str, Any] = {
        "concat": panels,
        "columns": columns,
        "spacing": 28,
    }
    grid["resolve"] = _APART
    if figure.marks:
        legend = part(panel("", "", _legend(figure.marks)), len(panels))
        grid = {"vconcat": [legend, grid], "spacing": 18, "resolve": _APART}
    title = {
        "text": figure.title,
        "fontSize": 15,
        "offset": 14,
        # what the figure shows and how to read it goes along with a saved file
        "subtitle": wrap(f"{figure.finding} {figure.caption}".strip(), CAPTION[columns]),
        "subtitleColor": LIGHT["muted"],
        "subtitleFontSize": 11,
        "subtitlePadding": 6,
    }
    whole = {
        **grid,
        "datasets": datasets,
        "params": list(parameters.values()),
        "padding": 12,
        "title": title,
    }
    return complete(whole, figure.caption)


def _with_benchmark(title: str, parameters: Sequence[Mapping[str, Any]]) -> str:
    """Name the benchmark that a menu shows at first in the title of a panel of one benchmark."""
    menus = [parameter for parameter in parameters if "options" in parameter.get("bind", {})]
    if menus:
        menu = menus[0]["bind"]
        label = menu["labels"][menu["options"].index(menus[0]["value"])]
        return title.replace("one benchmark", label).replace("One benchmark", label)
    return title


def _numbered(layer: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Put a panel's number behind the name of a layer.

    Vega-Lite draws layers of one name in several panels from the rows of one of them.
    """
    if "name" not in layer:
        return layer
    return {**layer, "name": f"{layer['name']}_{number}"}


@cache
def _legend(marks: tuple[Style, ...]) -> Specification:
    """Draw the legend as a chart of its own: one row of markers and names.

    Most figures of a page have the same one.
    """
    variants = [style.variant for style in marks]
    texts = list(shortest(variants, LONGEST).values())
    step = 26 + 7.5 * max(map(len, texts))
    width = len(marks) * step
    starts = [place * step for place in range(len(marks))]
    frame = pd.DataFrame({"variant": variants, "words": texts, "x": starts})
    styles = {style.variant: style for style in marks}
    scale = alt.Scale(domain=[0, width], nice=False, zero=False)
    base = alt.Chart(width=width, height=16).encode(x=alt.X("x:Q", axis=None, scale=scale))
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        color=colour(styles), shape=shape(styles)
    )
    names = base.mark_text(align="left", dx=9, fontSize=12).encode(text=alt.Text("words:N"))
    return layered(points, names, data=records(frame, ["variant", "words", "x"]))
