"""Draw how training went: loss, search for learning rates, perplexity of validation texts."""

from __future__ import annotations

import math
from collections.abc import Mapping

import altair as alt
import pandas as pd

from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import Style, present
from dreamer_study.reports.text.names import depth_name, task_name
from dreamer_study.reports.text.numbers import counted, listed
from dreamer_study.sql.names import UNDER_WAY

# Statuses of runs without a last loss; 'evaluating' is after the training.
NOT_AT_THE_END = ("screened", "failed", "stopped", "waiting", "training")


def loss(
    curves: pd.DataFrame,
    means: pd.DataFrame,
    styles: Mapping[str, Style],
    bytes_per_token: float | None = None,
) -> Figure | None:
    """Draw training loss (y) against tokens (x), the mean of the seeds of each model.

    Each depth has two panels: one with the whole training, one with the later half, whose
    differences the beginning would hide. Runs that are in no mean, and the seeds of few, are thin
    lines. `curves` has the rows of `training_curves`, `means` those of `training_means`. The loss
    is in bits per byte where `bytes_per_token` is known, else in nats per token. None without
    losses.
    """
    breaks = _breaks(curves)
    curves = _in_unit(curves[curves["loss"].notna()], bytes_per_token)
    means = chart.with_bands(_in_unit(means.assign(stderr=float("nan")), bytes_per_token), "loss")
    shown = present(styles, curves)
    panels = []
    for depth, part in curves.groupby("depth"):
        of_depth = means[means["depth"] == depth]
        newest = part.sort_values("tokens").groupby(["variant", "run_id"], as_index=False).last()
        losses = [f"{row.variant} comes to {row.loss:.3f}" for row in newest.itertuples()]
        at_end = newest[~newest["status"].isin(NOT_AT_THE_END)].groupby("variant")["loss"].mean()
        ends = [f"{variant} {at_end[variant]:.3f}" for variant in shown if variant in at_end]
        finding = ""
        if ends:
            finding = f"{depth_name(depth)}, at the end, mean over the runs: {listed(ends)}."
        half = 0.5 * part["tokens"].max()
        for first, which in ((0.0, ""), (half, ", later half")):
            title = f"{depth_name(depth)}{which}"
            description = f"Training loss at {depth_name(depth).lower()}{which}: {listed(losses)}."
            runs = part[part["tokens"] >= first]
            drawn = _lines(runs, of_depth[of_depth["tokens"] >= first], shown, bytes_per_token)
            panels.append(panel(title, description, drawn, finding=finding, depth=depth))
    unit = (
        f"Bits per byte, with {bytes_per_token:.2f} bytes to a token as in held-out documents."
        if bytes_per_token
        else "Nats per token."
    )
    caption = [
        unit,
        "The mean over the seeds; a point is the mean over a stretch of the training, by the"
        " weights of each step. Scores and held-out losses are of averaged weights, where the study"
        " averages them, and lie lower.",
    ]
    if len(means):
        caption.append(chart.of_bands(means["seeds"], over="seeds"))
    if not _is_in_mean(curves, means).all():
        caption.append("Runs that count in no mean are thin lines too.")
    return figure(
        "training-loss",
        "Training loss",
        f"{' '.join(caption)}{breaks}",
        panels,
        shown,
    )


def _in_unit(rows: pd.DataFrame, bytes_per_token: float | None) -> pd.DataFrame:
    """Convert losses from nats per token to bits per byte, where the bytes of a token are known."""
    if bytes_per_token is None:
        return rows
    nats_per_byte = rows["loss"] / bytes_per_token
    rows = rows.assign(loss=nats_per_byte / math.log(2))
    if "seed_error" in rows:
        rows["seed_error"] = rows["seed_error"] / bytes_per_token / math.log(2)
    return rows


def _is_in_mean(runs: pd.DataFrame, means: pd.DataFrame) -> pd.Series:
    """Tell which rows are of runs that count in a mean; all runs under way do where none ended."""
    keys = ["depth", "variant"]
    models = set(means[keys].itertuples(index=False, name=None))
    has_mean = [model in models for model in runs[keys].itertuples(index=False, name=None)]
    under_way = runs["status"].isin(UNDER_WAY)
    all_under_way = under_way.groupby([runs[key] for key in keys]).transform("all")
    counts = ~runs["status"].isin(("screened", "failed")) & (~under_way | all_under_way)
    return counts & pd.Series(has_mean, index=runs.index, dtype=bool)


def _breaks(curves: pd.DataFrame) -> str:
    """Say which runs had losses that are no numbers."""
    broken = curves.groupby("run_id")["losses_not_finite"].sum()
    runs = [f"{run} ({counted(int(count), 'step')})" for run, count in broken[broken > 0].items()]
    if not runs:
        return ""
    return f" The loss was not a finite number in {listed(runs)}; such steps are not drawn."


def _edge(rows: pd.DataFrame, rate: float) -> str:
    """Say whether a rate is the lowest or highest of those that a variant has tried."""
    tried = rows["learning_rate"]
    if rate == tried.min():
        return " (the lowest tried)"
    return " (the highest tried)" if rate == tried.max() else ""


def rates(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw the loss (y) at each learning rate of the search (x), with a ring at the chosen one.

    A loss is the mean over the seeds of a rate. A line for each variant, a panel for each depth.
    `rows` are those of `tuning`. None without a search.
    """
    means = rows.groupby(["depth", "variant", "learning_rate", "chosen"], as_index=False)["loss"]
    rows = means.agg(lambda losses: losses.mean(skipna=False)).dropna()
    shown = present(styles, rows)
    panels = []
    for depth, part in rows.groupby("depth"):
        chosen = part[part["chosen"]].rename(columns={"loss": "value"})
        best = dict(chosen[["variant", "learning_rate"]].itertuples(index=False))
        rates_chosen = [
            f"{name} {best[name]:g}{_edge(part[part['variant'] == name], best[name])}"
            for name in shown
            if name in best
        ]
        finding = f"{depth_name(depth)}, chosen: {listed(rates_chosen)}."
        axis = alt.Axis(
            format=".2~g", values=sorted(part["learning_rate"].unique()), labelOverlap=True
        )
        x = alt.X(
            "learning_rate:Q",
            title="learning rate",
            scale=alt.Scale(type="log", nice=False),
            axis=axis,
        )
        y = chart.y_axis("value")
        part = part.rename(columns={"loss": "value"})
        data = chart.records(part, ["variant", "learning_rate", "value"])
        base = alt.Chart(data, width=chart.WIDTH, height=chart.HEIGHT)
        base = base.encode(x=x, y=y, color=chart.colour(shown))
        tooltip = chart.tooltip(("learning_rate:Q", "~g"), ("value:Q", ".3f", "loss"))
        lines = chart.line_and_markers(base, shown, tooltip)
        drawn = chart.layered(*lines, *chart.rings(chosen, x, y, shown))
        panels.append(panel(depth_name(depth), finding, drawn, finding=finding, depth=depth))
    caption = (
        "Bits per byte of documents held out for the search; beyond the lowest or highest rate may"
        " lie a better one."
    )
    return figure("tuning", "Loss by learning rate", caption, panels, shown, each_finding=True)


def _lines(
    runs: pd.DataFrame,
    means: pd.DataFrame,
    styles: Mapping[str, Style],
    bytes_per_token: float | None,
) -> chart.Specification:
    """Draw mean losses with bands against tokens, and single runs as thin lines.

    The token axis is logarithmic where the range asks for that.
    """
    x = chart.token_axis(runs["tokens"])
    first = float(runs["tokens"].min())
    last = float(runs["tokens"].max())
    if first < last <= 2.5 * first:  # the later half of a training
        x = x.scale(domain=[first, last], nice=False)
    # named by its unit, also in a saved table
    field = "value" if bytes_per_token else "loss"
    y = chart.y_axis(field)
    means = means.rename(columns={"loss": field})
    runs = runs.rename(columns={"loss": field})
    base = alt.Chart().encode(x=x, color=chart.colour(styles))
    few = means.loc[means["seeds"].between(2, chart.BANDS_FROM - 1), "variant"]
    is_thin = runs["variant"].isin(few) | ~_is_in_mean(runs, means)
    layers: list[alt.Chart | chart.Specification] = [*chart.bands(base, means, y)]
    if is_thin.any():
        # A run is a number here: its name on every point would be most of the page.
        thin = runs[is_thin].assign(run_id=runs.groupby("run_id").ngroup())
        layers.append(chart.seed_lines(thin, x, y, styles))
    layers.append(base.mark_line(strokeWidth=1.6).encode(y=y, strokeDash=chart.dash(styles)))
    interval = [("low:Q", ".3f", "95 % CI from"), ("high:Q", ".3f", "to")]
    has_intervals = means["low"].notna().all()
    told = chart.tooltip(
        ("variant:N",),
        ("tokens:Q", ",.0f"),
        (f"{field}:Q", ".3f", "loss"),
        *(interval if has_intervals else []),
        ("seeds:Q", "d"),
    )
    points = base.mark_point(size=60, opacity=0, filled=True)
    layers.append(points.encode(y=y, tooltip=told))
    data = chart.records(means, ["variant", "seeds", "tokens", field, "low", "high"])
    return chart.layered(*layers, data=data, width=chart.WIDTH, height=chart.HEIGHT)


def perplexity(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw validation perplexity (y) against training tokens (x), a line for each run.

    Coloured by variant. A panel for each text and depth. `rows` are those of
    `StudyData.perplexity`. None without perplexities.
    """
    rows = rows[rows["perplexity"].notna()]
    shown = present(styles, rows)
    panels = []
    for (depth, task), part in rows.groupby(["depth", "task"]):
        best = part.groupby("variant")["perplexity"].min()
        lowest = [f"{variant} at best {best[variant]:.2f}" for variant in shown if variant in best]
        title = f"{task_name(task)}, {depth_name(depth).lower()}"
        finding = f"{title}: {listed(lowest)}."
        description = f"Perplexity on {title}: {listed(lowest)}."
        drawn = chart.run_curves(part, styles, "perplexity")
        panels.append(panel(title, description, drawn, finding=finding, depth=depth))
    metrics = sorted(set(rows["metric"].str.replace("_", " ")))
    caption = f"Lower is better. Measured as {listed(metrics)}; a line for each run."
    return figure("perplexity", "Validation perplexity", caption, panels, shown)
