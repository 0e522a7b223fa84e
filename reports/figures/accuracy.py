"""Draw accuracy: against training tokens (the paper's Figure 3), and of recurrent models run at
other depths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import altair as alt
import pandas as pd

from dreamer_study.reports.data import baseline_of, mean_of_runs, without_baseline
from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import LIGHT, Style, ordered, present
from dreamer_study.reports.text.names import depth_name, measure_label, task_name, task_order
from dreamer_study.reports.text.numbers import bests, number, percent, tokens

ACCURACY_TOOLTIP = (
    ("accuracy:Q", ".2%"),
    ("stderr:Q", ".2%", "standard error of items"),
    ("items:Q", ","),
)


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
    """Draw accuracy (y) against training tokens (x) of the models of one depth, coloured by
    variant.

    A panel for the average and for each task. `curve` has the rows of `StudyData.curve`, `runs` of
    `token_accuracy`,
    `efficiency` of `data_efficiency`, `raw` the mean accuracies of raw weights, `counted` the runs
    that count; from
    `second_epoch_from` tokens on the stream was in its second epoch. None without accuracies.
    """
    seeds = runs[runs["run_id"].isin(counted["run_id"])]
    frames = (curve[curve["accuracy"].notna()], seeds, efficiency, raw)
    frames = [frame[frame["depth"] == depth] for frame in frames]
    curve, shown, panels, findings = frames[0], present(styles, frames[0]), [], []
    for task in task_order(curve["task"], average_first=True):
        parts = [frame[frame["task"] == task] for frame in frames]
        best = _best(parts[0], styles)
        words = bests(
            [
                (row.variant, percent(row.accuracy), f"at {tokens(row.tokens)} tokens")
                for row in best
            ]
        )
        findings.append(f"{task_name(task)}, at best: {words}.")
        description = f"Accuracy on {task_name(task)} against training tokens, at best: {words}."
        keys = {"depth": depth, "task": task, "metric": "accuracy"}
        panels.append(panel(task_name(task), description, _token_chart(*parts, shown), **keys))
    notes = " Faint lines are the seeds." if curve["seeds"].max() > 1 else ""
    notes += (
        " Dotted coloured lines are the raw weights, the others the EMA weights."
        if len(frames[3])
        else ""
    )
    if second_epoch_from and second_epoch_from <= curve["tokens"].max():
        notes += (
            f" From {tokens(second_epoch_from)} tokens on the models had seen all documents before."
        )
    goal = " The dotted line is chance."
    if frames[2]["baseline_accuracy"].notna().any():
        baseline = baseline_of(frames[2])
        goal = (
            f" Dotted lines: {baseline}’s best accuracy, and chance. A ring marks the first"
            f" checkpoint at which a variant has {baseline}’s best."
        )
    return figure(
        f"accuracy-{depth_name(depth).lower().replace(' ', '-')}",
        depth_name(depth),
        f"Each marker is a checkpoint. {_of_bands(curve['seeds'])}{notes}{goal}",
        panels,
        shown,
        finding="".join(findings[:1]),
    )


def _of_bands(seeds: pd.Series) -> str:
    """Say what the bands are, and what they are not."""
    several = (
        "Bands are 95% t-intervals of the mean over the seeds; what the choice of items adds is in"
        " the interval of a mean ratio only."
    )
    single = (
        "The band of a model with one seed is the 95% interval over benchmark items, and says"
        " nothing of other seeds."
    )
    return " ".join([several] * bool(seeds.max() > 1) + [single] * bool(seeds.min() == 1))


def _best(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Iterable[Any]:
    """Return the row of each variant's best accuracy."""
    return ordered(rows.loc[rows.groupby("variant")["accuracy"].idxmax()], styles).itertuples()


def _token_chart(
    rows: pd.DataFrame,
    runs: pd.DataFrame,
    goals: pd.DataFrame,
    raw: pd.DataFrame,
    styles: Mapping[str, Style],
) -> chart.Specification:
    """Layer, from back to front: levels, bands, seeds, raw weights, lines and markers, rings, words
    of the levels."""
    x, y, ink = (
        chart.token_axis(rows["tokens"]),
        chart.y_axis("accuracy", format=".0%"),
        chart.colour(styles),
    )
    base = alt.Chart().encode(x=x, color=ink)
    levels, goal = chart.chance_level(rows), goals["baseline_accuracy"].dropna()
    if len(goal):
        levels.append(
            chart.level(float(goal.iloc[0]), f"{baseline_of(goals)}’s best", LIGHT["v0"], "left")
        )
    layers: list[alt.Chart | chart.Specification] = [line for line, _ in levels]
    layers.append(
        base.mark_area(fillOpacity=0.13).encode(y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q"))
    )
    if rows["seeds"].max() > 1:
        layers.append(chart.seed_lines(runs, x, y, styles))
    if len(raw):
        rough = alt.Chart(chart.records(raw, ["variant", "tokens", "accuracy"]), name="raw")
        layers.append(rough.mark_line(strokeWidth=1, strokeDash=[1, 2]).encode(x=x, y=y, color=ink))
    told = chart.tooltip(("variant:N",), ("tokens:Q", ","), *ACCURACY_TOOLTIP)
    layers += chart.line_and_markers(base.encode(y=y), styles, told)
    # The first checkpoints at which a variant has the baseline's best: where the factor is read
    # off.
    reached = without_baseline(goals[goals["variant_tokens"].notna()])
    reached = rows.merge(
        reached[["variant", "variant_tokens"]].rename(columns={"variant_tokens": "tokens"})
    )
    layers += chart.rings(reached, x, y, styles)
    layers += [words for _, words in levels]  # over the curves, to stay readable where they cross
    fields = ["variant", "tokens", "accuracy", "stderr", "items", "low", "high"]
    data = chart.records(chart.with_bands(rows), fields)
    return chart.layered(*layers, data=data, width=chart.WIDTH, height=chart.HEIGHT)


def task_loss(
    curve: pd.DataFrame,
    runs: pd.DataFrame,
    counted: pd.DataFrame,
    styles: Mapping[str, Style],
    depth: int,
) -> Figure | None:
    """Draw bits per byte (y) against training tokens (x) of the models of one depth, coloured by
    variant.

    A panel for the average and for each task. `curve` has the rows of `mean_curves` of measure
    'loss', `runs` those of
    `token_loss`, `counted` the runs that count. None without losses.
    """
    runs = runs[runs["run_id"].isin(counted["run_id"])]
    curve, runs = (
        frame[frame["depth"] == depth] for frame in (curve[curve["value"].notna()], runs)
    )
    shown, panels, findings = present(styles, curve), [], []
    for task in task_order(curve["task"], average_first=True):
        rows, each = curve[curve["task"] == task], runs[runs["task"] == task]
        best = ordered(rows.loc[rows.groupby("variant")["value"].idxmin()], styles)
        words = bests(
            [
                (row.variant, number(row.value, 3), f"at {tokens(row.tokens)} tokens")
                for row in best.itertuples()
            ]
        )
        name = measure_label({"metric": "loss", "task": task})
        findings.append(f"{name}, at best: {words}.")
        keys = {"depth": depth, "task": task, "metric": "loss"}
        description = f"{name} against training tokens, at best: {words}."
        panels.append(panel(name, description, _loss_chart(rows, each, shown), **keys))
    faint = " Faint lines are the seeds." if len(curve) and curve["seeds"].max() > 1 else ""
    return figure(
        f"loss-{depth_name(depth).lower().replace(' ', '-')}",
        f"{depth_name(depth)}, loss",
        "Correct-answer bits per byte, and those of held-out documents; lower is better. Each"
        " marker is a checkpoint." + faint,
        panels,
        shown,
        finding="".join(findings[:1]),
    )


def _loss_chart(
    rows: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]
) -> chart.Specification:
    x, y, ink = chart.token_axis(rows["tokens"]), chart.y_axis("value"), chart.colour(styles)
    base = alt.Chart(
        chart.records(rows, ["variant", "tokens", "value"]), width=chart.WIDTH, height=chart.HEIGHT
    )
    base = base.encode(x=x, y=y, color=ink)
    layers: list[alt.Chart] = []
    if rows["seeds"].max() > 1:
        layers.append(chart.seed_lines(runs.rename(columns={"loss": "value"}), x, y, styles))
    told = chart.tooltip(("variant:N",), ("tokens:Q", ","), ("value:Q", ".3f", "bits per byte"))
    return chart.layered(*layers, *chart.line_and_markers(base, styles, told))


def accuracy_at_other_depths(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw accuracy (y) against the depth that a model is run at (x): bold the mean of its seeds,
    faint each seed.

    A panel for each trained depth and task. `rows` are those of `depth_accuracy`. None where no run
    was evaluated at another depth than its own.
    """
    means, shown, panels, findings = mean_of_runs(rows), present(styles, rows), [], []
    for trained, task in product(sorted(means["model_depth"].unique()), task_order(means["task"])):
        part = means[(means["model_depth"] == trained) & (means["task"] == task)]
        if part.empty:
            continue
        best = _best(part, styles)
        words = bests(
            [(row.variant, percent(row.accuracy), f"at depth {row.depth:.0f}") for row in best]
        )
        title = f"{task_name(task)}, trained at {depth_name(trained).lower()}"
        findings.append(f"{title}, at best: {words}.")
        description = f"Accuracy on {title}, against the depth run at, at best: {words}."
        keys = {"depth": trained, "task": task, "metric": "accuracy"}
        runs = rows[(rows["model_depth"] == trained) & (rows["task"] == task)]
        panels.append(panel(title, description, _depth_chart(part, runs, shown, trained), **keys))
    several = " the mean over its seeds (faint lines)," * bool(
        len(means) and means["runs"].max() > 1
    )
    return figure(
        "other-depths",
        "Accuracy at other depths",
        f"The last checkpoint of each model,{several} at the depth it was trained at (ring) and at"
        " others. Bars are 95% intervals over benchmark items, and say nothing of other seeds. The"
        " dotted line is chance.",
        panels,
        shown,
        finding="".join(findings[:1]),
    )


def _depth_chart(
    rows: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style], trained: int
) -> chart.Specification:
    """Layer bars, seeds and means: `rows` are means over the runs of a model, `runs` single
    runs."""
    depths = sorted(rows["depth"].unique())
    scale = alt.Scale(domain=[depths[0], max(depths[-1], depths[0] + 1)], padding=8)
    axis = alt.Axis(values=depths, format="d", labelOverlap=True)
    x, y = (
        alt.X("depth:Q", title="depth at test time", scale=scale, axis=axis),
        chart.y_axis("accuracy", format=".0%"),
    )
    ink, levels = chart.colour(styles), chart.chance_level(rows)
    base = alt.Chart(width=chart.WIDTH, height=chart.HEIGHT).encode(x=x, color=ink)
    told = chart.tooltip(("variant:N",), ("depth:Q",), *ACCURACY_TOOLTIP)
    layers = [
        *[line for line, _ in levels],
        base.mark_rule(strokeOpacity=0.4).encode(y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q")),
        *([chart.seed_lines(runs, x, y, styles)] if rows["runs"].max() > 1 else []),
        *chart.line_and_markers(base.encode(y=y), styles, told),
        *chart.rings(rows[rows["depth"] == trained], x, y, styles),
        *[words for _, words in levels],
    ]
    fields = ["variant", "depth", "accuracy", "stderr", "items", "low", "high"]
    return chart.layered(
        *layers, data=chart.records(chart.with_bands(rows.assign(seeds=1, seed_error=0.0)), fields)
    )
