"""Render figures: for the page as specifications, and the first as SVG; whole figures for papers as
SVG, PDF and PNG.

The page lays the panels out itself, with one legend in HTML, so that they flow on a phone. For
papers the panels are put into one chart with the legend inside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import altair as alt
import pandas as pd
import vl_convert

from dreamer_study.reports.figures.chart import (
    Specification,
    colour,
    layered,
    plain,
    records,
    shape,
)
from dreamer_study.reports.style.theme import LIGHT, Style, themed, vega_config

ENDINGS = ("svg", "pdf", "png")  # of the files of a figure for papers
# Panels have their scales for themselves in a composed figure, as in the page.
_APART = {
    "scale": dict.fromkeys(
        ("color", "fill", "shape", "strokeDash", "fillOpacity", "strokeOpacity"), "independent"
    )
}


@dataclass(frozen=True)
class Panel:
    """One chart: the title above it, the description for screen readers, and its Vega-Lite
    specification.

    The specification has no title, legend or configuration. `keys` (of depth, task, metric,
    variant) name what the whole panel is about: the page's toolbar hides a panel by its keys. Rows
    of a panel's data answer to the toolbar by their columns `variant`, `task` and `metric`; a layer
    named `seeds` or `raw` by its name, behind which `composed` puts the panel's number.
    """

    title: str
    description: str
    specification: Mapping[str, Any]
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """Panels under one caption. `name` becomes file names and anchor; `marks` are the variants of
    the legend.

    `finding` says what the figure shows in this study; `caption` says how to read the figure.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    marks: tuple[Style, ...] = ()
    wide: bool = False
    finding: str = ""


def figure(
    name: str,
    title: str,
    caption: str,
    panels: list[Panel],
    marks: Mapping[str, Style] | None = None,
    wide: bool = False,
    finding: str = "",
) -> Figure | None:
    """Make a figure; None when there are no panels."""
    return (
        Figure(name, title, caption, tuple(panels), tuple((marks or {}).values()), wide, finding)
        if panels
        else None
    )


def panel(title: str, description: str, chart: alt.Chart | Specification, **keys: object) -> Panel:
    """Make a panel of a chart; `keys` are those of `Panel`."""
    assert keys.keys() <= {"depth", "task", "metric", "variant"}
    specification = chart if isinstance(chart, dict) else plain(chart)
    return Panel(
        title, description, specification, {name: str(value) for name, value in keys.items()}
    )


def complete(specification: Mapping[str, Any], description: str) -> dict[str, Any]:
    """Add the configuration of all figures and a description to a specification."""
    return {
        "$schema": alt.SCHEMA_URL,
        "config": vega_config(),
        "description": description,
        **specification,
    }


def page_specifications(figures: Sequence[Figure], costs: pd.DataFrame) -> dict[str, Any]:
    """Return what the page's script draws and saves figures from: composed figures without what all
    of them have.

    Colours are light, as on paper; `colours` has the name of the page's variable for each. `costs`
    has the rows of
    `StudyData.costs`.
    """
    composed_figures = {one.name: composed(one) for one in figures}
    for one in composed_figures.values():
        del one["config"], one["$schema"]
    return {
        "config": vega_config(),
        "colours": {light: name for name, light in LIGHT.items()},
        "figures": composed_figures,
        "costs": {
            str(depth): (
                rows.set_index("variant")[["flops", "seconds"]].dropna(axis=1).to_dict("index")
            )
            for depth, rows in costs.groupby("depth")
        },
    }


def page_drawing(panel: Panel, number: int) -> str:
    """Draw a panel as SVG: what the page shows before, and without, any script. `number` makes its
    ids unique."""
    drawing = vl_convert.vegalite_to_svg(complete(panel.specification, panel.description))
    for name in set(re.findall(r'\bid="([^"]+)"', drawing)):
        unique = f"figure-{number}-{name}"
        drawing = drawing.replace(f'id="{name}"', f'id="{unique}"').replace(
            f"#{name})", f"#{unique})"
        )
    return themed(drawing)


def export(figure: Figure, folder: Path) -> None:
    """Write a figure for papers into a folder as SVG, PDF and PNG (two pixels a point)."""
    drawing = vl_convert.vegalite_to_svg(composed(figure))
    folder.mkdir(parents=True, exist_ok=True)
    svg, pdf, png = (folder / f"{figure.name}.{ending}" for ending in ENDINGS)
    put(svg, drawing.encode())
    put(pdf, vl_convert.svg_to_pdf(drawing))
    put(png, vl_convert.svg_to_png(drawing, scale=2))


def put(file: Path, content: bytes) -> None:
    """Write a file in one step, so that no reader sees half of it; a link, as in a stranger's
    folder, is replaced."""
    written = file.with_name(f".{file.name}.{uuid4().hex}")
    try:
        written.write_bytes(content)
        written.replace(file)
    finally:
        written.unlink(missing_ok=True)


def composed(figure: Figure) -> dict[str, Any]:
    """Put all panels of a figure into one Vega-Lite specification, with title and legend above the
    panels.

    The panels are `concat` of the specification, or where there is a legend of the second part of
    its `vconcat`.
    """
    datasets: dict[str, Any] = {}
    # of all panels: Vega-Lite has them for a whole chart only
    parameters: list[dict[str, Any]] = []

    def part(panel: Panel, number: int) -> dict[str, Any]:
        inner = dict(panel.specification)
        datasets.update(inner.pop("datasets", {}))
        parameters.extend(inner.pop("params", []))
        # Vega-Lite draws layers of one name in several panels from the rows of one of them
        if "layer" in inner:
            inner["layer"] = [
                {**layer, "name": f"{layer['name']}_{number}"} if "name" in layer else layer
                for layer in inner["layer"]
            ]
        return {**inner, "title": panel.title} if panel.title else inner

    panels = [part(one, number) for number, one in enumerate(figure.panels)]
    grid: dict[str, Any] = {
        "concat": panels,
        "columns": 1 if figure.wide else min(3, len(panels)),
        "spacing": 28,
    }
    grid["resolve"] = _APART
    if figure.marks:
        legend = part(panel("", "", _legend(figure.marks)), len(panels))
        grid = {"vconcat": [legend, grid], "spacing": 18, "resolve": _APART}
    title = {"text": figure.title, "fontSize": 15, "offset": 14}
    whole = {**grid, "datasets": datasets, "params": parameters, "padding": 12, "title": title}
    return complete(whole, figure.caption)


@cache
def _legend(marks: tuple[Style, ...]) -> Specification:
    """Draw the legend as a chart of its own: one row of markers and names. Most figures of a page
    have the same one."""
    step = 26 + 7.5 * max(len(style.variant) for style in marks)
    frame = pd.DataFrame(
        {"variant": [style.variant for style in marks], "x": [i * step for i in range(len(marks))]}
    )
    styles = {style.variant: style for style in marks}
    base = alt.Chart(width=len(marks) * step, height=16).encode(
        x=alt.X(
            "x:Q", axis=None, scale=alt.Scale(domain=[0, len(marks) * step], nice=False, zero=False)
        )
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        color=colour(styles), shape=shape(styles)
    )
    names = base.mark_text(align="left", dx=9, fontSize=12).encode(text=alt.Text("variant:N"))
    return layered(points, names, data=records(frame, ["variant", "x"]))
