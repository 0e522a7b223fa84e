"""Compute mean factors, and their 95 % intervals from the spread between seeds and the sampling error of the items.

The log of the mean factor is the mean of log(tokens of the baseline / tokens of the variant) over the scores that both
curves cover, at equal score: the area between the curves over the height of the range. A curve is made monotone by its
best so far and is linear in log tokens between checkpoints, so the area is exact.

The log factor is nearly linear in the checkpoints and its errors add up: the spread of the seeds of each model by
leaving one seed out, and the choice of the items by bootstrap, with the seeds held fixed. The interval is Welch's: the
t quantile of the degrees of freedom that the errors have together. docs/statistics.md has the reasons and an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit  # scipy.stats takes a second to be imported

from sql.statistics.bootstrap import Checkpoint, Model

CONFIDENCE = 0.95
TIE = 4e-15  # as in macros/reaches.sql: sums in another order are still ties


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
class MeanFactor:
    """A mean factor with its 95 % interval, the scores that both curves cover, and the errors of the log factor.

    None: unknown, or without a common range.
    """

    factor: float | None = None
    low: float | None = None
    high: float | None = None
    range_low: float | None = None
    range_high: float | None = None
    degrees_of_freedom: float | None = None
    seed_error: float | None = None
    item_error: float | None = None


def seed_curves(
    points: Mapping[int, Mapping[Checkpoint, float]], drawn: Mapping[Checkpoint, np.ndarray], *, lower_is_better: bool
) -> SeedCurves:
    """Gather the curves of a model's seeds from the points of `read_points`, and the draws of the items at each."""
    direction = -1 if lower_is_better else 1
    scores = direction * np.array([list(seeds.values()) for seeds in points.values()]).T
    means = None
    if all(checkpoint in drawn for seeds in points.values() for checkpoint in seeds):
        at_points = [np.mean([drawn[checkpoint] for checkpoint in seeds], axis=0) for seeds in points.values()]
        means = direction * np.stack(at_points, axis=1)
    return SeedCurves(np.log(list(points)), scores, means)


def factor_rows(
    metric: str, curves: Mapping[Model, SeedCurves], digests: Mapping[Model, str]
) -> Iterator[dict[str, Any]]:
    """Compute rows of table computed_factors: one for every two models of a depth and task, and each with itself."""
    for (depth, variant, task), own in curves.items():
        for (other_depth, against, other_task), baseline in curves.items():
            if (other_depth, other_task) != (depth, task):
                continue
            found = asdict(mean_factor_interval(baseline, own))
            if metric == "loss" and found["range_low"] is not None:  # the score is minus the loss
                found["range_low"], found["range_high"] = -found["range_high"], -found["range_low"]
            yield {
                **{"depth": depth, "variant": variant, "baseline": against, "task": task, "metric": metric},
                **found,
                **{"seeds": len(own.scores), "baseline_seeds": len(baseline.scores)},
                "replicates": 0 if own.drawn is None or baseline.drawn is None else len(own.drawn) - 1,
                "digest": digests[depth, variant, task] + digests[depth, against, task],
            }


def mean_factor_interval(baseline: SeedCurves, variant: SeedCurves) -> MeanFactor:
    """Compute a variant's mean factor; without interval where a model has one seed, and empty without a range."""
    low, high = (float(end[0]) for end in common_range(baseline.mean, variant.mean))
    if variant is baseline:
        covered = (low, high) if high > low else (None, None)
        return MeanFactor(1.0, 1.0, 1.0, *covered)
    log_factor = mean_log_factor(baseline, variant, baseline.mean, variant.mean)[0]
    if not np.isfinite(log_factor):
        return MeanFactor()
    item_error = None
    if baseline.drawn is not None and variant.drawn is not None:
        drawn = mean_log_factor(baseline, variant, baseline.with_other_items, variant.with_other_items)
        item_error = float(drawn[np.isfinite(drawn)].std(ddof=1)) if np.isfinite(drawn).sum() > 1 else None
    found = MeanFactor(float(np.exp(log_factor)), None, None, low, high, item_error=item_error)
    if min(len(baseline.scores), len(variant.scores)) < 2:
        return found
    parts = [
        _jackknife(mean_log_factor(baseline, variant, baseline.without_one_seed, variant.mean)),
        _jackknife(mean_log_factor(baseline, variant, baseline.mean, variant.without_one_seed)),
    ]
    of_seeds = sum(parts)
    if not np.isfinite(of_seeds):
        return found
    variance = of_seeds + (item_error or 0) ** 2
    # Welch and Satterthwaite: hundreds of items leave their part as good as known.
    spent = sum(part**2 / (len(curve.scores) - 1) for part, curve in zip(parts, (baseline, variant), strict=True))
    freedom = variance**2 / spent if spent > 0 else np.inf
    half = stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.sqrt(variance)
    ends = np.exp([log_factor - half, log_factor + half])
    return replace(
        found,
        low=float(ends[0]),
        high=float(ends[1]),
        degrees_of_freedom=float(freedom),
        seed_error=float(np.sqrt(of_seeds)),
    )


def common_range(baseline_scores: np.ndarray, variant_scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores that both curves [R, C] cover, rounding aside: from [R], to [R]; NaN where there are none."""
    both = (baseline_scores, variant_scores)
    low = np.maximum(*(scores[:, 0] for scores in both))
    high = np.minimum(*(scores.max(axis=1) for scores in both))
    empty = low >= high - TIE * np.abs(high)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def mean_log_factor(
    baseline: SeedCurves, variant: SeedCurves, baseline_scores: np.ndarray, variant_scores: np.ndarray
) -> np.ndarray:
    """Average log(tokens of the baseline / tokens of the variant) over the scores that both curves [R, C] cover: [R].

    Either may have one row for all of the other's. NaN without a common range.
    """
    low, high = (end[:, None] for end in common_range(baseline_scores, variant_scores))
    areas = [
        _area(model.log_tokens, np.maximum.accumulate(scores, axis=1), low, high)
        for model, scores in ((baseline, baseline_scores), (variant, variant_scores))
    ]
    return (areas[0] - areas[1]) / (high - low)[:, 0]


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
