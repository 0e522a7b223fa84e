"""Draw which experts serve which depths: the paper's Figures 5 and 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from dreamer_study.reports.figures import chart
from dreamer_study.reports.figures.rendering import Figure, figure, panel
from dreamer_study.reports.style.theme import RAMP, Style
from dreamer_study.reports.text.numbers import percent

STEP, TALLEST = 24, 260  # pixels of one row of a map, and of all rows
OVERLAP = 0.4  # of a column, under the next one: no seam shows between two cells


def selections(counts: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw P(depth | expert): how the selections of each expert (x) spread over the depths (y).

    A panel for each model. `counts` has the rows of `StudyData.selections`. None without selections
    of a model whose depths share experts.
    """
    panels = []
    for title, keys, used, order in _sharing_models(counts, styles):
        shares = (used / used.sum()).to_numpy()[:, order]  # [depth, expert]
        strongest = shares.max(axis=0)  # of each expert, the share of the depth that has the most
        extremes = (
            f"at its strongest depth the most specialised has {percent(strongest.max(), 0)} of"
            f" its selections, the most general {percent(strongest.min(), 0)}."
        )
        finding = f"{title}: of {len(order)} experts, {extremes}"
        description = f"Depths that select each of {len(order)} experts in {title}: {extremes}"
        drawn = heat_map(shares, list(used.index), "share of the expert’s selections")
        panels.append(panel(title, description, drawn, finding=finding, **keys))
    return figure(
        "expert-selections",
        "Depths of each expert",
        "Every column is an expert, and its colours how its selections spread over the depths:"
        " P(depth | expert), as in the paper’s Figure 5. Experts are sorted by the number of depths"
        " that have nine tenths of their selections, those with equal numbers by a depth drawn from"
        " their selections. Layers with experts of their own are not shown: each of these experts"
        " belongs to one depth.",
        panels,
        wide=True,
        each_finding=True,
    )


def experts_of_depths(counts: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw P(expert | depth): how the selections of each depth (y) spread over the experts (x).

    A panel for each model. Rows and order of the experts are those of `selections`. None without
    selections of a model whose depths share experts.
    """
    panels = []
    for title, keys, used, order in _sharing_models(counts, styles):
        totals = used.sum(axis=1).clip(lower=1)
        shares = used.div(totals, axis=0).to_numpy()[:, order]  # [depth, expert]
        depth = used.index[shares.max(axis=1).argmax()]
        most_uneven = (
            f"depth {depth} gives one expert {percent(shares.max())} of its selections, where even"
            f" use would be {percent(1 / len(order), 2)}."
        )
        finding = f"{title}: {most_uneven}"
        description = f"Experts that each depth of {title} selects: {most_uneven}"
        drawn = heat_map(shares, list(used.index), "share of the depth’s selections")
        panels.append(panel(title, description, drawn, finding=finding, **keys))
    return figure(
        "expert-of-depths",
        "Experts of each depth",
        "Every row is a depth, and its colours how its selections spread over the experts: P(expert"
        " | depth), as in the paper’s Figure 7. The experts are in the order of the figure above.",
        panels,
        wide=True,
        each_finding=True,
    )


def _sharing_models(
    counts: pd.DataFrame, styles: Mapping[str, Style]
) -> list[tuple[str, dict[str, Any], pd.DataFrame, np.ndarray]]:
    """Return title, keys, selections [depth, expert], and order of the experts, of each model.

    The selections are those of the experts in use.
    """
    models = []
    for title, rows, _, keys in chart.by_model(counts, styles):
        table = rows.pivot_table(
            index="depth", columns="expert", values="selections", fill_value=0, aggfunc="sum"
        )
        used = table.loc[:, table.sum() > 0]
        if len(used) > 1 and used.shape[1]:
            order = order_of_experts((used / used.sum()).to_numpy())
            models.append((title, keys, used, order))
    return models


def heat_map(values: np.ndarray, depths: Sequence[int], scale_title: str) -> chart.Specification:
    """Draw shares [depth, expert] as colours.

    The square root of a share sets its colour, so that small shares show.
    """
    rows, columns = values.shape
    places = np.indices(values.shape)
    cells = {
        "depth": np.array(depths)[places[0].ravel()],
        "expert": places[1].ravel() + 1,
        "share": values.ravel(),
    }
    ends = {"x": "(datum.expert - 1)", "x2": f"min({columns}, datum.expert + {OVERLAP})"}
    ticks = [depths[tick - 1] for tick in chart.depth_ticks(rows)]
    highest = float(values.max()) or 1.0
    stops = [highest * (place / (len(RAMP) - 1)) ** 2 for place in range(len(RAMP))]
    looks = {
        "titleOrient": "left",
        "titleLimit": 400,
        "orient": "top",
        "direction": "horizontal",
        "tickCount": 4,
    }
    colour = chart.ramp(
        "share", stops, "sqrt", title=scale_title, format=".2~p", gradientLength=180, **looks
    )
    drawn = alt.Chart(
        width=chart.PAGE_WIDTH, height=min(STEP * rows, max(TALLEST, 8 * rows))
    ).mark_rect()
    encoded = drawn.encode(
        x=chart.percent_axis(
            alt.X, "x", "share of the experts, from those of few depths to those of many"
        ),
        x2=alt.X2("x2:Q"),
        y=alt.Y(
            "depth:O",
            title="depth",
            axis=alt.Axis(values=ticks, domain=False),
            scale=alt.Scale(padding=0),
        ),
        color=colour,
        tooltip=chart.tooltip(
            ("depth:O",), ("expert:Q", "", "expert, in this order"), ("share:Q", ".2~p")
        ),
    )
    return chart.layered(
        encoded,
        data=chart.records(pd.DataFrame(cells).round(5), list(cells)),
        transform=[{"calculate": f"{end} / {columns}", "as": name} for name, end in ends.items()],
    )


def order_of_experts(shares: np.ndarray) -> np.ndarray:
    """Sort experts as the paper does, from the shares [depth, expert] of each expert's selections.

    First by the number of depths that have nine tenths of the selections, then by a depth drawn
    from the selections.
    """
    highest_first = -np.sort(-shares, axis=0)
    before = np.cumsum(highest_first, axis=0) - highest_first  # the share of the higher ones
    depths_needed = (before < 0.9).sum(axis=0)
    drawn = np.random.default_rng(0).random(shares.shape[1])
    drawn_depth = (np.cumsum(shares, axis=0) < drawn).sum(axis=0)
    return np.lexsort((drawn_depth, depths_needed))  # the last key is the first to sort by
