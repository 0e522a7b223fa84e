"""Compute mean factors, and their 95 % intervals from the spread between seeds and the sampling
error of the items.

The log of the mean factor is the mean of log(tokens of the baseline / tokens of the variant) over
the scores that both curves cover, at equal score: the area between the curves over the height of
the range. A curve is made monotone by its best so far and is linear in log tokens between
checkpoints, so the area is exact. Its bound is the mean over all that the baseline's curve covers,
as if the variant had reached with its last token what it never reached.

Both are nearly linear in the checkpoints and their errors add up: the spread of the seeds of each
model by leaving one seed out, and the choice of the items by bootstrap, with the seeds held fixed.
docs/statistics.md has the reasons and an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dreamer_study.sql.statistics.bootstrap import Checkpoint, Model
from dreamer_study.sql.statistics.errors import SIGNIFICANCE, jackknife, together

# of the range that both curves cover; in the middle of each is a target of view factor_by_target
PARTS = 25
FACTOR, BOUND, TARGETS = 0, 1, slice(2, None)  # the columns of `log_factors`
# of the baseline's range: where a variant covers less, its bound says more than its factor
MUCH = 0.9
TIE = 4e-15  # as in macros/reaches.sql: sums in another order are still ties


@dataclass(frozen=True)
class SeedCurves:
    """A model's curves, more is better: ascending log tokens [C] and scores of the seeds [N, C].

    `drawn` [1 + R, C] is the mean over the seeds with the items as they are and drawn anew; None
    where scores of items are missing.
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
        """Return the mean curve moved as the means over items move when these are drawn anew [R,
        C]."""
        return self.mean + self.drawn[1:] - self.drawn[0]


@dataclass(frozen=True)
class MeanFactor:
    """A mean factor with its 95 % interval, the scores that both curves cover, and the errors of
    the log factor.

    `covered` is the share of the baseline's range that both curves cover, `missed_low` to
    `missed_high` are the scores of the baseline that the variant never reached, `bound` is an upper
    bound on the factor over the whole range.
    `target_halves` is half the width of the interval of the log factor at each target, from the
    lowest score.
    `bounded`: so little is covered that the bound is the headline, not the factor. `p` tests the
    headline against 1;
    `detectable` is the smallest factor above 1 that four of five studies with such errors tell from
    1. None: unknown, or the curves have no score in common.
    """

    factor: float | None = None
    low: float | None = None
    high: float | None = None
    range_low: float | None = None
    range_high: float | None = None
    degrees_of_freedom: float | None = None
    seed_error: float | None = None
    item_error: float | None = None
    covered: float | None = None
    missed_low: float | None = None
    missed_high: float | None = None
    bound: float | None = None
    bound_low: float | None = None
    bound_high: float | None = None
    target_halves: list[float] | None = None
    bounded: bool = False
    p: float | None = None
    detectable: float | None = None


def seed_curves(
    points: Mapping[int, Mapping[Checkpoint, float]],
    drawn: Mapping[Checkpoint, np.ndarray],
    *,
    lower_is_better: bool,
) -> SeedCurves:
    """Gather the curves of a model's seeds from the points of `read_points`, and the draws of the
    items at each."""
    direction = -1 if lower_is_better else 1
    scores = direction * np.array([list(seeds.values()) for seeds in points.values()]).T
    means = None
    if all(checkpoint in drawn for seeds in points.values() for checkpoint in seeds):
        at_points = [
            np.mean([drawn[checkpoint] for checkpoint in seeds], axis=0)
            for seeds in points.values()
        ]
        means = direction * np.stack(at_points, axis=1)
    return SeedCurves(np.log(list(points)), scores, means)


def factor_rows(
    metric: str,
    curves: Mapping[Model, SeedCurves],
    digests: Mapping[Model, str],
    significance: float = SIGNIFICANCE,
) -> Iterator[dict[str, Any]]:
    """Compute rows of table computed_factors: one for every two models of a depth and task, and
    each with itself."""
    for (depth, variant, task), own in curves.items():
        for (other_depth, against, other_task), baseline in curves.items():
            if (other_depth, other_task) != (depth, task):
                continue
            found = asdict(mean_factor_interval(baseline, own, significance))
            for low, high in (
                (("range_low", "range_high"), ("missed_low", "missed_high"))
                if metric == "loss"
                else ()
            ):
                if found[low] is not None:  # the score is minus the loss
                    found[low], found[high] = -found[high], -found[low]
            yield {
                **{
                    "depth": depth,
                    "variant": variant,
                    "baseline": against,
                    "task": task,
                    "metric": metric,
                },
                **found,
                **{"seeds": len(own.scores), "baseline_seeds": len(baseline.scores)},
                "replicates": (
                    0 if own.drawn is None or baseline.drawn is None else len(own.drawn) - 1
                ),
                "digest": digests[depth, variant, task] + digests[depth, against, task],
            }


def mean_factor_interval(
    baseline: SeedCurves, variant: SeedCurves, significance: float = SIGNIFICANCE
) -> MeanFactor:
    """Compute a variant's mean factor and its bound; without intervals where a model has one
    seed."""
    low, best = (float(end[0]) for end in whole_range(baseline.mean, variant.mean))
    if variant is baseline:
        one = dict.fromkeys(
            ("factor", "low", "high", "covered", "bound", "bound_low", "bound_high"), 1.0
        )
        return MeanFactor(**one, range_low=_known(low), range_high=_known(best))
    if np.isnan(best):
        return MeanFactor()
    reached = min(max(low, float(variant.mean.max())), best)
    missed = reached < best - TIE * abs(best)
    values = log_factors(baseline, variant, baseline.mean, variant.mean)[0]
    of_items = np.full_like(values, np.nan)
    if baseline.drawn is not None and variant.drawn is not None:
        of_items = _spread(
            log_factors(baseline, variant, baseline.with_other_items, variant.with_other_items)
        )
    seeds, parts = (
        [len(curves.scores) for curves in (baseline, variant)],
        [np.full_like(values, np.nan)] * 2,
    )
    if min(seeds) > 1:
        parts = [
            jackknife(log_factors(baseline, variant, baseline.without_one_seed, variant.mean)),
            jackknife(log_factors(baseline, variant, baseline.mean, variant.without_one_seed)),
        ]
    errors = together(parts, seeds, np.nan_to_num(of_items) ** 2, significance)
    ends, halves = (
        np.exp([values - errors.half(), values, values + errors.half()]),
        errors.half()[TARGETS],
    )
    covered = (reached - low) / (best - low)
    said = BOUND if covered < MUCH else FACTOR
    # a bound above 1 decides nothing
    p = errors.p(np.minimum(values, 0) if said == BOUND else values)[said]
    has_range = bool(np.isfinite(values[FACTOR]))
    return MeanFactor(
        **{
            name: _known(end)
            for name, end in zip(("low", "factor", "high"), ends[:, FACTOR], strict=True)
        },
        range_low=low if has_range else None,
        range_high=reached if has_range else None,
        degrees_of_freedom=_known(errors.freedom[FACTOR]),
        seed_error=_known(np.sqrt(sum(parts)[FACTOR])),
        item_error=_known(of_items[FACTOR]),
        covered=covered,
        missed_low=reached if missed else None,
        missed_high=best if missed else None,
        **{
            name: _known(end)
            for name, end in zip(("bound_low", "bound", "bound_high"), ends[:, BOUND], strict=True)
        },
        target_halves=halves.tolist() if np.isfinite(halves).all() else None,
        bounded=said == BOUND,
        p=_known(p),
        detectable=_known(np.exp(errors.detectable[said])),
    )


def whole_range(
    baseline_scores: np.ndarray, variant_scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the baseline's curves [R, C] cover from where both start: from [R], to [R]; NaN
    where nothing."""
    return _ends(
        np.maximum(baseline_scores[:, 0], variant_scores[:, 0]), baseline_scores.max(axis=1)
    )


def log_factors(
    baseline: SeedCurves,
    variant: SeedCurves,
    baseline_scores: np.ndarray,
    variant_scores: np.ndarray,
) -> np.ndarray:
    """Compute log(tokens of the baseline / tokens of the variant) at equal score: mean, bound and
    targets [R, 2 + T].

    The mean is over the scores that both curves [R, C] cover, NaN where there are none, the bound
    over all that the baseline's cover. Targets move with the range that both cover, so that every
    resampled pair of curves has them. Either curve may have one row for all of the other's.
    """
    own, other = (
        np.maximum.accumulate(scores, axis=1) for scores in (variant_scores, baseline_scores)
    )
    start, best = whole_range(other, own)
    # A score that the variant never reached counts as if reached with its last token: there its
    # curve goes straight up.
    budget = np.append(variant.log_tokens, variant.log_tokens[-1])
    raised = np.pad(own, ((0, 0), (0, 1)), constant_values=np.inf)
    shared, means = _ends(start, np.minimum(best, own[:, -1])), []
    for low, high in (shared, (start, best)):
        ends = low[:, None], high[:, None]
        means.append(
            (_area(baseline.log_tokens, other, *ends) - _area(budget, raised, *ends)) / (high - low)
        )
    low, high = (end[:, None] for end in shared)
    targets = low + (high - low) * (np.arange(PARTS) + 0.5) / PARTS
    by_target = _crossings(baseline.log_tokens, other, targets) - _crossings(
        budget, raised, targets
    )
    return np.column_stack([*means, by_target])


def _ends(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of ranges [R], NaN where these are empty, rounding aside."""
    empty = ~(low < high - TIE * np.abs(high))
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def _area(
    log_tokens: np.ndarray, curve: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Integrate the log tokens of monotone curves [R, C] over scores from low to high [R, 1]:
    [R]."""
    start, end = curve[:, :-1], curve[:, 1:]
    below, above = np.clip(start, low, high), np.clip(end, low, high)
    rise = np.where(end > start, end - start, 1)  # a segment that does not rise adds nothing
    middle = log_tokens[:-1] + np.diff(log_tokens) * ((below + above) / 2 - start) / rise
    return ((above - below) * middle).sum(axis=1)


def _crossings(log_tokens: np.ndarray, curve: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Find the log tokens at which monotone curves [R, C] rise to targets [R, T], which they reach:
    [R, T]."""
    curve = np.broadcast_to(curve, (len(targets), curve.shape[1]))
    after = sum(scores[:, None] < targets for scores in curve.T).clip(1, curve.shape[1] - 1)
    low, high = (np.take_along_axis(curve, place, axis=1) for place in (after - 1, after))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(high > low, (targets - low) / (high - low), 0)
    return log_tokens[after - 1] + share * (log_tokens[after] - log_tokens[after - 1])


def _spread(drawn: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each statistic [T] over the replicates [R, T] in which it is
    known."""
    known = (one[np.isfinite(one)] for one in drawn.T)
    return np.array([one.std(ddof=1) if len(one) > 1 else np.nan for one in known])


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
