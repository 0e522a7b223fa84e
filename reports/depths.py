"""Accuracy of trained recurrent models that are run at other depths than they were trained at."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from reports.drawing import HEIGHT, NORMAL_95, WIDTH, Figure, colour, dash, level, panel, records, shape
from reports.tables import Cell, Table, grouped, heads, model_cell, ordered, plus_minus, task_columns
from reports.theme import LIGHT, Style
from reports.words import depth_name, listed, percent, task_name


def elsewhere(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `depth_accuracy` of runs that were evaluated at another depth than their own."""
    other = rows[rows["depth"] != rows["model_depth"]]["run_id"]
    return rows[rows["run_id"].isin(other) & rows["accuracy"].notna()]


def figure(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Accuracy against the depth a model is run at: a panel for each trained depth and task."""
    rows = elsewhere(rows)
    if rows.empty:
        return None
    shown = {name: style for name, style in styles.items() if name in set(rows["variant"])}
    panels = []
    for trained in sorted(rows["model_depth"].unique()):
        for task in task_columns(rows["task"]):
            part = rows[(rows["model_depth"] == trained) & (rows["task"] == task)]
            if part.empty:
                continue
            best = part.loc[part.groupby("variant")["accuracy"].idxmax()]
            said = [
                f"{row.variant} at best {percent(row.accuracy)}, at depth {row.depth:.0f}" for row in best.itertuples()
            ]
            title = f"{task_name(task)}, trained at {depth_name(trained).lower()}"
            words = f"Accuracy on {title}, against the depth run at: {listed(said)}."
            panels.append(panel(title, words, _chart(part, shown, trained)))
    return Figure(
        name="other-depths",
        title="Accuracy at other depths",
        caption=(
            "The last checkpoint of each run, at the depth it was trained at (ring) and at others. Bars are 95% "
            "intervals from the standard error over benchmark items. The dotted line is chance."
        ),
        panels=tuple(panels),
        marks=tuple(shown.values()),
    )


def _chart(rows: pd.DataFrame, styles: Mapping[str, Style], trained: int) -> alt.LayerChart:
    error = NORMAL_95 * rows["stderr"]
    rows = rows.assign(low=(rows["accuracy"] - error).clip(lower=0), high=(rows["accuracy"] + error).clip(upper=1))
    depths = sorted(rows["depth"].unique())
    x = alt.X(
        "depth:Q",
        title="depth at test time",
        scale=alt.Scale(domain=[depths[0], max(depths[-1], depths[0] + 1)], padding=8),
        axis=alt.Axis(values=depths, format="d", labelOverlap=True),
    )
    y = alt.Y(
        "accuracy:Q", title=None, axis=alt.Axis(format=".0%", tickCount=5), scale=alt.Scale(zero=False, nice=True)
    )
    base = alt.Chart(width=WIDTH, height=HEIGHT).encode(x=x, color=colour(styles), detail="run_id:N")
    tooltip = [
        alt.Tooltip("variant:N"),
        alt.Tooltip("depth:Q", title="depth"),
        alt.Tooltip("accuracy:Q", format=".2%"),
        alt.Tooltip("stderr:Q", title="standard error", format=".2%"),
        alt.Tooltip("items:Q", format=","),
    ]
    chance = rows["chance"].dropna()
    lines = [level(float(chance.iloc[0]), "chance", LIGHT["muted"], "right")] if len(chance) else []
    rings = alt.Chart(records(rows[rows["depth"] == trained], ["variant", "depth", "accuracy"]))
    rings = rings.mark_point(size=150, strokeWidth=1.4, filled=False, shape="circle")
    layers = [
        *[line for line, _ in lines],
        base.mark_rule(opacity=0.4).encode(y=alt.Y("low:Q", title=None), y2="high:Q"),
        base.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=dash(styles)),
        base.mark_point(filled=True, size=34, opacity=1).encode(y=y, shape=shape(styles), tooltip=tooltip),
        rings.encode(x=x, y=y, color=colour(styles)),
        *[words for _, words in lines],
    ]
    fields = ["variant", "run_id", "depth", "accuracy", "stderr", "items", "low", "high"]
    return alt.layer(*layers, data=records(rows, fields))


def table(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Table:
    """The numbers of the figure: a row for each run and task, a column for each depth."""
    rows = elsewhere(rows)
    depths = sorted(rows["depth"].unique())
    body = []
    for (run, task), part in ordered(rows, styles, "run_id", "task").groupby(["run_id", "task"], sort=False):
        values = {row.depth: row for row in part.itertuples()}
        first = part.iloc[0]
        cells = [model_cell(first["variant"], styles), Cell(task_name(task), kind="left")]
        for depth in depths:
            row = values.get(depth)
            text = "–" if row is None else f"{percent(row.accuracy)}{plus_minus(row.stderr)}"
            cells.append(Cell(text, kind="strong" if depth == first["model_depth"] else ""))
        body.append((run, cells))
    names = ["<Model", "<Benchmark", *[f"Depth {depth:.0f}" for depth in depths]]
    return Table(
        name="table-depths",
        caption="Accuracy at each depth and its standard error; bold at the depth that the model was trained at.",
        head=(heads(*names),),
        rows=grouped(body),
    )
