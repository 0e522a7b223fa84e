"""Draw which experts serve which depths: the paper's Figures 5 and 7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from reports.figures import chart
from reports.figures.heat_map import heat_map
from reports.figures.rendering import Figure, figure, panel
from reports.style.theme import Style
from reports.text.numbers import percent
from sql.names import BASELINE


def selections(counts: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw P(depth | expert): how the selections of each expert (x) spread over the depths (y), a panel for each model.

    `counts` has the rows of `StudyData.selections`. None without selections of a recurrent model.
    """
    panels, findings = [], []
    for title, keys, used, order in _recurrent_models(counts, runs, styles):
        shares = (used / used.sum()).to_numpy()[:, order]
        words = (
            f"at its strongest depth the most specialised has {percent(shares[:, 0].max(), 0)} of its selections, the "
            f"most general {percent(shares[:, -1].max(), 0)}."
        )
        findings.append(f"{title}: of {len(order)} experts, {words}")
        description = f"Depths that select each of {len(order)} experts in {title}: {words}"
        panels.append(
            panel(title, description, heat_map(shares, list(used.index), "share of the expert’s selections"), **keys)
        )
    return figure(
        "expert-selections",
        "Depths of each expert",
        "Every column is an expert, and its colours how its selections spread over the depths: P(depth | expert), as "
        "in the paper’s Figure 5. Experts are sorted by the number of depths that have nine tenths of their "
        "selections, those with equal numbers by a depth drawn from their selections. "
        f"{BASELINE} is not shown: each of its experts belongs to one depth.",
        panels,
        wide=True,
        finding=" ".join(findings),
    )


def experts_of_depths(counts: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]) -> Figure | None:
    """Draw P(expert | depth): how the selections of each depth (y) spread over the experts (x), a panel for each model.

    Rows and order of the experts are those of `selections`. None without selections of a recurrent model.
    """
    panels, findings = [], []
    for title, keys, used, order in _recurrent_models(counts, runs, styles):
        totals = used.sum(axis=1).clip(lower=1)
        shares = used.div(totals, axis=0).to_numpy()[:, order]
        depth = used.index[shares.max(axis=1).argmax()]
        words = (
            f"depth {depth} gives one expert {percent(shares.max())} of its selections, where even use would be "
            f"{percent(1 / len(order), 2)}."
        )
        findings.append(f"{title}: {words}")
        description = f"Experts that each depth of {title} selects: {words}"
        panels.append(
            panel(title, description, heat_map(shares, list(used.index), "share of the depth’s selections"), **keys)
        )
    return figure(
        "expert-of-depths",
        "Experts of each depth",
        "Every row is a depth, and its colours how its selections spread over the experts: P(expert | depth), as in "
        "the paper’s Figure 7. The experts are in the order of the figure above.",
        panels,
        wide=True,
        finding=" ".join(findings),
    )


def _recurrent_models(
    counts: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style]
) -> list[tuple[str, dict[str, Any], pd.DataFrame, np.ndarray]]:
    """Return title, keys, selections [depth, expert] of the experts in use, and their order, of each model."""
    found = []
    for title, rows, style in chart.one_run_each(counts, runs, styles):
        table = rows.pivot_table(index="depth", columns="expert", values="selections", fill_value=0, aggfunc="sum")
        used = table.loc[:, table.sum() > 0]
        if style.variant != BASELINE and len(used) > 1 and used.shape[1]:
            found.append((title, chart.run_keys(rows, runs), used, order_of_experts((used / used.sum()).to_numpy())))
    return found


def order_of_experts(shares: np.ndarray) -> np.ndarray:
    """Sort experts as the paper does, from the shares [depth, expert] of each expert's selections.

    First by the number of depths that have nine tenths of the selections, then by a depth drawn from the selections.
    """
    highest_first = -np.sort(-shares, axis=0)
    before = np.cumsum(highest_first, axis=0) - highest_first
    drawn = np.random.default_rng(0).random(shares.shape[1])
    sampled = (np.cumsum(shares, axis=0) < drawn).sum(axis=0)
    return np.lexsort((sampled, (before < 0.9).sum(axis=0)))
