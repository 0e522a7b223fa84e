"""The figures of a study, each from rows of one view; nothing is computed but where things are drawn.

Every function returns a `Figure`, or None when there are no rows for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import altair as alt
import numpy as np
import pandas as pd

from reports.drawing import (
    HEIGHT,
    NORMAL_95,
    WIDE,
    WIDTH,
    Figure,
    colour,
    dash,
    level,
    panel,
    records,
    shape,
    token_axis,
)
from reports.theme import BASELINE, LIGHT, Style
from reports.words import AVERAGE, depth_name, factor, listed, percent, task_name, tokens

COARSE_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100)
FINE_FACTORS = (0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5)
LOSS_POINTS = 160  # points drawn of each loss curve


def _present(styles: Mapping[str, Style], frame: pd.DataFrame) -> dict[str, Style]:
    """The styles of the variants in these rows, in the order of the report."""
    return {name: style for name, style in styles.items() if name in set(frame["variant"])}


def _task_order(tasks: pd.Series) -> list[str]:
    """Tasks by name, the average first: it is the headline."""
    return sorted(set(tasks), key=lambda task: (task != AVERAGE, task_name(task)))


def accuracy(
    curve: pd.DataFrame,
    runs: pd.DataFrame,
    efficiency: pd.DataFrame,
    fitted: pd.DataFrame,
    styles: Mapping[str, Style],
    depth: int,
    seen_twice_from: float | None = None,
) -> Figure | None:
    """Accuracy against training tokens (the paper's Figure 3): a panel for the average and for each task.

    `curve` has the rows of `accuracy_curve`, `runs` of `token_accuracy`, `efficiency` of `data_efficiency`, `fitted` of
    `fitted_lines`; from `seen_twice_from` tokens on the data were not new to the models.
    """
    curve = curve[(curve["depth"] == depth) & curve["accuracy"].notna()]
    if curve.empty:
        return None
    shown = _present(styles, curve)
    panels = []
    for task in _task_order(curve["task"]):
        rows, seeds, goals, fits = (
            part[(part["depth"] == depth) & (part["task"] == task)] for part in (curve, runs, efficiency, fitted)
        )
        chart = _accuracy_chart(rows, seeds, goals, fits, shown)
        panels.append(panel(task_name(task), _accuracy_words(rows, task), chart))
    several = " Faint lines are the seeds." if curve["seeds"].max() > 1 else ""
    if (fitted["depth"] == depth).any():
        several += " Smooth lines are the fitted curves."
    if seen_twice_from and seen_twice_from <= curve["tokens"].max():
        several += f" From {tokens(seen_twice_from)} tokens on the models had seen documents before."
    return Figure(
        name=f"accuracy-{depth_name(depth).lower().replace(' ', '-')}",
        title=f"Accuracy against training tokens, {depth_name(depth).lower()}",
        caption=(
            "Each marker is a checkpoint; bands are 95% intervals from the standard error over benchmark items."
            f"{several} Dotted lines: {BASELINE}’s best accuracy, and chance. A ring marks the first checkpoint at "
            f"which a variant has {BASELINE}’s best."
        ),
        panels=tuple(panels),
        marks=tuple(shown.values()),
    )


def _accuracy_words(rows: pd.DataFrame, task: str) -> str:
    best = rows.loc[rows.groupby("variant")["accuracy"].idxmax()]
    said = [
        f"{row.variant} at best {percent(row.accuracy)}, at {tokens(row.tokens)} tokens" for row in best.itertuples()
    ]
    return f"Accuracy on {task_name(task)} against training tokens: {'; '.join(said)}."


def _accuracy_chart(
    rows: pd.DataFrame, runs: pd.DataFrame, goals: pd.DataFrame, fits: pd.DataFrame, styles: Mapping[str, Style]
) -> alt.LayerChart:
    error = NORMAL_95 * rows["stderr"]
    rows = rows.assign(low=(rows["accuracy"] - error).clip(lower=0), high=(rows["accuracy"] + error).clip(upper=1))
    x = token_axis(rows["tokens"])
    y = alt.Y(
        "accuracy:Q", title=None, axis=alt.Axis(format=".0%", tickCount=5), scale=alt.Scale(zero=False, nice=True)
    )
    fields = ["variant", "tokens", "accuracy", "stderr", "items", "low", "high"]
    base = alt.Chart().encode(x=x, color=colour(styles))
    levels: list[tuple[alt.Chart, alt.LayerChart]] = []
    chance, goal = rows["chance"].dropna(), goals["baseline_accuracy"].dropna()
    if len(chance):
        levels.append(level(float(chance.iloc[0]), "chance", LIGHT["muted"], "right"))
    if len(goal):
        levels.append(level(float(goal.iloc[0]), f"{BASELINE}’s best", LIGHT["v0"], "left"))
    layers: list[alt.Chart | alt.LayerChart] = [line for line, _ in levels]
    tooltip = [
        alt.Tooltip("variant:N", title="variant"),
        alt.Tooltip("tokens:Q", title="tokens", format=","),
        alt.Tooltip("accuracy:Q", title="accuracy", format=".2%"),
        alt.Tooltip("stderr:Q", title="standard error", format=".2%"),
        alt.Tooltip("items:Q", title="items", format=","),
    ]
    layers.append(base.mark_area(opacity=0.13).encode(y=alt.Y("low:Q", title=None), y2="high:Q"))
    if rows["seeds"].max() > 1:
        each = alt.Chart(records(runs[runs["status"] != "screened"], ["variant", "run_id", "tokens", "accuracy"]))
        layers.append(
            each.mark_line(strokeWidth=0.8, opacity=0.5).encode(x=x, y=y, color=colour(styles), detail="run_id:N")
        )
    if len(fits):
        places = fits.groupby("variant").cumcount()
        drawn = fits[(places % 2 == 0) | (places == fits.groupby("variant")["tokens"].transform("size") - 1)]
        smooth = alt.Chart(records(drawn, ["variant", "tokens", "accuracy"])).mark_line(strokeWidth=1.2)
        layers.append(smooth.encode(x=x, y=y, color=colour(styles)))
    through = {"strokeWidth": 1.3, "opacity": 0.6} if len(fits) else {"strokeWidth": 1.8}  # the eye follows one of two
    layers += [
        base.mark_line(**through).encode(y=y, strokeDash=dash(styles)),
        base.mark_point(filled=True, size=34, opacity=1).encode(y=y, shape=shape(styles), tooltip=tooltip),
    ]
    reached = _crossings(rows, goals)
    if len(reached):
        rings = alt.Chart(records(reached, ["variant", "tokens", "accuracy"]))
        rings = rings.mark_point(size=150, strokeWidth=1.4, filled=False, shape="circle")
        layers.append(rings.encode(x=x, y=y, color=colour(styles)))
    words = [words for _, words in levels]  # over the curves, to stay readable where they cross
    return alt.layer(*layers, *words, data=records(rows, fields), width=WIDTH, height=HEIGHT)


def _crossings(rows: pd.DataFrame, goals: pd.DataFrame) -> pd.DataFrame:
    """The checkpoints at which a variant first has the baseline's best: where the factor is read off."""
    reached = goals[goals["variant_tokens"].notna() & (goals["variant"] != BASELINE)]
    return rows.merge(reached[["variant", "variant_tokens"]].rename(columns={"variant_tokens": "tokens"}))


def factors(efficiency: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """The data-efficiency factors with their intervals, a panel for each depth."""
    rows = efficiency[(efficiency["variant"] != BASELINE) & (efficiency["factor"] > 0)]
    if rows.empty:
        return None
    shown = _present(styles, rows)
    limits = rows[["factor", "low", "high"]].astype(float).replace([np.inf, 0], np.nan)
    low, high = min(0.8, float(limits.min().min()) / 1.15), max(1.6, float(limits.max().max()) * 1.05)
    rows = rows.assign(
        name=rows["task"].map(task_name),
        label=[_bounded(value, bound) for value, bound in zip(rows["factor"], rows["bound"], strict=True)],
        start=rows["low"].clip(lower=low),  # an end of 0 or infinity is open: drawn to the edge
        stop=rows["high"].clip(upper=high),
    )
    panels = []
    for depth in sorted(rows["depth"].unique()):
        part = rows[rows["depth"] == depth]
        said = [
            f"{row.variant} on {row.name_}: {row.label}" for row in part.rename(columns={"name": "name_"}).itertuples()
        ]
        panels.append(
            panel(
                depth_name(depth),
                f"Data-efficiency factors at {depth_name(depth).lower()}, {BASELINE} being 1. {'; '.join(said)}.",
                _factor_chart(part, shown, low, high),
            )
        )
    return Figure(
        name="data-efficiency",
        title="Data efficiency",
        caption=(
            f"How many times fewer training tokens than {BASELINE} each variant needs to reach {BASELINE}’s best "
            "accuracy. Lines: 95% bootstrap intervals, those that run to the edge being open. ▸ at least: reached at "
            "the first checkpoint. ◂ at most: not reached. Hollow: the baseline is near chance."
        ),
        panels=tuple(panels),
        marks=tuple(replace(style, shape="circle") for style in shown.values()),  # shapes stand for bounds here
        wide=True,
    )


def _bounded(value: float, bound: str) -> str:
    return {"at least": "≥ ", "at most": "≤ "}.get(bound, "") + f"{factor(value)}×"


def _factor_chart(rows: pd.DataFrame, styles: Mapping[str, Style], low: float, high: float) -> alt.LayerChart:
    order = [task_name(task) for task in _task_order(rows["task"])]
    fields = ["variant", "name", "factor", "low", "high", "bound", "near_chance", "label", "start", "stop"]
    base = alt.Chart().encode(
        y=alt.Y(
            "name:N",
            title=None,
            sort=order,
            scale=alt.Scale(paddingInner=0.25),
            axis=alt.Axis(domain=False, labelFontSize=12),
        ),
        yOffset=alt.YOffset("variant:N", sort=list(styles)),
    )
    ticks = [tick for tick in COARSE_FACTORS if low <= tick <= high]
    if len(ticks) < 4:
        ticks = [tick for tick in FINE_FACTORS if low <= tick <= high]
    domain = [low, high * (high / low) ** 0.2]  # with room for the labels on the right
    title, scale = f"times fewer training tokens than {BASELINE}", alt.Scale(type="log", domain=domain, nice=False)
    x = alt.X(
        "factor:Q",
        title=title,
        scale=scale,
        axis=alt.Axis(values=ticks, grid=True, labelExpr="datum.label + '×'", format="~g", labelOverlap=True),
    )
    kinds = alt.Scale(domain=["exact", "at least", "at most"], range=["circle", "triangle-right", "triangle-left"])
    tooltip = [
        alt.Tooltip("variant:N"),
        alt.Tooltip("name:N", title="benchmark"),
        alt.Tooltip("label:N", title="factor"),
        alt.Tooltip("low:Q", title="95 % from", format=".2f"),
        alt.Tooltip("high:Q", title="95 % to", format=".2f"),
        alt.Tooltip("bound:N"),
        alt.Tooltip("near_chance:N", title="baseline near chance"),
    ]
    one = alt.Chart(alt.InlineData(values=[{"factor": 1}])).mark_rule(color=LIGHT["v0"], strokeWidth=1.4).encode(x=x)
    spans = base.transform_filter("isValid(datum.start) && isValid(datum.stop)")
    points = base.mark_point(size=80, opacity=1, strokeWidth=1.6).encode(
        x=x,
        color=colour(styles),
        shape=alt.Shape("bound:N", scale=kinds, legend=None),
        fill=alt.condition("datum.near_chance", alt.value(LIGHT["paper"]), colour(styles)),
        tooltip=tooltip,
    )
    return alt.layer(
        one,
        spans.mark_rule(strokeWidth=2, opacity=0.55).encode(
            x=alt.X("start:Q", title=title, scale=scale), x2="stop:Q", color=colour(styles)
        ),
        points,
        base.mark_text(align="right", fontSize=11).encode(x=alt.value("width"), text="label:N"),
        data=records(rows, fields),
        width=WIDE,
        height={"step": 18},
    )


def loss(steps: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Training loss against tokens, a panel for each depth; a point is the mean over its stretch of the token axis."""
    steps = steps[steps["loss"].notna() & (steps["tokens"] > 0)]
    if steps.empty:
        return None
    shown = _present(styles, steps)
    panels = []
    for depth in sorted(steps["depth"].unique()):
        rows = _thinned(steps[steps["depth"] == depth])
        last = rows.sort_values("tokens").groupby(["variant", "run_id"], as_index=False).last()
        said = [f"{row.variant} ends at {row.loss:.3f}" for row in last.itertuples()]
        base = alt.Chart(records(rows, ["variant", "run_id", "tokens", "loss", "screened"]), width=WIDE, height=240)
        lines = base.mark_line(strokeWidth=1.6).encode(
            x=token_axis(rows["tokens"]),
            y=alt.Y("loss:Q", title="training loss (nats per token)", scale=alt.Scale(zero=False, nice=True)),
            color=colour(styles),
            strokeDash=dash(styles),
            detail="run_id:N",
            opacity=alt.condition("datum.screened", alt.value(0.4), alt.value(1)),
        )
        panels.append(panel(depth_name(depth), f"Training loss at {depth_name(depth).lower()}: {listed(said)}.", lines))
    return Figure(
        name="training-loss",
        title="Training loss",
        caption=(
            f"One line for each run, faint for screened ones. Up to {LOSS_POINTS} points a line, each the mean loss "
            "over its "
            "stretch of the axis."
        ),
        panels=tuple(panels),
        marks=tuple(shown.values()),
        wide=True,
    )


def _thinned(steps: pd.DataFrame) -> pd.DataFrame:
    """At most `LOSS_POINTS` points of each run, evenly spaced on the logarithmic token axis."""
    place = np.log(steps["tokens"].astype(float))
    place = (place - place.min()) / max(place.max() - place.min(), 1e-9)
    stretch = np.minimum((place * LOSS_POINTS).astype(int), LOSS_POINTS - 1)
    groups = steps.assign(stretch=stretch, screened=steps["status"] == "screened").groupby(
        ["variant", "run_id", "screened", "stretch"], as_index=False
    )
    return groups.agg(tokens=("tokens", "mean"), loss=("loss", "mean"))


def perplexity(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Validation perplexity against training tokens: a panel for each text and depth, a line for each run."""
    rows = rows[rows["perplexity"].notna()]
    if rows.empty:
        return None
    shown = _present(styles, rows)
    metrics = sorted(set(rows["metric"].str.replace("_", " ")))
    panels = []
    for (depth, task), part in rows.groupby(["depth", "task"]):
        base = alt.Chart(
            records(part, ["variant", "run_id", "tokens", "perplexity"]), width=WIDTH, height=HEIGHT
        ).encode(
            x=token_axis(part["tokens"]),
            y=alt.Y("perplexity:Q", title=None, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(tickCount=5)),
            color=colour(styles),
            detail="run_id:N",
        )
        tooltip = ["variant:N", alt.Tooltip("tokens:Q", format=","), alt.Tooltip("perplexity:Q", format=".3f")]
        points = base.mark_point(filled=True, size=30, opacity=1).encode(shape=shape(styles), tooltip=tooltip)
        best = part.groupby("variant")["perplexity"].min()
        said = [f"{variant} at best {best[variant]:.2f}" for variant in shown if variant in best]
        title = f"{task_name(task)}, {depth_name(depth).lower()}"
        lines = base.mark_line(strokeWidth=1.8).encode(strokeDash=dash(styles))
        panels.append(panel(title, f"Perplexity on {title}: {listed(said)}.", alt.layer(lines, points)))
    return Figure(
        name="perplexity",
        title="Validation perplexity against training tokens",
        caption=f"Lower is better. Measured as {listed(metrics)}; a line for each run.",
        panels=tuple(panels),
        marks=tuple(shown.values()),
    )
