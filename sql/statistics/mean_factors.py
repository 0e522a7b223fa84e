"""Compute 95 % intervals of the mean factors from the spread between seeds and the sampling error of the items.

The mean factor (views/factors/mean_factors_against.sql) is the area between two monotone curves, so its logarithm is
nearly linear in the checkpoints and its errors add up: the spread of the seeds of each model by leaving one seed out,
and the choice of the items by bootstrap, with the seeds held fixed. The interval is Welch's: the t quantile of the
degrees of freedom that the errors have together. docs/statistics.md has the reasons and an example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit  # scipy.stats takes a second to be imported

from sql.names import BASELINE
from sql.statistics.bootstrap import Checkpoint, Model
from sql.statistics.factor_intervals import reaches

CONFIDENCE = 0.95


@dataclass(frozen=True)
class SeedCurves:
    """A model's curves, more is better: ascending log tokens [C] and scores of the seeds [N, C].

    `drawn` [1 + R, C] is the mean over the seeds with the items as they are and drawn anew; None where scores of items
    are missing.
    """

    log_tokens: np.ndarray
    scores: np.ndarray
    drawn: np.ndarray | None

    @property
    def mean(self) -> np.ndarray:
        """Return the mean curve [1, C]."""
        return self.scores.mean(axis=0, keepdims=True)

    @property
    def without_one_seed(self) -> np.ndarray:
        """Return the mean curves that leave one seed out [N, C]."""
        return (self.scores.sum(axis=0) - self.scores) / (len(self.scores) - 1)

    @property
    def with_other_items(self) -> np.ndarray:
        """Return the mean curve moved as the means over items move when these are drawn anew [R, C]."""
        return self.mean + self.drawn[1:] - self.drawn[0]


@dataclass(frozen=True)
class Interval:
    """A 95 % interval of a mean factor with its errors, those of the log factor. None: unknown."""

    low: float | None = None
    high: float | None = None
    degrees_of_freedom: float | None = None
    seed_error: float | None = None
    item_error: float | None = None


def seed_curves(
    points: Mapping[int, Mapping[Checkpoint, float]], drawn: Mapping[Checkpoint, np.ndarray], *, lower_is_better: bool
) -> SeedCurves:
    """Gather the curves of a model's seeds from their checkpoints, and the draws of the items at each."""
    direction = -1 if lower_is_better else 1
    runs = [run for run, _ in next(iter(points.values()))]
    scores = np.array([[values[run] for values in map(_by_run, points.values())] for run in runs])
    complete = all(checkpoint in drawn for seeds in points.values() for checkpoint in seeds)
    means = (
        np.stack([np.mean([drawn[checkpoint] for checkpoint in seeds], axis=0) for seeds in points.values()], axis=1)
        if complete
        else None
    )
    return SeedCurves(np.log(list(points)), direction * scores, None if means is None else direction * means)


def _by_run(values: Mapping[Checkpoint, float]) -> dict[str, float]:
    return {run: value for (run, _), value in values.items()}


def interval_rows(metric: str, curves: Mapping[Model, SeedCurves]) -> list[dict[str, Any]]:
    """Compute rows of table mean_factor_intervals: one for each model with a baseline of its depth and task."""
    rows = []
    for (depth, variant, task), own in curves.items():
        baseline = curves.get((depth, BASELINE, task))
        if baseline is None:
            continue
        found = Interval(1.0, 1.0) if own is baseline else mean_factor_interval(baseline, own)
        rows.append(
            {
                **{"depth": depth, "variant": variant, "task": task, "metric": metric},
                **vars(found),
                "seeds": min(len(baseline.scores), len(own.scores)),
                "replicates": 0 if own.drawn is None or baseline.drawn is None else len(own.drawn) - 1,
            }
        )
    return rows


def mean_factor_interval(baseline: SeedCurves, variant: SeedCurves) -> Interval:
    """Compute the interval of a variant's mean factor; without ends where a model has one seed, or without a range."""
    log_factor = mean_log_factor(baseline, variant, baseline.mean, variant.mean)[0]
    item_error = None
    if baseline.drawn is not None and variant.drawn is not None:
        drawn = mean_log_factor(baseline, variant, baseline.with_other_items, variant.with_other_items)
        item_error = float(drawn[np.isfinite(drawn)].std(ddof=1)) if np.isfinite(drawn).sum() > 1 else None
    if min(len(baseline.scores), len(variant.scores)) < 2:
        return Interval(item_error=item_error)
    parts = [
        _jackknife(mean_log_factor(baseline, variant, baseline.without_one_seed, variant.mean)),
        _jackknife(mean_log_factor(baseline, variant, baseline.mean, variant.without_one_seed)),
    ]
    of_seeds = sum(parts)
    if not np.isfinite(log_factor + of_seeds):
        return Interval(item_error=item_error)
    variance = of_seeds + (item_error or 0) ** 2
    # Welch and Satterthwaite: hundreds of items leave their part as good as known.
    spent = sum(part**2 / (len(curve.scores) - 1) for part, curve in zip(parts, (baseline, variant), strict=True))
    freedom = variance**2 / spent if spent > 0 else np.inf
    half = stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.sqrt(variance)
    low, high = np.exp([log_factor - half, log_factor + half])
    return Interval(float(low), float(high), float(freedom), float(np.sqrt(of_seeds)), item_error)


def mean_log_factor(
    baseline: SeedCurves, variant: SeedCurves, baseline_scores: np.ndarray, variant_scores: np.ndarray
) -> np.ndarray:
    """Average log(tokens of the baseline / tokens of the variant) over the scores that both curves [R, C] cover: [R].

    Either may have one row for all of the other's. NaN without a common range. Computed as in mean_factors_against.sql.
    """
    curves = [np.maximum.accumulate(scores, axis=1) for scores in (baseline_scores, variant_scores)]
    low = np.maximum(*(curve[:, 0] for curve in curves))
    high = np.minimum(*(curve[:, -1] for curve in curves))
    areas = [
        _area(model.log_tokens, curve, low[:, None], high[:, None])
        for model, curve in zip((baseline, variant), curves, strict=True)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(~reaches(low, high), (areas[0] - areas[1]) / (high - low), np.nan)


def _area(log_tokens: np.ndarray, curve: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Integrate the log tokens of monotone curves [R, C] over scores from low to high [R, 1]: [R]."""
    start, end = curve[:, :-1], curve[:, 1:]
    below, above = np.clip(start, low, high), np.clip(end, low, high)
    rise = np.where(end > start, end - start, 1)  # a segment that does not rise adds nothing
    middle = log_tokens[:-1] + np.diff(log_tokens) * ((below + above) / 2 - start) / rise
    return ((above - below) * middle).sum(axis=1)


def _jackknife(without_one: np.ndarray) -> float:
    """Estimate the variance of a statistic from its values without one seed each [N]."""
    seeds = len(without_one)
    return float((seeds - 1) / seeds * ((without_one - without_one.mean()) ** 2).sum())
