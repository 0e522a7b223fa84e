"""Draw the accuracy on problems of few and of many steps."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import Style, ordered, present
from dreamer_study.reports.text.names import depth_name, task_name
from dreamer_study.reports.text.numbers import MANY_MODELS, listed, percent

MODEL = ["depth", "variant", "task", "steps"]
STORY = "events of a story"
# What a step is, by the benchmarks of the built-in world.
STEPS = {
    "world_short": STORY,
    "world_long": STORY,
    "world_choice": STORY,
    "world_expressions": "operations of an expression",
    "world_chain": "hops of a chain",
    "world_tracking": "numbers since the last sum",
}


def accuracy_by_steps(runs: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw the accuracy (y) at the end of training against the steps of the problems (x).

    Coloured by variant, a panel for each depth and benchmark. `runs` has the rows of
    `StudyData.by_steps`. None where all problems have as many steps, or their steps are unknown.
    """
    has_several = runs.groupby("task")["steps"].transform("nunique") > 1
    runs = runs[has_several]
    means = ordered(_means(runs), styles, "steps")
    shown = present(styles, means)
    panels = []
    findings = []
    for (depth, task), part in means.groupby(["depth", "task"]):
        title = f"{task_name(task)}, {depth_name(depth).lower()}"
        finding = f"{title}: {_ends(part)}."
        findings.append(finding)
        of_panel = runs[(runs["depth"] == depth) & (runs["task"] == task)]
        keys = {"depth": depth, "task": task, "metric": "accuracy"}
        description = f"Accuracy against the steps of the problem. {finding}"
        panels.append(panel(title, description, _chart(part, of_panel, shown), **keys))
    caption = ["At the end of training, the mean over the seeds."]
    kinds = {STEPS[task]: None for task in means["task"] if task in STEPS}
    if kinds:
        caption.append(f"Steps are {listed(list(kinds))}.")
    if len(means):
        caption.append(chart.of_bands(means["seeds"]))
    if means["chance"].notna().any():
        caption.append("The dotted line is chance.")
    return figure(
        "accuracy-by-steps",
        "Accuracy by the steps of a problem",
        " ".join(caption),
        panels,
        shown,
        finding="".join(findings[:1]),
    )


def _means(runs: pd.DataFrame) -> pd.DataFrame:
    """Average over the runs of each model."""
    return runs.groupby(MODEL, as_index=False).agg(
        accuracy=("accuracy", "mean"),
        stderr=("stderr", "mean"),
        items=("items", "max"),
        chance=("chance", "max"),
        seeds=("run_id", "nunique"),
        seed_error=("accuracy", "sem"),  # of the mean over the seeds
    )


def _ends(rows: pd.DataFrame) -> str:
    """Say the accuracies on problems of the fewest and of the most steps."""
    fewest = rows["steps"].min()
    most = rows["steps"].max()
    wide = rows.pivot_table(index="variant", columns="steps", values="accuracy", sort=False)
    texts = [
        f"{variant} from {percent(line[fewest])} at {fewest:g} to {percent(line[most])} at {most:g}"
        for variant, line in wide.iterrows()
    ]
    if len(texts) > MANY_MODELS:
        texts = [texts[0], f"{len(texts) - 1} others are drawn"]
    return listed(texts)


def _chart(
    rows: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]
) -> chart.Specification:
    """Layer the level of chance, bands or single seeds, and means."""
    steps = sorted(rows["steps"].unique())
    scale = alt.Scale(domain=[steps[0], steps[-1]], padding=8, nice=False, zero=False)
    axis = alt.Axis(format="d", tickMinStep=1, tickCount=min(len(steps), 8), labelOverlap=True)
    x = alt.X("steps:Q", title="steps of the problem", scale=scale, axis=axis)
    y = chart.y_axis("accuracy", format=".0%")
    rows = chart.with_bands(rows)
    base = alt.Chart().encode(x=x, color=chart.colour(styles))
    told = chart.tooltip(
        ("variant:N",),
        ("steps:Q", "d"),
        ("accuracy:Q", ".2%"),
        *chart.interval_told(rows),
        ("seeds:Q", "d"),
        ("items:Q", ","),
    )
    levels = chart.chance_level(rows)
    layers: list[alt.Chart | chart.Specification] = [line for line, _ in levels]
    layers += chart.uncertainty(base, rows, runs, x, y, styles)
    layers += chart.line_and_markers(base.encode(y=y), styles, told)
    layers += [name for _, name in levels]
    fields = ["variant", "steps", "accuracy", "seeds", "items", "low", "high"]
    data = chart.records(rows, fields)
    return chart.layered(*layers, data=data, width=chart.WIDTH, height=chart.HEIGHT)
