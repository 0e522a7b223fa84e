"""Draw how training went: loss, search for learning rates, perplexity of validation texts."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import Style, present
from dreamer_study.reports.text.names import depth_name, task_name
from dreamer_study.reports.text.numbers import counted, listed

# Statuses of runs without a last loss; 'evaluating' is after the training.
NOT_AT_THE_END = ("screened", "failed", "stopped", "waiting", "training")


def loss(curves: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw training loss (y) against tokens (x), a line for each run, coloured by variant.

    Each depth has two panels: one with the whole training, one with the later half, whose
    differences the beginning would hide. `curves` has the rows of `training_curves`. None without
    losses.
    """
    breaks = _breaks(curves)
    curves = curves[curves["loss"].notna()]
    shown = present(styles, curves)
    panels = []
    for depth, part in curves.groupby("depth"):
        late = part[part["tokens"] >= 0.5 * part["tokens"].max()]
        newest = part.sort_values("tokens").groupby(["variant", "run_id"], as_index=False).last()
        losses = [f"{row.variant} comes to {row.loss:.3f}" for row in newest.itertuples()]
        means = newest[~newest["status"].isin(NOT_AT_THE_END)].groupby("variant")["loss"].mean()
        ends = [f"{variant} {means[variant]:.3f}" for variant in shown if variant in means]
        finding = ""
        if ends:
            finding = f"{depth_name(depth)}, at the end, mean over the runs: {listed(ends)}."
        for rows, which in ((part, ""), (late, ", later half")):
            title = f"{depth_name(depth)}{which}"
            description = f"Training loss at {depth_name(depth).lower()}{which}: {listed(losses)}."
            drawn = _lines(rows, shown)
            panels.append(panel(title, description, drawn, finding=finding, depth=depth))
    return figure(
        "training-loss",
        "Training loss",
        "Nats per token; one line for each run, faint for screened ones. A point is the mean over"
        f" a stretch of the training.{breaks}",
        panels,
        shown,
    )


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
        chosen = part[part["chosen"]]
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
        y = chart.y_axis("loss")
        data = chart.records(part, ["variant", "learning_rate", "loss"])
        base = alt.Chart(data, width=chart.WIDTH, height=chart.HEIGHT)
        base = base.encode(x=x, y=y, color=chart.colour(shown))
        tooltip = chart.tooltip(("learning_rate:Q", "~g"), ("loss:Q", ".3f"))
        lines = chart.line_and_markers(base, shown, tooltip)
        drawn = chart.layered(*lines, *chart.rings(chosen, x, y, shown))
        panels.append(panel(depth_name(depth), finding, drawn, finding=finding, depth=depth))
    caption = (
        "Bits per byte of documents held out for the search; beyond the lowest or highest rate may"
        " lie a better one."
    )
    return figure("tuning", "Loss by learning rate", caption, panels, shown, each_finding=True)


def _lines(rows: pd.DataFrame, styles: Mapping[str, Style]) -> chart.Specification:
    """Draw the loss against tokens, a line for each run.

    The token axis is logarithmic where the range asks for that.
    """
    # A run is a number here: its name on every point would be most of the page.
    rows = rows.assign(screened=rows["status"] == "screened", run=rows.groupby("run_id").ngroup())
    many = rows["run_id"].nunique() > chart.MANY_LINES
    x = chart.token_axis(rows["tokens"])
    first = float(rows["tokens"].min())
    last = float(rows["tokens"].max())
    if first < last <= 2.5 * first:  # the later half of a training
        x = x.scale(domain=[first, last], nice=False)
    data = chart.records(rows, ["variant", "run", "seed", "tokens", "loss", "screened"])
    base = alt.Chart(data, width=chart.WIDTH, height=chart.HEIGHT).encode(
        x=x,
        y=chart.y_axis("loss"),
        color=chart.colour(styles),
        strokeDash=chart.dash(styles),
        detail=alt.Detail("run:N"),
        strokeOpacity=alt.condition(
            "datum.screened", alt.value(0.3), alt.value(0.6 if many else 1)
        ),
    )
    return chart.layered(base.mark_line(strokeWidth=0.8 if many else 1.4))


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
