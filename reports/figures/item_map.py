"""Draw which items each model gets right: a map of items by variants."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, Panel, figure, panel
from dreamer_study.reports.style.theme import RAMP, Style, ordered
from dreamer_study.reports.text.names import are_many, depth_name, task_name, task_order
from dreamer_study.reports.text.numbers import counted

MOST_COLUMNS = 200
FEWEST_COLUMNS = 20
MOST_CELLS = 10_000  # of all panels: more would make a page slow
ROW = 18  # pixels of a variant
OVERLAP = 0.2  # of a column into the next one, so that no line of paper shows between them
FIELDS = ["variant", "task", "rank", "item", "items", "right"]


def item_map(answered: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw the share of a variant's seeds (y) that are right on each item (x), easy items first.

    A panel for each depth and benchmark; of many benchmarks a menu shows one at a time. Where there
    are more items than columns, a column is the mean of several items. `answered` has the rows of
    `StudyData.answered`. None without scores of items.
    """
    models = answered.groupby(["depth", "task"])["variant"].nunique()
    columns = MOST_CELLS // max(int(models.sum()), 1)
    columns = min(MOST_COLUMNS, max(FEWEST_COLUMNS, columns))
    panels = []
    findings = []
    most_items = 1
    for depth, of_depth in answered.groupby("depth"):
        parts = []
        for task in task_order(of_depth["task"]):
            part = of_depth[of_depth["task"] == task]
            cells = _cells(part, styles, columns)
            most_items = max(most_items, int(cells["items"].max()))
            findings.append(f"{task_name(task)}, {depth_name(depth).lower()}: {_finding(part)}")
            parts.append(cells)
        panels += _panels(parts, int(depth), findings[-len(parts) :])
    caption = (
        "A column is an item, from those that most models get right to those that fewest do; its"
        " colour is the share of the seeds that are right at the end of training."
    )
    if most_items > 1:
        caption += (
            f" Benchmarks of more than {columns} items have columns of up to {most_items} items of"
            " like difficulty, with their mean."
        )
    return figure(
        "item-map",
        "Items that each model gets right",
        caption,
        panels,
        wide=True,
        finding="".join(findings[:1]),
    )


def _cells(rows: pd.DataFrame, styles: Mapping[str, Style], columns: int) -> pd.DataFrame:
    """Return a row for each variant and column of a benchmark, its items in order of difficulty.

    An item that a variant was not asked has no cell.
    """
    difficulty = rows.groupby("item_id")["share"].mean()
    # Items of like difficulty stand in the order of their names, as no chance decides.
    order = difficulty.sort_index().sort_values(ascending=False, kind="stable")
    groups = np.arange(len(order)) * min(columns, len(order)) // len(order)
    rank = pd.Series(groups + 1, index=order.index)
    ranked = rows.assign(rank=rows["item_id"].map(rank))
    cells = ranked.groupby(["depth", "variant", "task", "rank"], as_index=False).agg(
        right=("share", "mean"),
        items=("item_id", "nunique"),
        item=("item_id", "first"),
    )
    names = cells["item"].str.removeprefix(f"{rows['task'].iloc[0]}/")
    cells["item"] = names.where(cells["items"] == 1, cells["items"].map("{} items".format))
    return ordered(cells.round({"right": 3}), styles, "rank")


def _finding(rows: pd.DataFrame) -> str:
    """Say how many items all seeds of all models get right, and how many none does."""
    by_item = rows.groupby("item_id")["share"]
    by_all = int((by_item.min() == 1).sum())
    by_none = int((by_item.max() == 0).sum())
    items = counted(by_item.ngroups, "item")
    return f"of {items} all models get {by_all} right with every seed, and {by_none} with none."


def _panels(parts: list[pd.DataFrame], depth: int, findings: list[str]) -> list[Panel]:
    """Draw the benchmarks of a depth, each in its panel or, of many, one at a time."""
    rows = pd.concat(parts, ignore_index=True)
    if are_many(rows["task"]):
        chosen = chart.chosen_benchmark(rows["task"], depth)
        title = f"{depth_name(depth)}, one benchmark"
        description = "Items that each model gets right, of one benchmark, which a menu chooses."
        return [panel(title, description, _chart(rows, chosen), depth=depth, metric="accuracy")]
    panels = []
    for part, finding in zip(parts, findings, strict=True):
        task = part["task"].iloc[0]
        title = f"{task_name(task)}, {depth_name(depth).lower()}"
        description = f"Items that each model gets right: {finding}"
        keys = {"depth": depth, "task": task, "metric": "accuracy"}
        panels.append(panel(title, description, _chart(part), **keys))
    return panels


def _chart(rows: pd.DataFrame, chosen: chart.Parameter | None = None) -> chart.Specification:
    variants = list(dict.fromkeys(rows["variant"]))
    last = int(rows["rank"].max())
    legend = {
        "titleOrient": "left",
        "titleLimit": 400,
        "orient": "top",
        "direction": "horizontal",
        "gradientLength": 110,
    }
    colours = chart.ramp(
        "right",
        np.linspace(0, 1, len(RAMP)).tolist(),
        title="share of seeds that are right",
        format=".0%",
        values=[0, 0.5, 1],
        **legend,
    )
    x = alt.X(
        "start:Q",
        title="items, from easy to hard",
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(labels=False, ticks=False, domain=False),
    )
    axis = chart.name_axis(variants, labelFontSize=11)
    y = alt.Y("variant:N", title="model", sort=variants, axis=axis)
    told = chart.tooltip(
        ("variant:N",), ("item:N",), ("rank:Q", "d", "place"), ("right:Q", ".0%", "right")
    )
    cells = alt.Chart().mark_rect().encode(x=x, x2=alt.X2("end:Q"), y=y, color=colours)
    if chosen:
        cells = cells.transform_filter(chart.is_chosen(chosen))
    return chart.layered(
        cells.encode(tooltip=told),
        data=chart.records(rows, FIELDS),
        transform=[
            {"calculate": "datum.rank - 1", "as": "start"},
            {"calculate": f"min({last}, datum.rank + {OVERLAP})", "as": "end"},
        ],
        width=chart.PAGE_WIDTH,
        height=ROW * len(variants),
        **({"params": [chosen]} if chosen else {}),
    )
