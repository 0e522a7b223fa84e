"""Choose learning rate, weight decay and decay of each model by a search, by one rule for all.

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
MOST = {"decay": 1.0}  # beyond which nothing is tried
MOST_ROUNDS = 4
"""How often a search continues beside its best: a loss may fall to the end of all numbers."""

Row = Mapping[str, Any]
Model = tuple[str, int]  # variant and depth
Values = dict[str, float]  # by setting
Trials = list[Values]
Grids = Mapping[str, Sequence[float]]  # by setting, in rising order
Chosen = tuple[float, ...]  # in the order of SETTINGS; 0 for one that a row does not have


def combinations(grids: Grids) -> Trials:
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


def untried(trials: Mapping[Model, Sequence[Values]], rows: Sequence[Row]) -> dict[Model, Trials]:
    """Return what each model has yet to try around the best of what it has tried, given its rows.

    These are the neighbours of the best settings: the same but for one setting, which has the next
    lower or the next higher value. Beyond the values tried, the next one is as far, as a factor, as
    the one within: beyond 1, 2, 8 lie 0.5 and 32. A search that has nothing left to try ends where
    a step of any one setting is worse. What a model tries does not depend on the other models of a
    study, so neither does what is chosen.
    """
    best = best_settings(rows)
    return {
        model: _untried_neighbours(tried, dict(zip(SETTINGS, best[model], strict=True)))
        for model, tried in trials.items()
        if model in best  # else every training has failed, and nothing says where to look
    }


def _untried_neighbours(tried: Sequence[Values], best: Values) -> Trials:
    """Return the settings beside the best ones, of a model, that it has not tried."""
    names = tried[0]
    searched = {name: best[name] for name in names}
    neighbours = [
        {**searched, name: value}
        for name in names
        for value in _beside(sorted({values[name] for values in tried}), best[name], MOST.get(name))
    ]
    return [values for values in neighbours if values not in tried]


def _beside(values: Sequence[float], chosen: float, most: float | None) -> list[float]:
    """Return the values next to one of some rising values, or what lies beyond their ends."""
    place = values.index(chosen)
    is_lowest = place == 0
    is_highest = place == len(values) - 1
    below = _below(values) if is_lowest else values[place - 1]
    above = _above(values, most) if is_highest else values[place + 1]
    return [value for value in (below, above) if value != chosen]


def _below(values: Sequence[float]) -> float:
    lowest, second = values[:2]
    return _rounded(lowest**2 / second)


def _above(values: Sequence[float], most: float | None) -> float:
    second, highest = values[-2:]
    factor = highest / second if second else 2.0
    above = _rounded(highest * factor)
    return above if most is None else min(above, most)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
