"""Compare two models: the ratio of their tokens with its 95 % interval, a lower bound and tests.

An interval covers seeds and items. The statistics are nearly linear in the checkpoints, so the
variances of both parts add up. The part of the seeds comes from leaving one seed of each model out
(jackknife). The part of the items comes from a bootstrap with fixed seeds. Each replicate computes
its own range of scores. docs/statistics.md has the reasons and an example.

Letters of shapes: N seeds, R replicates of the items (or rows that replace them), S statistics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dreamer_study.sql.statistics.bootstrap import Model
from dreamer_study.sql.statistics.curves import TIE, Curves, SeedCurves
from dreamer_study.sql.statistics.errors import SIGNIFICANCE, Errors, jackknife, together
from dreamer_study.sql.statistics.mean_factors import (
    PARTS,
    covered_range,
    log_mean_factors,
    log_target_factors,
)
from dreamer_study.sql.statistics.token_ratios import (
    Range,
    checkpoint_distance,
    common_range,
    log_bounds,
    log_lower_bounds,
    log_ratios,
    log_ratios_at,
    missing_model,
    reaches,
)

# The columns of `_statistics`. All are logarithms, except BESTS: the variant's best score minus the
# baseline's. MISSED and MISSED_BY_BASELINE are the bounds of models that never rose.
RATIO = 0
AT_LEAST = 1
BESTS = 2
FACTOR = 3
MISSED = 4
MISSED_BY_BASELINE = 5
TARGETS = slice(6, None)
STATISTICS = 6 + PARTS


@dataclass(frozen=True)
class Comparison:
    """A row of the table computed_ratios: a variant compared with a baseline on a task.

    `ratio` is the tokens of the variant / the tokens of the baseline, at equal scores from
    `score_low` to `score_high`, or at a `target` that was fixed in advance. `low` to `high` is its
    95 % interval. Without a ratio, one of both may be a one-sided bound. `at_least` is the same
    mean over the upper fifth of the baseline's own range, in which a score that the variant never
    reached counts with the variant's last token. `reached` says that the variant's best is at most
    two standard errors of the difference below the baseline's, or that it reached the target.

    `seed_error` and `item_error` are standard errors of the log ratio. `degrees_of_freedom` belongs
    to both together. `p` tests the ratio against 1. `detectable` is the smallest ratio above 1 that
    four of five such studies distinguish from 1. `checkpoint_distance` is the distance of the
    coarser curve's checkpoints, in log tokens. `variant_tokens` and `baseline_tokens` are the
    training tokens to `score_high`.

    `mean_factor` is over all scores that both curves cover, `range_low` to `range_high`.
    `target_halves` has half the width of the interval of the log factor at each of 25 targets, from
    the lowest score. None means unknown, or that the curves have no score in common.
    """

    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    score_low: float | None = None
    score_high: float | None = None
    target: float | None = None
    at_least: float | None = None
    at_least_low: float | None = None
    at_least_high: float | None = None
    reached: bool | None = None
    degrees_of_freedom: float | None = None
    seed_error: float | None = None
    item_error: float | None = None
    p: float | None = None
    detectable: float | None = None
    checkpoint_distance: float | None = None
    variant_tokens: float | None = None
    baseline_tokens: float | None = None
    mean_factor: float | None = None
    mean_factor_low: float | None = None
    mean_factor_high: float | None = None
    range_low: float | None = None
    range_high: float | None = None
    target_halves: list[float] | None = None


def comparison_rows(
    metric: str,
    curves: Mapping[Model, SeedCurves],
    digests: Mapping[Model, str],
    targets: Mapping[str, float],
    significance: float = SIGNIFICANCE,
    *,
    baselines: Collection[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Compute rows of table computed_ratios.

    There is one for every two models of a depth and task, and one of each model with itself; with
    `baselines` only where the baseline is one of these variants.
    `targets` has the scores that were fixed in advance by task; losses as losses.
    """
    direction = -1 if metric == "loss" else 1
    compared: dict[tuple[int | None, str], dict[str, SeedCurves]] = defaultdict(dict)
    for (depth, variant, task), baseline in curves.items():
        if baselines is None or variant in baselines:
            compared[depth, task][variant] = baseline
    for (depth, variant, task), own in curves.items():
        target = direction * targets[task] if task in targets else None
        for against, baseline in compared[depth, task].items():
            result = compare_models(baseline, own, target=target, significance=significance)
            if metric == "loss":
                result = _with_losses(result)
            items_known = own.drawn is not None and baseline.drawn is not None
            yield {
                "depth": depth,
                "variant": variant,
                "baseline": against,
                "task": task,
                "metric": metric,
                **vars(result),
                "seeds": len(own.scores),
                "baseline_seeds": len(baseline.scores),
                "replicates": len(own.drawn) - 1 if items_known else 0,
                "digest": digests[depth, variant, task] + digests[depth, against, task],
            }


def compare_models(
    baseline: SeedCurves,
    variant: SeedCurves,
    *,
    target: float | None = None,
    significance: float = SIGNIFICANCE,
) -> Comparison:
    """Compare a variant with a baseline; there are no intervals if a model has one seed.

    `target` is a score fixed in advance. Without a target, the ratio is over the common range.
    """
    if variant is baseline:
        return _with_itself(baseline, target)
    observed, seed_variances = _observed_with_seed_variances(baseline, variant, target)
    item_errors = _item_errors(baseline, variant, target)
    seeds = [len(baseline.scores), len(variant.scores)]
    # An unknown error of the items counts as 0: the interval is then over the seeds alone, which
    # `replicates` 0 says. An unknown error of the seeds stays NaN, so that there is no interval.
    item_variances = np.nan_to_num(item_errors) ** 2
    errors = together(seed_variances, seeds, item_variances, significance)
    halves = errors.half()
    # exp(logarithm -+ t * standard error), each [S]; the difference of bests is no logarithm
    lows, _, highs = np.exp([observed - halves, observed, observed + halves])
    answer = _answer(baseline, variant, target, observed, lows, highs, errors)
    range_low, range_high = covered_range(baseline.mean, variant.mean)
    target_halves = halves[TARGETS]
    return replace(
        answer,
        at_least=_finite_or_none(np.exp(observed[AT_LEAST])),
        at_least_low=_finite_or_none(lows[AT_LEAST]),
        at_least_high=_finite_or_none(highs[AT_LEAST]),
        degrees_of_freedom=_finite_or_none(errors.freedom[RATIO]),
        seed_error=_finite_or_none(np.sqrt(sum(seed_variances)[RATIO])),
        item_error=_finite_or_none(item_errors[RATIO]),
        mean_factor=_finite_or_none(np.exp(observed[FACTOR])),
        mean_factor_low=_finite_or_none(lows[FACTOR]),
        mean_factor_high=_finite_or_none(highs[FACTOR]),
        range_low=_finite_or_none(range_low[0]),
        range_high=_finite_or_none(range_high[0]),
        target_halves=target_halves.tolist() if np.isfinite(target_halves).all() else None,
    )


def _answer(
    baseline: SeedCurves,
    variant: SeedCurves,
    target: float | None,
    observed: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    errors: Errors,
) -> Comparison:
    """Return the ratio, its interval and its test, over the common range or at the target."""
    if target is not None:
        return _at_target(baseline, variant, target, observed, lows, highs, errors)
    reached = _has_reached(observed[BESTS], errors.size[BESTS])
    scores = common_range(baseline.mean, variant.mean)
    if np.isnan(scores.high[0]):
        return replace(
            _one_sided(baseline, variant, observed, lows, highs, errors), reached=reached
        )
    return Comparison(
        ratio=_finite_or_none(np.exp(observed[RATIO])),
        low=_finite_or_none(lows[RATIO]),
        high=_finite_or_none(highs[RATIO]),
        score_low=float(scores.cut[0]),
        score_high=float(scores.high[0]),
        reached=reached,
        p=_finite_or_none(errors.p(observed)[RATIO]),
        detectable=_finite_or_none(np.exp(errors.detectable[RATIO])),
        checkpoint_distance=checkpoint_distance(baseline.mean, variant.mean, scores),
        **_tokens_to(baseline, variant, scores.high[0]),
    )


def _one_sided(
    baseline: SeedCurves,
    variant: SeedCurves,
    observed: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    errors: Errors,
) -> Comparison:
    """Return the bound of two models that have no scores in common: at least, or at most.

    There is none where the two bests differ by no more than noise: of two flat curves of noise one
    begins above all that the other has. It is one end of the 95 % interval of the bound; without an
    interval, the bound as observed. It is as significant as the less significant of the bound and
    of the difference of the bests; a bound is no evidence for a ratio on its other side of 1.
    """
    missing = missing_model(baseline.mean, variant.mean)
    difference = observed[BESTS]
    error = errors.size[BESTS]
    if missing == "variant" and not _has_reached(difference, error):
        low = lows[MISSED] if np.isfinite(lows[MISSED]) else np.exp(observed[MISSED])
        p = errors.p(np.maximum(observed, 0))[MISSED]
        return Comparison(low=float(low), p=_larger_p(p, errors.p(observed)[BESTS]))
    if missing == "baseline" and not _has_reached(-difference, error):
        column = MISSED_BY_BASELINE
        high = highs[column] if np.isfinite(highs[column]) else np.exp(observed[column])
        p = errors.p(np.minimum(observed, 0))[column]
        return Comparison(high=float(high), p=_larger_p(p, errors.p(observed)[BESTS]))
    return Comparison()


def _larger_p(first: float, second: float) -> float | None:
    return _finite_or_none(max(first, second)) if np.isfinite([first, second]).all() else None


def _at_target(
    baseline: SeedCurves,
    variant: SeedCurves,
    target: float,
    observed: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    errors: Errors,
) -> Comparison:
    """Return the ratio at a score that was fixed in advance.

    A model that never reached the score counts with its last token, which makes the ratio a bound:
    one-sided where a curve of one seed fewer misses it, and no ratio where the mean curve does.
    """
    is_reached = bool(reaches(variant.mean, target)[0])
    is_reached_by_baseline = bool(reaches(baseline.mean, target)[0])
    fixed = Comparison(score_low=target, score_high=target, target=target, reached=is_reached)
    if not (is_reached or is_reached_by_baseline):
        return fixed
    log_ratio = observed[RATIO]
    low = _finite_or_none(lows[RATIO])
    high = _finite_or_none(highs[RATIO])
    # A variant that misses the target needs more tokens than counted: nothing is an upper bound.
    if not _always_reaches(variant, target):
        log_ratio = max(log_ratio, 0)
        low = _finite_or_none(np.exp(observed[RATIO])) if low is None else low
        high = None
    if not _always_reaches(baseline, target):
        log_ratio = min(log_ratio, 0)
        high = _finite_or_none(np.exp(observed[RATIO])) if high is None else high
        low = None
    both = is_reached and is_reached_by_baseline
    distance = checkpoint_distance(
        baseline.mean, variant.mean, Range(np.array([target]), np.array([target]))
    )
    return replace(
        fixed,
        ratio=_finite_or_none(np.exp(observed[RATIO])) if both else None,
        low=low,
        high=high,
        p=_finite_or_none(errors.p(np.full(STATISTICS, log_ratio))[RATIO]),
        detectable=_finite_or_none(np.exp(errors.detectable[RATIO])),
        checkpoint_distance=distance if both else None,
        **_tokens_to(baseline, variant, target),
    )


def _always_reaches(curves: SeedCurves, target: float) -> bool:
    """Tell whether the mean curve reaches a score, and still does without any one seed."""
    if len(curves.scores) < 2:
        return bool(reaches(curves.mean, target)[0])
    return bool(reaches(curves.mean, target)[0] and reaches(curves.without_one_seed, target).all())


def _tokens_to(baseline: SeedCurves, variant: SeedCurves, score: float) -> dict[str, float | None]:
    """Return the tokens of both models to a score; None for a model that never reached it."""
    goal = np.array([[score]])
    tokens = {}
    for name, curves in (("variant_tokens", variant.mean), ("baseline_tokens", baseline.mean)):
        is_reached = bool(reaches(curves, score)[0])
        tokens[name] = float(np.exp(curves.crossings(goal)[0, 0])) if is_reached else None
    return tokens


def _has_reached(difference: float, error: float) -> bool:
    """Tell whether a best is not below another by more than noise.

    Without a known error any difference but rounding counts.
    """
    noise = 2 * error if np.isfinite(error) else 0.0
    return bool(difference >= -noise - TIE)


def _with_itself(model: SeedCurves, target: float | None) -> Comparison:
    """Return the comparison of a model with itself: 1 without an error, over its whole range."""
    scores = common_range(model.mean, model.mean)
    low, high = covered_range(model.mean, model.mean)
    end = target if target is not None else scores.high[0]
    return Comparison(
        ratio=1.0,
        low=1.0,
        high=1.0,
        score_low=_finite_or_none(target if target is not None else scores.cut[0]),
        score_high=_finite_or_none(end),
        target=target,
        at_least=1.0,
        at_least_low=1.0,
        at_least_high=1.0,
        reached=target is None or bool(reaches(model.mean, target)[0]),
        mean_factor=1.0,
        mean_factor_low=1.0,
        mean_factor_high=1.0,
        range_low=_finite_or_none(low[0]),
        range_high=_finite_or_none(high[0]),
    )


def _statistics(baseline: Curves, variant: Curves, target: float | None) -> np.ndarray:
    """Compute all statistics of each pair of curves [R, S]; either model may have one curve."""
    ratios = log_ratios(baseline, variant)
    if target is not None:
        ratios = log_ratios_at(baseline, variant, target)
    return np.column_stack(
        [
            ratios,
            log_lower_bounds(baseline, variant),
            variant.end - baseline.end,
            log_mean_factors(baseline, variant),
            log_bounds(variant, baseline),
            -log_bounds(baseline, variant),
            log_target_factors(baseline, variant),
        ]
    )


def _item_errors(baseline: SeedCurves, variant: SeedCurves, target: float | None) -> np.ndarray:
    """Compute standard errors [S] from the choice of the items; NaN where that is unknown."""
    if baseline.drawn is None or variant.drawn is None:
        return np.full(STATISTICS, np.nan)
    replicates = _statistics(baseline.with_other_items, variant.with_other_items, target)  # [R, S]
    return _spread(replicates)


def _observed_with_seed_variances(
    baseline: SeedCurves, variant: SeedCurves, target: float | None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Compute the statistics [S] of the mean curves, and the variances [S] that seeds cause.

    The variances are those of the baseline and of the variant; NaN where either has one seed, which
    cannot show what seeds differ by. All curves go through one call: the arrays are so small that
    a call takes as long for one row as for all.
    """
    seeds = len(baseline.scores)
    variant_seeds = len(variant.scores)
    if min(seeds, variant_seeds) < 2:
        unknown = np.full(STATISTICS, np.nan)
        return _statistics(baseline.mean, variant.mean, target)[0], [unknown, unknown]
    # Row 0 compares the means; N rows leave out a seed of the baseline, the last of the variant.
    rows = [0, *range(1, seeds + 1), *[0] * variant_seeds]
    variant_rows = [0, *[0] * seeds, *range(1, variant_seeds + 1)]
    statistics = _statistics(
        baseline.mean_and_without_one_seed.of_rows(rows),
        variant.mean_and_without_one_seed.of_rows(variant_rows),
        target,
    )
    without_baseline_seed = statistics[1 : seeds + 1]  # [N, S]
    without_variant_seed = statistics[seeds + 1 :]  # [N, S]
    return statistics[0], [jackknife(without_baseline_seed), jackknife(without_variant_seed)]


def _spread(replicates: np.ndarray) -> np.ndarray:
    """Return the standard deviation [S] of each statistic over the replicates [R, S] with it."""
    deviations = []
    for statistic in replicates.T:
        values = statistic[np.isfinite(statistic)]
        deviations.append(values.std(ddof=1) if len(values) > 1 else np.nan)
    return np.array(deviations)


def _with_losses(result: Comparison) -> Comparison:
    """Turn scores, which are minus the losses, into losses: the ends of ranges change places."""
    return replace(
        result,
        score_low=_negated(result.score_high),
        score_high=_negated(result.score_low),
        target=_negated(result.target),
        range_low=_negated(result.range_high),
        range_high=_negated(result.range_low),
    )


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def _finite_or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
