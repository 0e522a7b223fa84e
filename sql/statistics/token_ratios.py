"""Compute the answer: how many times as many tokens a variant takes as the baseline.

Let t(s) be the tokens at which a curve first has the score s. The ratio is the geometric mean of
variant tokens over baseline tokens at equal score, over the upper fifth of the common range:

                      1      high
    log ratio  =  ---------- integral [log t_variant(s) - log t_baseline(s)] ds
                  high - cut  cut                           cut = high - (high - low) / 5

`high` is the lower of the two bests, the best score that both models reach. `low` is the score that
the model whose best that is had at a tenth of its tokens to this best; never below either curve's
start, nor, for accuracies, below chance and two standard errors. So neither where a log begins nor
the first steps of training weigh in the ratio. Exchanging the models gives the inverse.

This is the paper's rule (tokens to the baseline's best) made robust, and extended to variants that
end lower. docs/statistics.md has the reasons, the simulations and an example.

Letters of shapes: R replicates (resampled curves, or the one curve as observed).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dreamer_study.sql.statistics.curves import TIE, Curves, ends_of

TOP = 0.2  # of the range in score: a convention, chosen by simulation (docs/log.md)


@dataclass(frozen=True)
class Range:
    """The scores over which tokens are compared: `low` [R] to `high` [R]; NaN where empty."""

    low: np.ndarray
    high: np.ndarray

    @property
    def cut(self) -> np.ndarray:
        """Return where the upper fifth begins [R]."""
        return self.high - TOP * (self.high - self.low)


def common_range(baseline: Curves, variant: Curves) -> Range:
    """Return the scores that both models reach, from where both have learned something."""
    high = np.minimum(baseline.end, variant.end)
    low_of_baseline = baseline.score_at_a_tenth
    low_of_variant = variant.score_at_a_tenth
    low = np.where(baseline.end < variant.end, low_of_baseline, low_of_variant)
    # With equal bests both models own the end of the range; the wider range is the same for both.
    is_tie = baseline.end == variant.end
    low = np.where(is_tie, np.minimum(low_of_baseline, low_of_variant), low)
    return _above_starts(baseline, variant, low, high)


def baseline_range(baseline: Curves, variant: Curves) -> Range:
    """Return the scores up to the baseline's best, whether the variant reached them or not."""
    return _above_starts(baseline, variant, baseline.score_at_a_tenth, baseline.end)


def log_ratios(baseline: Curves, variant: Curves) -> np.ndarray:
    """Compute the log ratio of each pair of curves [R]; NaN without a common range.

    Either model may have one curve for all of the other's.
    """
    scores = common_range(baseline, variant)
    return variant.mean_log_tokens(scores.cut, scores.high) - baseline.mean_log_tokens(
        scores.cut, scores.high
    )


def log_lower_bounds(baseline: Curves, variant: Curves) -> np.ndarray:
    """Bound the log ratio at the baseline's own best quality from below [R].

    The same mean over the upper fifth of the baseline's range. A score that the variant never
    reached counts with the variant's last token: more would be needed. Equal to the log ratio where
    the baseline's best is the lower one.
    """
    scores = baseline_range(baseline, variant)
    continued = variant.continued()
    return continued.mean_log_tokens(scores.cut, scores.high) - baseline.mean_log_tokens(
        scores.cut, scores.high
    )


def log_ratios_at(baseline: Curves, variant: Curves, score: float) -> np.ndarray:
    """Compute the log ratio at one score that was fixed in advance [R].

    A model that never reached the score counts with its last token; NaN where both never did.
    """
    goals = np.full((max(len(baseline.best), len(variant.best)), 1), score)
    own = variant.continued().crossings(goals)[:, 0]
    other = baseline.continued().crossings(goals)[:, 0]
    neither = ~(reaches(baseline, score) | reaches(variant, score))
    return np.where(neither, np.nan, own - other)


def reaches(curves: Curves, score: float) -> np.ndarray:
    """Tell which curves reach a score, rounding aside [R]."""
    return curves.end >= score - TIE * abs(score)


def missing_model(baseline: Curves, variant: Curves) -> str | None:
    """Name the model, 'variant' or 'baseline', that never rose above the lowest score that counts.

    Of two curves without a common range. None where neither or both rose above it.
    """
    lowest = _lowest_score(baseline, variant)[0]
    has_variant = variant.end[0] > lowest
    has_baseline = baseline.end[0] > lowest
    if has_variant == has_baseline:
        return None
    return "baseline" if has_variant else "variant"


def log_bounds(missing: Curves, other: Curves) -> np.ndarray:
    """Bound the log ratio of a model that never had the lowest score that counts, from below [R].

    The other model had that score with some tokens, this one never had it with all of its own. NaN
    where the other one never had it either.
    """
    lowest = _lowest_score(missing, other)
    needed = other.crossings(lowest[:, None])[:, 0]
    bounds = missing.log_tokens[-1] - needed
    return np.where(other.end > lowest, bounds, np.nan)


def _lowest_score(first: Curves, second: Curves) -> np.ndarray:
    """Return the lowest score that counts [R]: both curves' starts, and what guessing may reach."""
    floor = max(first.noise_floor, second.noise_floor)
    return np.maximum(np.maximum(first.start, second.start), floor)


def checkpoint_distance(baseline: Curves, variant: Curves, scores: Range) -> float:
    """Return how far apart the coarser curve's evaluations are within a range, in log tokens.

    The median distance of successive evaluations, of the stretches that rise through the range.
    """
    return max(_median_distance(curves, scores) for curves in (baseline, variant))


def _median_distance(curves: Curves, scores: Range) -> float:
    ends = np.column_stack([scores.low, scores.high])
    first, last = curves.crossings(ends)[0]
    distances = np.diff(curves.log_tokens)
    if not len(distances):  # one checkpoint is apart from nothing
        return np.inf
    within = (curves.log_tokens[1:] > first) & (curves.log_tokens[:-1] < last)
    return float(np.median(distances[within])) if within.any() else float(distances[-1])


def _above_starts(baseline: Curves, variant: Curves, low: np.ndarray, high: np.ndarray) -> Range:
    lowest = _lowest_score(baseline, variant)
    return Range(*ends_of(np.maximum(low, lowest), high))
