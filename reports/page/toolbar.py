"""Find what the one toolbar of the page can choose between, from the figures on the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from dreamer_study.reports.figures.rendering import Figure
from dreamer_study.reports.style.theme import Style
from dreamer_study.reports.text.names import depth_name, task_name, task_order

AXES = (("flops", "training FLOPs"), ("seconds", "seconds of training"))


@dataclass(frozen=True)
class Choice:
    """One menu of the toolbar: its name in the page's script, its title, values and their texts."""

    name: str
    title: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Toolbar:
    """What the toolbar offers: variants, menus, and a box for single seeds.

    The box is there where a figure draws seeds behind means.
    """

    variants: tuple[Style, ...]
    menus: tuple[Choice, ...]
    seeds: bool


def toolbar(figures: Sequence[Figure], styles: Mapping[str, Style], costs: pd.DataFrame) -> Toolbar:
    """Return the choices that change at least one figure; a menu needs two things to choose from.

    `costs` has the rows of `StudyData.costs`: what a token costs, where that is known of every
    model.
    """
    axes = [(name, label) for name, label in AXES if len(costs) and costs[name].notna().all()]
    panels = [panel for figure in figures for panel in figure.panels]
    layers = {
        layer.get("name") for panel in panels for layer in panel.specification.get("layer", ())
    }
    depths = sorted({int(panel.keys["depth"]) for panel in panels if "depth" in panel.keys})
    of_panels = {panel.keys["task"] for panel in panels if "task" in panel.keys}
    of_menus = {
        task
        for panel in panels
        for menu in panel.specification.get("params", ())
        for task in menu.get("bind", {}).get("options", ())
    }
    tasks = task_order(of_panels | of_menus, average_first=True)
    metrics = sorted({panel.keys["metric"] for panel in panels if "metric" in panel.keys})
    menus = [
        _menu(
            "depth", "Depth", "all depths", ((str(depth), depth_name(depth)) for depth in depths)
        ),
        _menu("task", "Benchmark", "all benchmarks", ((task, task_name(task)) for task in tasks)),
        _menu("metric", "Metric", "accuracy and loss", ((metric, metric) for metric in metrics)),
        Choice("axis", "Against", (("", "tokens"), *axes)),
        Choice("scale", "Scale", (("", "as drawn"), ("log", "logarithmic"), ("linear", "linear"))),
    ]
    if "raw" in layers:
        weights = (("", "averaged and raw"), ("averaged", "averaged"), ("raw", "raw"))
        menus.append(Choice("weights", "Weights", weights))
    kept = tuple(menu for menu in menus if _is_choice(menu))
    return Toolbar(tuple(styles.values()), kept, "seeds" in layers)


def _is_choice(menu: Choice) -> bool:
    """Tell whether a menu has two things to choose from, besides all of them."""
    # The first option of "axis" is an axis too, tokens; that of the others is all values.
    fewest = 2 if menu.name == "axis" else 3
    return len(menu.options) >= fewest


def _menu(name: str, title: str, everything: str, options: Iterable[tuple[str, str]]) -> Choice:
    return Choice(name, title, (("", everything), *options))
