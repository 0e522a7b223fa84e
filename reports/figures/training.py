"""Draw how training went: its loss, and the perplexity of validation texts."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from reports.figures import chart
from reports.figures.rendering import Figure, figure, panel
from reports.style.theme import Style, present
from reports.text.names import depth_name, task_name
from reports.text.numbers import listed

LOSS_POINTS = 160  # points drawn of each loss curve


def loss(steps: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw training loss (y) against tokens (x), a line for each run, coloured by variant; a panel for each depth.

    `steps` has the rows of the table `steps`. None without losses.
    """
    steps = steps[steps["loss"].notna() & (steps["tokens"] > 0)]
    shown, panels = present(styles, steps), []
    for depth, part in steps.groupby("depth"):
        rows = _thinned(part)
        newest = rows.sort_values("tokens").groupby(["variant", "run_id"], as_index=False).last()
        words = [f"{row.variant} ends at {row.loss:.3f}" for row in newest.itertuples()]
        data = chart.records(rows, ["variant", "run_id", "tokens", "loss", "screened"])
        base = alt.Chart(data, width=chart.WIDE, height=240)
        lines = base.mark_line(strokeWidth=1.6).encode(
            x=chart.token_axis(rows["tokens"]),
            y=alt.Y("loss:Q", title="training loss (nats per token)", scale=alt.Scale(zero=False, nice=True)),
            color=chart.colour(styles),
            strokeDash=chart.dash(styles),
            detail="run_id:N",
            opacity=alt.condition("datum.screened", alt.value(0.4), alt.value(1)),
        )
        description = f"Training loss at {depth_name(depth).lower()}: {listed(words)}."
        panels.append(panel(depth_name(depth), description, lines, depth=depth))
    return figure(
        "training-loss",
        "Training loss",
        f"One line for each run, faint for screened ones. Up to {LOSS_POINTS} points a line, each the mean loss over "
        "its stretch of the axis.",
        panels,
        shown,
        wide=True,
    )


def _thinned(steps: pd.DataFrame) -> pd.DataFrame:
    """Average the loss of each run within at most `LOSS_POINTS` equal stretches of the logarithmic token axis."""
    place = np.log(steps["tokens"].astype(float))
    place = (place - place.min()) / max(place.max() - place.min(), 1e-9)
    stretch = np.minimum((place * LOSS_POINTS).astype(int), LOSS_POINTS - 1)
    groups = steps.assign(stretch=stretch, screened=steps["status"] == "screened").groupby(
        ["variant", "run_id", "screened", "stretch"], as_index=False
    )
    return groups.agg(tokens=("tokens", "mean"), loss=("loss", "mean"))


def perplexity(rows: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw validation perplexity (y) against training tokens (x), a line for each run, coloured by variant.

    A panel for each text and depth. `rows` are those of `token_perplexity`. None without perplexities.
    """
    rows = rows[rows["perplexity"].notna()]
    shown, panels = present(styles, rows), []
    for (depth, task), part in rows.groupby(["depth", "task"]):
        best = part.groupby("variant")["perplexity"].min()
        words = [f"{variant} at best {best[variant]:.2f}" for variant in shown if variant in best]
        title = f"{task_name(task)}, {depth_name(depth).lower()}"
        description = f"Perplexity on {title}: {listed(words)}."
        panels.append(panel(title, description, chart.run_curves(part, styles, "perplexity"), depth=depth))
    metrics = sorted(set(rows["metric"].str.replace("_", " ")))
    caption = f"Lower is better. Measured as {listed(metrics)}; a line for each run."
    return figure("perplexity", "Validation perplexity", caption, panels, shown)
