"""Draw the loss of right answers and of held-out documents against training tokens."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from reports.figures import chart
from reports.figures.rendering import Figure, figure, panel
from reports.style.theme import Style, ordered, present
from reports.text.names import depth_name, task_order
from reports.text.names import measure_label as label
from reports.text.numbers import bests, number, tokens


def task_loss(
    curve: pd.DataFrame, runs: pd.DataFrame, counted: pd.DataFrame, styles: Mapping[str, Style], depth: int
) -> Figure | None:
    """Draw bits per byte (y) against training tokens (x) of the models of one depth, coloured by variant.

    A panel for the average and for each task. `curve` has the rows of `mean_curves` of measure 'loss', `runs` those of
    `token_loss`, `counted` the runs that count. None without losses.
    """
    runs = runs[runs["run_id"].isin(counted["run_id"])]
    curve, runs = (frame[frame["depth"] == depth] for frame in (curve[curve["value"].notna()], runs))
    shown, panels, findings = present(styles, curve), [], []
    for task in task_order(curve["task"], average_first=True):
        rows, each = curve[curve["task"] == task], runs[runs["task"] == task]
        best = ordered(rows.loc[rows.groupby("variant")["value"].idxmin()], styles)
        words = bests(
            [(row.variant, number(row.value, 3), f"at {tokens(row.tokens)} tokens") for row in best.itertuples()]
        )
        name = label({"metric": "loss", "task": task})
        findings.append(f"{name}, at best: {words}.")
        keys = {"depth": depth, "task": task, "metric": "loss"}
        description = f"{name} against training tokens, at best: {words}."
        panels.append(panel(name, description, _chart(rows, each, shown), **keys))
    faint = " Faint lines are the seeds." if len(curve) and curve["seeds"].max() > 1 else ""
    return figure(
        f"loss-{depth_name(depth).lower().replace(' ', '-')}",
        f"{depth_name(depth)}, loss",
        "Bits per byte of the right answers, and of held-out documents; lower is better. Each marker is a checkpoint."
        + faint,
        panels,
        shown,
        finding="".join(findings[:1]),
    )


def _chart(rows: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]) -> chart.Specification:
    x, y, ink = chart.token_axis(rows["tokens"]), chart.y_axis("value"), chart.colour(styles)
    base = alt.Chart(chart.records(rows, ["variant", "tokens", "value"]), width=chart.WIDTH, height=chart.HEIGHT)
    base = base.encode(x=x, y=y, color=ink)
    layers: list[alt.Chart] = []
    if rows["seeds"].max() > 1:
        layers.append(chart.seed_lines(runs.rename(columns={"loss": "value"}), x, y, styles))
    told = chart.tooltip(("variant:N",), ("tokens:Q", ","), ("value:Q", ".3f", "bits per byte"))
    return chart.layered(*layers, *chart.line_and_markers(base, styles, told))
