"""Draw the accuracy that each model has at its end: a bar for each benchmark and variant."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.accuracy import one_at_a_time
from dreamer_study.reports.figures.rendering import Figure, Panel, figure, panel
from dreamer_study.reports.style.theme import LIGHT, WHOLE_LINE, Style, ordered, present
from dreamer_study.reports.text.names import LONGEST, depth_name, shortest, task_name, task_order
from dreamer_study.reports.text.numbers import MANY_MODELS, bests, percent, tokens

MODEL = ["depth", "variant", "task"]
SLOPED_FROM = 55  # characters below an axis: more do not fit beside each other on a phone
WHOLE_BAR, FAINT_BAR = 0.75, 0.3  # the second is of styles whose colour another variant has too


def final_accuracy(
    curve: pd.DataFrame, runs: pd.DataFrame, counted: pd.DataFrame, styles: Mapping[str, Style]
) -> Figure | None:
    """Draw the accuracy (y) at the end of each curve, a group of bars for each benchmark (x).

    Coloured by variant, a panel for each depth. Of many benchmarks the averages have a panel, and a
    menu shows one benchmark at a time. `curve` has the rows of `StudyData.curve`, `runs` those of
    `token_accuracy`, `counted` the runs that count. None without accuracies.
    """
    curve = curve[curve["accuracy"].notna()].reset_index(drop=True)
    rows = chart.with_bands(curve.loc[curve.groupby(MODEL)["tokens"].idxmax()])
    shown = present(styles, rows)
    rows = ordered(rows, shown)
    rows = rows.assign(name=[task_name(task) for task in rows["task"]])
    seeds = _seeds_at_end(runs[runs["run_id"].isin(counted["run_id"])], rows)
    panels = []
    findings = []
    for depth, part in rows.groupby("depth"):
        of_seeds = seeds[seeds["depth"] == depth]
        finding = _finding(part)
        findings.append(finding)
        panels += _panels(part, of_seeds, shown, int(depth), finding)
    caption = ["The last checkpoint that all seeds of a model have, the mean over its seeds."]
    if len(rows):
        caption.append(chart.of_bands(rows["seeds"], "Whiskers"))
        caption += _unequal_ends(rows)
    if rows["chance"].notna().any():
        caption.append("The dotted line is chance.")
    return figure(
        "final-accuracy",
        "Accuracy at the end",
        " ".join(caption),
        panels,
        shown,
        wide=True,
        finding="".join(findings[:1]),
    )


def _seeds_at_end(runs: pd.DataFrame, ends: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of each seed at the end of its model's curve, named as in `ends`.

    Seeds of one point of a curve have slightly different numbers of tokens.
    """
    columns = ["run_id", "tokens", "accuracy", *MODEL]
    both = runs[columns].merge(ends[[*MODEL, "tokens", "name"]], on=MODEL, suffixes=("", "_of_end"))
    distance = (both["tokens"] - both["tokens_of_end"]).abs()
    nearest = distance.groupby([both[name] for name in ("run_id", "task")]).idxmin()
    return both.loc[nearest]


def _unequal_ends(rows: pd.DataFrame) -> list[str]:
    """Say where the curves of a depth do not end at the same number of tokens."""
    least = rows["tokens"].min()
    most = rows["tokens"].max()
    if most <= 1.05 * least:
        return []
    return [f"The ends are not alike: from {tokens(least)} to {tokens(most)} tokens."]


def _finding(rows: pd.DataFrame) -> str:
    """Say the accuracies of the first benchmark, which is the average where there is one."""
    first = task_order(rows["task"], average_first=True)[0]
    part = rows[rows["task"] == first]
    if len(part) > MANY_MODELS:
        part = part.sort_values("accuracy", ascending=False, kind="stable")
    models = [
        (row.variant, percent(row.accuracy), f"at {tokens(row.tokens)} tokens")
        for row in part.itertuples()
    ]
    return f"{task_name(first)}: {bests(models)}."


def _panels(
    rows: pd.DataFrame, seeds: pd.DataFrame, styles: Mapping[str, Style], depth: int, finding: str
) -> list[Panel]:
    """Draw the benchmarks of a depth together, or the average and one of many benchmarks."""
    keys = {"depth": depth, "metric": "accuracy"}
    is_single, is_average = one_at_a_time(rows)
    title = depth_name(depth)
    description = f"Accuracy at the end at {title.lower()}. {finding}"
    panels = []
    if is_average.any():
        drawn = _chart(rows[is_average], seeds, styles)
        panels.append(panel(title, description, drawn, **keys))
    if is_single.any():
        chosen = chart.chosen_benchmark(rows[is_single]["task"], depth)
        drawn = _chart(rows[is_single], seeds, styles, chosen)
        description = "Accuracy at the end on one benchmark, which a menu chooses."
        panels.append(panel(f"{title}, one benchmark", description, drawn, **keys))
    return panels


def _chart(
    rows: pd.DataFrame,
    seeds: pd.DataFrame,
    styles: Mapping[str, Style],
    chosen: chart.Parameter | None = None,
) -> chart.Specification:
    """Layer bars, the level of chance, whiskers, single seeds of few, and the marks of variants."""
    fields = ["variant", "task", "name", "tokens", "accuracy", "low", "high", "seeds", "items"]
    has_chance = rows["chance"].notna().any()
    if has_chance:
        fields.append("chance")
    fields.append("strength")
    is_whole = rows["variant"].map(lambda variant: styles[variant].dash == WHOLE_LINE)
    rows = rows.assign(strength=np.where(is_whole, WHOLE_BAR, FAINT_BAR))
    few = _of_few(rows, seeds)
    x = _benchmark_axis(rows, chosen)
    offset = alt.XOffset("variant:N", sort=list(styles))
    y = chart.y_axis("accuracy", zero=True, format=".0%")
    base = alt.Chart()
    of_seeds = alt.Chart(
        chart.records(few, ["variant", "run_id", "task", "name", "accuracy"]), name="seeds"
    )
    if chosen:
        base = base.transform_filter(chart.is_chosen(chosen))
        of_seeds = of_seeds.transform_filter(chart.is_chosen(chosen))

    told = _told(rows)
    by_variant = base.encode(x=x, xOffset=offset, color=chart.colour(styles))
    bars = by_variant.mark_bar().encode(
        y=y, fillOpacity=alt.FillOpacity("strength:Q", scale=None, legend=None), tooltip=told
    )
    layers: list[alt.Chart] = [bars]
    if has_chance:
        layers.append(_chance(base, x))
    if rows["low"].notna().any():
        layers.append(_whiskers(by_variant))
    if len(few):
        ticks = of_seeds.mark_tick(thickness=1, color=LIGHT["ink"], opacity=0.8)
        layers.append(ticks.encode(x=x, xOffset=offset, y=y))
    marks = by_variant.mark_point(
        filled=True, size=44, opacity=1, stroke=LIGHT["paper"], strokeWidth=1
    )
    layers.append(marks.encode(y=y, shape=chart.shape(styles), tooltip=told))
    return chart.layered(
        *layers,
        data=chart.records(rows, fields),
        width=chart.WIDE,
        height=chart.HEIGHT,
        **({"params": [chosen]} if chosen else {}),
    )


def _benchmark_axis(rows: pd.DataFrame, chosen: chart.Parameter | None) -> alt.X:
    """Return the axis of benchmarks, whose names slope where they have no room."""
    names = [task_name(task) for task in task_order(rows["task"], average_first=True)]
    longest = max(map(len, shortest(names, LONGEST).values()))
    is_sloped = not chosen and len(names) * longest > SLOPED_FROM
    axis = chart.name_axis(names, labelFontSize=11, labelAngle=-30 if is_sloped else 0)
    return alt.X("name:N", title=None, sort=names, axis=axis, scale=alt.Scale(paddingInner=0.2))


def _told(rows: pd.DataFrame) -> list[alt.Tooltip]:
    """Return what a bar tells."""
    return chart.tooltip(
        ("variant:N",),
        ("name:N", "", "benchmark"),
        ("tokens:Q", ","),
        ("accuracy:Q", ".2%"),
        *chart.interval_told(rows),
        ("seeds:Q", "d"),
        ("items:Q", ","),
    )


def _chance(base: alt.Chart, x: alt.X) -> alt.Chart:
    """Draw the level of chance across the bars of each benchmark."""
    line = base.mark_rule(color=LIGHT["muted"], strokeDash=[2, 3], strokeWidth=1.2)
    end = alt.X2("name:N", bandPosition=1)
    return line.encode(x=x.bandPosition(0), x2=end, y=alt.Y("chance:Q", title="accuracy"))


def _whiskers(by_variant: alt.Chart) -> alt.Chart:
    """Draw the intervals of the means that have one."""
    lines = by_variant.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2)
    low = alt.Y("low:Q", title="accuracy")
    return lines.encode(y=low, y2=alt.Y2("high:Q"), color=alt.value(LIGHT["ink"]))


def _of_few(rows: pd.DataFrame, seeds: pd.DataFrame) -> pd.DataFrame:
    """Return the seeds of models that have more than one seed, but too few for an interval."""
    few = rows.loc[rows["seeds"].between(2, chart.BANDS_FROM - 1), MODEL]
    return seeds.merge(few, on=MODEL)
