"""Draw accuracy: against training tokens (the paper's Figure 3), and at other depths.

Recurrent models can be run at other depths than they were trained at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import altair as alt
import pandas as pd

from dreamer_study.reports.data import VALIDATION, baseline_of, mean_of_runs, without_baseline
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style, ordered, present
from dreamer_study.reports.text.names import (
    are_many,
    depth_name,
    measure_label,
    task_name,
    task_order,
)
from dreamer_study.reports.text.numbers import MANY_MODELS, bests, number, percent, tokens
from dreamer_study.sql.names import AVERAGE


def _told(rows: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return what a marker tells: the accuracy, its interval where all means have one, counts."""
    return [
        ("accuracy:Q", ".2%"),
        *chart.interval_told(rows),
        ("seeds:Q", "d"),
        ("items:Q", ","),
    ]


def accuracy(
    curve: pd.DataFrame,
    runs: pd.DataFrame,
    efficiency: pd.DataFrame,
    raw: pd.DataFrame,
    counted: pd.DataFrame,
    styles: Mapping[str, Style],
    depth: int,
    second_epoch_from: float | None = None,
) -> Figure | None:
    """Draw accuracy (y) against training tokens (x) of the models of one depth.

    Coloured by variant, a panel for the average and for each task. `curve` has the rows of
    `StudyData.curve`, `runs` of `token_accuracy`, `efficiency` of `data_efficiency`, `raw` the mean
    accuracies of raw weights, `counted` the runs that count; from `second_epoch_from` tokens on the
    stream was in its second epoch. None without accuracies.
    """
    curve = curve[curve["accuracy"].notna() & (curve["depth"] == depth)]
    seeds = runs[runs["run_id"].isin(counted["run_id"]) & (runs["depth"] == depth)]
    efficiency = efficiency[efficiency["depth"] == depth]
    raw = raw[raw["depth"] == depth]
    shown = present(styles, curve)
    panels = []
    is_single, is_average = one_at_a_time(curve)
    for task in task_order(curve[is_average]["task"], average_first=True):
        parts = [frame[frame["task"] == task] for frame in (curve, seeds, efficiency, raw)]
        best = bests(
            [
                (row.variant, percent(row.accuracy), f"at {tokens(row.tokens)} tokens")
                for row in _best(parts[0], styles)
            ]
        )
        finding = f"{task_name(task)}, at best: {best}."
        description = f"Accuracy on {task_name(task)} against training tokens, at best: {best}."
        keys = {"depth": depth, "task": task, "metric": "accuracy"}
        drawn = _token_chart(*parts, shown)
        panels.append(panel(task_name(task), description, drawn, finding=finding, **keys))
    if is_single.any():
        drawn = _chosen_chart(curve[is_single], seeds, shown, "accuracy")
        description = "Accuracy on one benchmark, which a menu chooses, against training tokens."
        panels.append(panel("One benchmark", description, drawn, depth=depth, metric="accuracy"))
    caption = ["Each marker is a checkpoint."]
    if len(curve):
        caption.append(chart.of_bands(curve["seeds"]))
    if len(raw):
        caption.append("Dotted coloured lines are the raw weights, the others the EMA weights.")
    if second_epoch_from and second_epoch_from <= curve["tokens"].max():
        caption.append(
            f"From {tokens(second_epoch_from)} tokens on the models had seen all documents before."
        )
    if efficiency["baseline_accuracy"].notna().any():
        baseline = baseline_of(efficiency)
        caption.append(
            f"Dotted lines: {baseline}’s best accuracy, and chance. A ring marks the first"
            f" checkpoint at which a variant has {baseline}’s best."
        )
    else:
        caption.append("The dotted line is chance.")
    return figure(
        f"accuracy-{depth_name(depth).lower().replace(' ', '-')}",
        depth_name(depth),
        " ".join(caption),
        panels,
        shown,
    )


def one_at_a_time(curve: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Tell which rows are of benchmarks that a menu shows one at a time, and which have a panel.

    A menu shows those of many benchmarks; averages and held-out documents have a panel.
    """
    is_single = ~curve["task"].isin([AVERAGE, VALIDATION]) & are_many(curve["task"])
    return is_single, ~is_single


def _chosen_chart(
    rows: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style], field: str = "value"
) -> chart.Specification:
    """Draw the curves of the benchmark that the reader chose, with chance and single seeds."""
    chosen = chart.chosen_benchmark(rows["task"], int(rows["depth"].iloc[0]))
    is_chosen = chart.is_chosen(chosen)
    percentages = {"format": ".0%"} if field == "accuracy" else {}
    x = chart.token_axis(rows["tokens"])
    y = chart.y_axis(field, **percentages)
    columns = ["variant", "task", "tokens", field]
    layers: list[alt.Chart] = []
    if field == "accuracy" and rows["chance"].notna().any():
        levels = rows.groupby("task", as_index=False)["chance"].max().dropna()
        line = alt.Chart(chart.records(levels, ["task", "chance"])).transform_filter(is_chosen)
        line = line.mark_rule(color=LIGHT["muted"], strokeDash=[2, 3], strokeWidth=1.2)
        layers.append(line.encode(y=alt.Y("chance:Q", title="accuracy")))
    if 1 < rows["seeds"].max() < chart.BANDS_FROM:
        of_rows = runs[runs["task"].isin(rows["task"])]
        seeds = alt.Chart(chart.records(of_rows, ["run_id", *columns]), name="seeds")
        lines = seeds.transform_filter(is_chosen).mark_line(strokeWidth=0.8, strokeOpacity=0.3)
        layers.append(
            lines.encode(x=x, y=y, color=chart.colour(styles), detail=alt.Detail("run_id:N"))
        )
    rows = chart.with_bands(rows, field)
    columns += ["low", "high"]
    base = alt.Chart().transform_filter(is_chosen).encode(x=x, color=chart.colour(styles))
    if rows["low"].notna().any():
        band = base.mark_area(fillOpacity=0.13)
        title = y.to_dict(validate=False)["title"]
        layers.append(band.encode(y=alt.Y("low:Q", title=title), y2=alt.Y2("high:Q")))
    base = base.encode(y=y)
    value = (f"{field}:Q", percentages.get("format", ".3f"))
    told = chart.tooltip(("variant:N",), ("task:N",), ("tokens:Q", ","), value)
    layers += chart.line_and_markers(base, styles, told)
    data = chart.records(rows, columns)
    return chart.layered(
        *layers, data=data, width=chart.WIDTH, height=chart.HEIGHT, params=[chosen]
    )


def _best(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Iterable[Any]:
    """Return the row of each variant's best accuracy; of many variants the highest first."""
    rows = ordered(rows.loc[rows.groupby("variant")["accuracy"].idxmax()], styles)
    if len(rows) > MANY_MODELS:
        rows = rows.sort_values("accuracy", ascending=False, kind="stable")
    return rows.itertuples()


def _token_chart(
    rows: pd.DataFrame,
    runs: pd.DataFrame,
    goals: pd.DataFrame,
    raw: pd.DataFrame,
    styles: Mapping[str, Style],
) -> chart.Specification:
    """Layer the parts of a panel.

    From back to front: levels, bands, seeds, raw weights, lines and markers, rings, names of
    levels.
    """
    x = chart.token_axis(rows["tokens"])
    y = chart.y_axis("accuracy", format=".0%")
    ink = chart.colour(styles)
    base = alt.Chart().encode(x=x, color=ink)
    rows = chart.with_bands(rows)
    levels = chart.chance_level(rows)
    goal = goals["baseline_accuracy"].dropna()
    if len(goal):
        levels.append(
            chart.level(float(goal.iloc[0]), f"{baseline_of(goals)}’s best", LIGHT["v0"], "left")
        )
    layers: list[alt.Chart | chart.Specification] = [line for line, _ in levels]
    layers += chart.uncertainty(base, rows, runs, x, y, styles)
    if len(raw):
        rough = alt.Chart(chart.records(raw, ["variant", "tokens", "accuracy"]), name="raw")
        layers.append(rough.mark_line(strokeWidth=1, strokeDash=[1, 2]).encode(x=x, y=y, color=ink))
    tooltip = chart.tooltip(("variant:N",), ("tokens:Q", ","), *_told(rows))
    layers += chart.line_and_markers(base.encode(y=y), styles, tooltip)
    # The first checkpoints at which a variant has the baseline's best: where the factor is read
    # off.
    reached = without_baseline(goals[goals["variant_tokens"].notna()])
    reached = rows.merge(
        reached[["variant", "variant_tokens"]].rename(columns={"variant_tokens": "tokens"})
    )
    layers += chart.rings(reached, x, y, styles)
    layers += [name for _, name in levels]  # over the curves, to stay readable where they cross
    fields = ["variant", "tokens", "accuracy", "seeds", "items", "low", "high"]
    data = chart.records(rows, fields)
    return chart.layered(*layers, data=data, width=chart.WIDTH, height=chart.HEIGHT)


def task_loss(
    curve: pd.DataFrame,
    runs: pd.DataFrame,
    counted: pd.DataFrame,
    styles: Mapping[str, Style],
    depth: int,
) -> Figure | None:
    """Draw bits per byte (y) against training tokens (x) of the models of one depth.

    Coloured by variant, a panel for the average and for each task. `curve` has the rows of
    `mean_curves` of measure 'loss', `runs` those of `token_loss`, `counted` the runs that count.
    None without losses.
    """
    curve = curve[curve["value"].notna() & (curve["depth"] == depth)]
    runs = runs[runs["run_id"].isin(counted["run_id"]) & (runs["depth"] == depth)]
    shown = present(styles, curve)
    panels = []
    is_single, is_average = one_at_a_time(curve)
    for task in task_order(curve[is_average]["task"], average_first=True):
        rows = curve[curve["task"] == task]
        seeds = runs[runs["task"] == task]
        lowest = ordered(rows.loc[rows.groupby("variant")["value"].idxmin()], styles)
        if len(lowest) > MANY_MODELS:
            lowest = lowest.sort_values("value", kind="stable")
        best = bests(
            [
                (row.variant, number(row.value, 3), f"at {tokens(row.tokens)} tokens")
                for row in lowest.itertuples()
            ]
        )
        name = measure_label({"metric": "loss", "task": task})
        finding = f"{name}, at best: {best}."
        keys = {"depth": depth, "task": task, "metric": "loss"}
        description = f"{name} against training tokens, at best: {best}."
        drawn = _loss_chart(rows, seeds, shown)
        panels.append(panel(name, description, drawn, finding=finding, **keys))
    if is_single.any():
        drawn = _chosen_chart(curve[is_single], runs.rename(columns={"loss": "value"}), shown)
        description = "Loss on one benchmark, which a menu chooses, against training tokens."
        panels.append(panel("One benchmark, loss", description, drawn, depth=depth, metric="loss"))
    caption = (
        "Correct-answer bits per byte, and those of held-out documents; lower is better. Each"
        " marker is a checkpoint."
    )
    if len(curve):
        caption += f" {chart.of_bands(curve['seeds'])}"
    return figure(
        f"loss-{depth_name(depth).lower().replace(' ', '-')}",
        f"{depth_name(depth)}, loss",
        caption,
        panels,
        shown,
    )


def _loss_chart(
    rows: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]
) -> chart.Specification:
    x = chart.token_axis(rows["tokens"])
    y = chart.y_axis("value")
    rows = chart.with_bands(rows, "value")
    data = chart.records(rows, ["variant", "tokens", "value", "low", "high"])
    base = alt.Chart(data, width=chart.WIDTH, height=chart.HEIGHT)
    base = base.encode(x=x, color=chart.colour(styles))
    runs = runs.rename(columns={"loss": "value"})
    layers = chart.uncertainty(base, rows, runs, x, y, styles)
    base = base.encode(y=y)
    tooltip = chart.tooltip(("variant:N",), ("tokens:Q", ","), ("value:Q", ".3f", "bits per byte"))
    return chart.layered(*layers, *chart.line_and_markers(base, styles, tooltip))


def accuracy_at_other_depths(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw accuracy (y) against the depth that a model is run at (x).

    Bold is the mean of its seeds, faint each seed. A panel for each trained depth and task. `rows`
    are those of `depth_accuracy`. None where no run was evaluated at another depth than its own.
    """
    means = mean_of_runs(rows)
    shown = present(styles, rows)
    panels = []
    for trained, task in product(sorted(means["model_depth"].unique()), task_order(means["task"])):
        part = means[(means["model_depth"] == trained) & (means["task"] == task)]
        if part.empty:
            continue
        best = bests(
            [
                (row.variant, percent(row.accuracy), f"at depth {row.depth:.0f}")
                for row in _best(part, styles)
            ]
        )
        title = f"{task_name(task)}, trained at {depth_name(trained).lower()}"
        finding = f"{title}, at best: {best}."
        description = f"Accuracy on {title}, against the depth run at, at best: {best}."
        keys = {"depth": trained, "task": task, "metric": "accuracy"}
        runs = rows[(rows["model_depth"] == trained) & (rows["task"] == task)]
        drawn = _depth_chart(part, runs, shown, trained)
        panels.append(panel(title, description, drawn, finding=finding, **keys))
    of_bands = f" {chart.of_bands(means['seeds'])}" if len(means) else ""
    return figure(
        "other-depths",
        "Accuracy at other depths",
        "The last checkpoint of each model, the mean over its seeds, at the depth it was trained at"
        f" (ring) and at others.{of_bands} The dotted line is chance.",
        panels,
        shown,
    )


def _depth_chart(
    rows: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style], trained: int
) -> chart.Specification:
    """Layer bars, seeds and means: `rows` are means over runs of a model, `runs` single runs."""
    depths = sorted(rows["depth"].unique())
    scale = alt.Scale(domain=[depths[0], max(depths[-1], depths[0] + 1)], padding=8)
    axis = alt.Axis(values=depths, format="d", labelOverlap=True)
    x = alt.X("depth:Q", title="depth at test time", scale=scale, axis=axis)
    y = chart.y_axis("accuracy", format=".0%")
    base = alt.Chart(width=chart.WIDTH, height=chart.HEIGHT)
    base = base.encode(x=x, color=chart.colour(styles))
    rows = chart.with_bands(rows)
    tooltip = chart.tooltip(("variant:N",), ("depth:Q",), *_told(rows))
    levels = chart.chance_level(rows)
    layers: list[alt.Chart | chart.Specification] = [line for line, _ in levels]
    layers += chart.uncertainty(base, rows, runs, x, y, styles)
    layers += chart.line_and_markers(base.encode(y=y), styles, tooltip)
    layers += chart.rings(rows[rows["depth"] == trained], x, y, styles)
    layers += [name for _, name in levels]
    fields = ["variant", "depth", "accuracy", "seeds", "items", "low", "high"]
    return chart.layered(*layers, data=chart.records(rows, fields))
