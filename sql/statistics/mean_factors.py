"""Compute mean factors and their 95 % intervals.

For a score s let t(s) be the tokens at which a curve first has that score. Over the scores from
`low` to `high` that both curves cover, the mean factor is

                         1      high
    log factor  =  ------------ integral [log t_baseline(s) - log t_variant(s)] ds
                    high - low    low

which is the area between the curves over the height of the range. A curve is made monotone by its
best so far and is linear in log tokens between checkpoints, so the area is exact. The bound is the
same mean over all that the baseline's curve covers, as if the variant had reached with its last
token what the variant never reached.

An interval is over seeds and items. Both statistics are nearly linear in the checkpoints, so their
errors add up: the spread of the seeds of each model by leaving one seed out (jackknife), and the
choice of the items by bootstrap, with the seeds held fixed. docs/statistics.md has the reasons and
an example.

Letters of shapes: N seeds, C checkpoints, R replicates of the items (or rows that replace them),
T targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dreamer_study.sql.statistics.bootstrap import Checkpoint, Model, Points
from dreamer_study.sql.statistics.errors import SIGNIFICANCE, Errors, jackknife, together

# Targets: the middles of so many equal parts of the range that both curves cover. The view
# factor_by_target has the same number, as 25 and 26: change both.
PARTS = 25
FACTOR, BOUND, TARGETS = 0, 1, slice(2, None)  # the columns of `log_factors`
# Share of the baseline's range: a variant that covers less has its bound as the headline, in place
# of its factor. A convention, not a measurement (docs/statistics.md).
MUCH = 0.9
# Relative to a score, as in internal/macros/reaches.sql: sums over seeds or tasks in another order
# differ by so much and are still ties. Far less than one item.
TIE = 4e-15


@dataclass(frozen=True)
class SeedCurves:
    """A model's curves, more is better: ascending log tokens [C] and scores of the seeds [N, C].

    `drawn` [1 + R, C] is the mean over the seeds: in row 0 with the items as they are, in rows 1 to
    R with items drawn anew. Row r of every model has the same draw, which pairs the models. None
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
        """Return the mean curves that leave one seed out [N, C]; of two seeds or more."""
        return (self.scores.sum(axis=0) - self.scores) / (len(self.scores) - 1)

    @property
    def with_other_items(self) -> np.ndarray:
        """Return the mean curve as it would be with the items of each replicate [R, C].

        Only the movement of the means over items counts: a mean over items need not be the score,
        as that of `validation` is total bits over total bytes.
        """
        return self.mean + self.drawn[1:] - self.drawn[0]


@dataclass(frozen=True)
class MeanFactor:
    """A mean factor with its 95 % interval, what both curves cover, and the errors.

    `range_low` to `range_high` are the scores that both curves cover, `covered` is their share of
    the baseline's range, and `missed_low` to `missed_high` are the scores of the baseline that the
    variant never reached. `bound` is an upper bound on the factor over the baseline's whole range.
    `seed_error` and `item_error` are standard errors of the log factor, `degrees_of_freedom` are
    those of both together. `target_halves` has half the width of the interval of the log factor at
    each target, from the lowest score.

    `bounded`: so little is covered that the bound is the headline, not the factor. `p` tests the
    headline against 1; `detectable` is the smallest factor above 1 that four of five studies with
    such errors distinguish from 1. None: unknown, or the curves have no score in common.
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
    points: Points, drawn: Mapping[Checkpoint, np.ndarray], *, lower_is_better: bool
) -> SeedCurves:
    """Gather the curves of a model's seeds from the points of `read_points`.

    `drawn` has the means over drawn items [1 + R] at each checkpoint.
    """
    direction = -1 if lower_is_better else 1
    # Row n of the transposed array is the same seed at every point (see `Points`).
    scores = direction * np.array([list(seeds.values()) for seeds in points.values()]).T
    means = None
    if all(checkpoint in drawn for seeds in points.values() for checkpoint in seeds):
        mean_at_points = [
            np.mean([drawn[checkpoint] for checkpoint in seeds], axis=0)
            for seeds in points.values()
        ]
        means = direction * np.stack(mean_at_points, axis=1)
    return SeedCurves(np.log(list(points)), scores, means)


def factor_rows(
    metric: str,
    curves: Mapping[Model, SeedCurves],
    digests: Mapping[Model, str],
    significance: float = SIGNIFICANCE,
) -> Iterator[dict[str, Any]]:
    """Compute rows of table computed_factors.

    There is one for every two models of a depth and task, and one of each model with itself.
    """
    for (depth, variant, task), own in curves.items():
        for (other_depth, against, other_task), baseline in curves.items():
            if (other_depth, other_task) != (depth, task):
                continue
            result = mean_factor_interval(baseline, own, significance)
            if metric == "loss":
                result = _with_losses(result)
            items_known = own.drawn is not None and baseline.drawn is not None
            yield {
                "depth": depth,
                "variant": variant,
                "baseline": against,
                "task": task,
                "metric": metric,
                **asdict(result),
                "seeds": len(own.scores),
                "baseline_seeds": len(baseline.scores),
                "replicates": len(own.drawn) - 1 if items_known else 0,
                "digest": digests[depth, variant, task] + digests[depth, against, task],
            }


def _with_losses(result: MeanFactor) -> MeanFactor:
    """Turn scores, which are minus the losses, into losses: the ends of ranges change places."""
    if result.range_low is not None:
        result = replace(result, range_low=-result.range_high, range_high=-result.range_low)
    if result.missed_low is not None:
        result = replace(result, missed_low=-result.missed_high, missed_high=-result.missed_low)
    return result


def mean_factor_interval(
    baseline: SeedCurves, variant: SeedCurves, significance: float = SIGNIFICANCE
) -> MeanFactor:
    """Compute a variant's mean factor and its bound; no intervals where a model has one seed."""
    # Of each curve only the first score and the maximum count, which best so far does not change.
    starts, bests = whole_range(baseline.mean, variant.mean)
    start, best = float(starts[0]), float(bests[0])
    if variant is baseline:
        return _factor_of_itself(start, best)
    if np.isnan(best):
        return MeanFactor()
    # The highest score that both reached: going beyond the baseline's best adds nothing, and a
    # variant that ends below the start covers nothing.
    reached = min(max(start, float(variant.mean.max())), best)
    covered = (reached - start) / (best - start)
    has_missed = reached < best - TIE * abs(best)

    log_values = log_factors(baseline, variant, baseline.mean, variant.mean)[0]  # [2 + T]
    has_range = bool(np.isfinite(log_values[FACTOR]))
    item_errors = _item_errors(baseline, variant)
    seed_variances = _seed_variances(baseline, variant)
    seeds = [len(baseline.scores), len(variant.scores)]
    # An unknown error of the items counts as 0: the interval is then over the seeds alone, which
    # `replicates` 0 says. An unknown error of the seeds stays NaN, so that there is no interval.
    item_variances = np.nan_to_num(item_errors) ** 2
    errors = together(seed_variances, seeds, item_variances, significance)
    halves = errors.half()
    # exp(log factor -+ t * standard error), each [2 + T]
    lows, factors, highs = np.exp([log_values - halves, log_values, log_values + halves])

    bounded = covered < MUCH
    headline = BOUND if bounded else FACTOR
    target_halves = halves[TARGETS]
    return MeanFactor(
        factor=_finite_or_none(factors[FACTOR]),
        low=_finite_or_none(lows[FACTOR]),
        high=_finite_or_none(highs[FACTOR]),
        range_low=start if has_range else None,
        range_high=reached if has_range else None,
        degrees_of_freedom=_finite_or_none(errors.freedom[FACTOR]),
        seed_error=_finite_or_none(np.sqrt(sum(seed_variances)[FACTOR])),
        item_error=_finite_or_none(item_errors[FACTOR]),
        covered=covered,
        missed_low=reached if has_missed else None,
        missed_high=best if has_missed else None,
        bound=_finite_or_none(factors[BOUND]),
        bound_low=_finite_or_none(lows[BOUND]),
        bound_high=_finite_or_none(highs[BOUND]),
        target_halves=target_halves.tolist() if np.isfinite(target_halves).all() else None,
        bounded=bounded,
        p=_finite_or_none(_p_values(log_values, errors, bounded)[headline]),
        detectable=_finite_or_none(np.exp(errors.detectable[headline])),
    )


def _factor_of_itself(start: float, best: float) -> MeanFactor:
    """Return the factor of a model against itself: 1 without an error, over its whole range."""
    return MeanFactor(
        factor=1.0,
        low=1.0,
        high=1.0,
        range_low=_finite_or_none(start),
        range_high=_finite_or_none(best),
        covered=1.0,
        bound=1.0,
        bound_low=1.0,
        bound_high=1.0,
    )


def _item_errors(baseline: SeedCurves, variant: SeedCurves) -> np.ndarray:
    """Compute standard errors [2 + T] from the choice of the items; NaN where that is unknown."""
    if baseline.drawn is None or variant.drawn is None:
        return np.full(2 + PARTS, np.nan)
    replicates = log_factors(
        baseline, variant, baseline.with_other_items, variant.with_other_items
    )  # [R, 2 + T]
    return _spread(replicates)


def _seed_variances(baseline: SeedCurves, variant: SeedCurves) -> list[np.ndarray]:
    """Compute the variances [2 + T] from the seeds of the baseline and of the variant.

    NaN where either has one seed, which cannot show what seeds differ by.
    """
    if min(len(baseline.scores), len(variant.scores)) < 2:
        unknown = np.full(2 + PARTS, np.nan)
        return [unknown, unknown]
    without_baseline_seed = log_factors(
        baseline, variant, baseline.without_one_seed, variant.mean
    )  # [N of the baseline, 2 + T]
    without_variant_seed = log_factors(
        baseline, variant, baseline.mean, variant.without_one_seed
    )  # [N of the variant, 2 + T]
    return [jackknife(without_baseline_seed), jackknife(without_variant_seed)]


def _p_values(log_values: np.ndarray, errors: Errors, bounded: bool) -> np.ndarray:
    """Test each log value against 0.

    Where the bound is the headline, one above 1 decides nothing: the true factor may be on either
    side of 1.
    """
    if bounded:
        return errors.p(np.minimum(log_values, 0))
    return errors.p(log_values)


def whole_range(
    baseline_scores: np.ndarray, variant_scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the baseline's curves [R, C] cover from where both start: from [R], to [R].

    NaN where that is nothing.
    """
    start = np.maximum(baseline_scores[:, 0], variant_scores[:, 0])
    best = baseline_scores.max(axis=1)
    return _ends(start, best)


def log_factors(
    baseline: SeedCurves,
    variant: SeedCurves,
    baseline_scores: np.ndarray,
    variant_scores: np.ndarray,
) -> np.ndarray:
    """Compute log(tokens of the baseline / tokens of the variant) at equal score [R, 2 + T].

    The columns are the mean, the bound, and the targets. The mean is over the scores that both
    curves [R, C] cover, NaN where there are none, the bound over all that the baseline's cover.
    Targets move with the range that both cover, so that every resampled pair of curves has them.
    Either curve may have one row for all of the other's.
    """
    # The best so far at each checkpoint: curves that never fall.
    baseline_best = np.maximum.accumulate(baseline_scores, axis=1)
    variant_best = np.maximum.accumulate(variant_scores, axis=1)
    # A score that the variant never reached counts as if reached with its last token: there its
    # curve goes straight up. In `_area` this last segment has a rise of infinity and no tokens, so
    # its middle is the last token; in `_crossings` the share of the way up it is 0, which is the
    # last token too. Within the range that both cover, the segment adds nothing.
    variant_tokens = np.append(variant.log_tokens, variant.log_tokens[-1])  # [C + 1]
    variant_raised = np.pad(variant_best, ((0, 0), (0, 1)), constant_values=np.inf)  # [R, C + 1]

    def mean_over(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the area between the curves over scores from low to high, by the height [R]."""
        area_of_baseline = _area(baseline.log_tokens, baseline_best, low[:, None], high[:, None])
        area_of_variant = _area(variant_tokens, variant_raised, low[:, None], high[:, None])
        return (area_of_baseline - area_of_variant) / (high - low)

    start, best = whole_range(baseline_best, variant_best)  # [R]
    low, high = _ends(start, np.minimum(best, variant_best[:, -1]))  # [R], what both cover
    mean = mean_over(low, high)
    bound = mean_over(start, best)
    low, high = low[:, None], high[:, None]
    targets = low + (high - low) * (np.arange(PARTS) + 0.5) / PARTS  # [R, T]
    baseline_crossings = _crossings(baseline.log_tokens, baseline_best, targets)
    variant_crossings = _crossings(variant_tokens, variant_raised, targets)
    return np.column_stack([mean, bound, baseline_crossings - variant_crossings])


def _ends(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of ranges [R], NaN where these are empty, rounding aside."""
    # Not `low >= ...`: a comparison with NaN is False, and ranges with NaN count as empty.
    empty = ~(low < high - TIE * np.abs(high))
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def _area(
    log_tokens: np.ndarray, curve: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Integrate the log tokens of monotone curves [R, C] over scores from low to high [R, 1]: [R].

    Trapezoids on their side: each segment counts with what of its rise is within the range, at the
    log tokens of the middle of that part. That is exact, as segments are straight in log tokens.
    """
    start, end = curve[:, :-1], curve[:, 1:]  # of each segment [R, C - 1]
    below = np.clip(start, low, high)
    above = np.clip(end, low, high)
    rise = np.where(end > start, end - start, 1)  # a segment that does not rise adds nothing
    middle = log_tokens[:-1] + np.diff(log_tokens) * ((below + above) / 2 - start) / rise
    return ((above - below) * middle).sum(axis=1)


def _crossings(log_tokens: np.ndarray, curve: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Find the log tokens at which monotone curves [R, C] rise to targets [R, T]: [R, T].

    The curves reach their targets.
    """
    curve = np.broadcast_to(curve, (len(targets), curve.shape[1]))
    # The first point at or above each target, which is the number of points below it, as the curve
    # is monotone; a sum over columns needs no array [R, T, C]. By the clip a target at the start
    # belongs to the first segment, and one beyond the end to the last.
    points_below = sum(scores[:, None] < targets for scores in curve.T)  # [R, T]
    after = points_below.clip(1, curve.shape[1] - 1)
    low = np.take_along_axis(curve, after - 1, axis=1)
    high = np.take_along_axis(curve, after, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(high > low, (targets - low) / (high - low), 0)
    return log_tokens[after - 1] + share * (log_tokens[after] - log_tokens[after - 1])


def _spread(replicates: np.ndarray) -> np.ndarray:
    """Return the standard deviation [T] of each statistic over the replicates [R, T] with it."""
    deviations = []
    for statistic in replicates.T:
        values = statistic[np.isfinite(statistic)]
        deviations.append(values.std(ddof=1) if len(values) > 1 else np.nan)
    return np.array(deviations)


def _finite_or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
