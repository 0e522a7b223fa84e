"""Choose settings by a search: the same grid of learning rates, weight decays, decays for each.

A row of a search is a training at one value of each setting:

    {"variant": "LA", "depth": 4, "learning_rate": 0.001, "weight_decay": 0.1, "decay": 0.2,
     "seed": 900, "tokens": 600000, "loss": 0.713, "chosen": False}

`decay` is the share of the tokens in which the rate falls, 0 where it stays. Rows of before there
was more than a rate have neither `weight_decay` nor `decay`.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

SETTINGS = {"learning_rate": "rate", "weight_decay": "weight decay", "decay": "decay"}
"""What can be searched, and in words."""
OTHERS = ("weight_decay", "decay")
MOST = {"decay": 1.0}  # beyond which a grid does not grow
MOST_GROWTHS = 8
"""How many values a grid may get beyond its edges: a loss may fall to the end of all numbers."""

Row = Mapping[str, Any]
Model = tuple[str, int]  # variant and depth
Values = dict[str, float]  # by setting
Grids = Mapping[str, Sequence[float]]  # by setting, in rising order
Chosen = tuple[float, ...]  # in the order of SETTINGS; 0 for one that a row does not have


def combinations(grids: Grids) -> list[Values]:
    """List every combination of the values of each setting."""
    products = itertools.product(*grids.values())
    return [dict(zip(grids, values, strict=True)) for values in products]


def in_words(values: Mapping[str, float]) -> str:
    """Say settings in words: `rate 0.001, weight decay 0.1`."""
    return ", ".join(f"{SETTINGS[name]} {value:g}" for name, value in values.items())


def settings_of(row: Row) -> Chosen:
    """Return the settings of a row, to compare rows by."""
    return tuple(row.get(name) or 0.0 for name in SETTINGS)


def mean_losses(rows: Sequence[Row]) -> dict[tuple[str, int, Chosen], float]:
    """Average the losses of a search over its seeds, by variant, depth and settings.

    Settings at which any training failed, and so has no loss, are left out.
    """
    losses: dict[tuple[str, int, Chosen], list[float | None]] = defaultdict(list)
    for row in rows:
        losses[row["variant"], row["depth"], settings_of(row)].append(row["loss"])
    return {key: fmean(of_seeds) for key, of_seeds in losses.items() if None not in of_seeds}


def best_settings(rows: Sequence[Row]) -> dict[Model, Chosen]:
    """Find for each variant and depth the settings of the lowest mean loss.

    Of settings with equal losses the lower ones.
    """
    highest_first = sorted(((loss, *key) for key, loss in mean_losses(rows).items()), reverse=True)
    # a later entry replaces an earlier one, so the lowest loss stays
    return {(variant, depth): settings for _, variant, depth, settings in highest_first}


def by_rate(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Keep of each model and rate the rows at the other settings of the lowest mean loss.

    Without the other settings. A rate at which nothing ended well keeps its first settings.
    """
    losses = mean_losses(rows)
    best: dict[tuple[str, int, float], tuple[float, Chosen]] = {}
    for row in rows:
        model_and_rate = (row["variant"], row["depth"], row["learning_rate"])
        settings = settings_of(row)
        loss = losses.get((row["variant"], row["depth"], settings), math.inf)
        if model_and_rate not in best or loss < best[model_and_rate][0]:
            best[model_and_rate] = (loss, settings)
    kept = []
    for row in rows:
        _, settings = best[row["variant"], row["depth"], row["learning_rate"]]
        if settings_of(row) == settings:
            kept.append({name: row[name] for name in row if name not in OTHERS})
    return kept


def grown(grids: Mapping[Model, Grids], rows: Sequence[Row]) -> dict[Model, Grids]:
    """Return each model's grids with a value more beyond each edge at which this model is best.

    A model's grids do not depend on the other models of a study, so neither does what is chosen. A
    new value lies as far beyond the edge, as a factor, as the edge's neighbour lies within:
    [1, 2, 8] grows by 0.5 or by 32.
    """
    best = best_settings(rows)
    larger = {}
    for model, of_model in grids.items():
        if model not in best:  # every training has failed
            larger[model] = of_model
            continue
        chosen = dict(zip(SETTINGS, best[model], strict=True))
        larger[model] = {
            name: _grown(grid, chosen[name], MOST.get(name)) for name, grid in of_model.items()
        }
    return larger


def _grown(grid: Sequence[float], chosen: float, most: float | None) -> list[float]:
    """Return a rising grid with what lies beyond its edge, where this was chosen."""
    lowest, highest = grid[0], grid[-1]
    beyond = []
    if chosen == lowest:
        beyond.append(lowest**2 / grid[1])
    if chosen == highest:
        above = highest**2 / grid[-2] if grid[-2] else 2 * highest
        beyond.append(above if most is None else min(above, most))
    rounded = {float(f"{value:.6g}") for value in beyond}
    return sorted({*grid, *rounded})
