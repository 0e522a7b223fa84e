"""Compute 95 % intervals of the data-efficiency factors from bootstrap replicates of the curves.

Each replicate has other items and other noise of training; goal and crossing are found again on its curves. Only the
place of the baseline's best is not drawn, because on a plateau drawing would repeat its luck. Instead each checkpoint
that may be the best has an interval, narrower for a less plausible checkpoint, and the result spans all intervals. A
low end of 0 or a high end of infinity says that the study does not limit the factor on that side. docs/statistics.md
has the reasons and an example.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sql.names import BASELINE
from sql.statistics.bootstrap import Model, ReplicatedCurve

RULES = ("first", "interpolated")  # as in data_efficiency and in data_efficiency_interpolated
ERROR = 0.05
# A goal of plausibility p misses with probability ERROR * min(sum of p, MOST_DOUBT) / p ^ SHARPNESS. MOST_DOUBT is the
# largest multiple of 1/4 with which no design of eight checkpoints or more in `benchmarks.intervals.coverage --set
# calibration` misses more than twice as often as it should.
MOST_DOUBT = 2.25
SHARPNESS = 2
FEWEST_FOR_NOISE = 8  # checkpoints: fewer say too little about the size of their scatter
TIE = 4e-15  # as in reaches.sql


@dataclass(frozen=True)
class Goals:
    """The checkpoints that may be a baseline's best: ascending tokens [G], scores [1 + R, G], error probability of the
    interval [G]."""

    tokens: np.ndarray
    scores: np.ndarray
    error: np.ndarray


@dataclass(frozen=True)
class Factors:
    """The factor in each replicate: its value or limit, and whether it is a limit from above or from below."""

    value: np.ndarray
    at_most: np.ndarray
    at_least: np.ndarray


def interval_rows(models: Iterable[Model], curves: Mapping[Model, ReplicatedCurve]) -> list[dict[str, Any]]:
    """Compute rows of factor_intervals or loss_intervals: two for each model, one a rule; null without replicates."""
    goals = {model: possible_goals(curve) for model, curve in curves.items() if model[1] == BASELINE}
    rows = []
    for depth, variant, task in models:
        baseline, own = goals.get((depth, BASELINE, task)), curves.get((depth, variant, task))
        for rule in RULES:
            low, high, reached = None, None, None
            if own and variant == BASELINE:
                low, high, reached = 1.0, 1.0, 1.0  # against itself, in every replicate
            elif own and baseline:
                low, high, reached = factor_interval(baseline, own, interpolated=rule == "interpolated")
                if rule == "first":
                    low, high = spanning((low, high), grid_interval(curves[depth, BASELINE, task], own))
            row = {"depth": depth, "variant": variant, "task": task, "rule": rule}
            row |= {"low": low, "high": high, "share_reached": reached}
            if baseline:
                row |= {"goal_first": int(baseline.tokens[0]), "goal_last": int(baseline.tokens[-1])}
            rows.append(row)
    return rows


def with_training_noise(curve: ReplicatedCurve, random: np.random.Generator) -> ReplicatedCurve:
    """Add independent normal noise, as large as that of training, to every checkpoint of every replicate."""
    if len(curve.tokens) < FEWEST_FOR_NOISE:
        return curve
    scores = curve.scores.copy()
    scores[1:] += random.normal(0, training_variance(curve) ** 0.5, scores[1:].shape)
    return ReplicatedCurve(curve.tokens, scores)


def training_variance(curve: ReplicatedCurve) -> float:
    """Estimate the variance of a curve between checkpoints that the items do not explain.

    A checkpoint is compared with the cubic in log tokens through two neighbours on each side. What a cubic cannot
    follow counts as noise too.
    """
    beside = _distance_from_neighbours(np.log(curve.tokens))
    distance = beside @ curve.scores[0]
    of_items = (beside @ (curve.scores[1:] - curve.scores[0]).T).var(axis=1)
    return max(0.0, float((distance**2 - of_items).mean()))


def _distance_from_neighbours(log_tokens: np.ndarray) -> np.ndarray:
    """Return the rows that take checkpoints [C] to their distances from the cubic [C - 4, C], each of length 1.

    Of length 1, so that independent noise has the same variance in a distance as at a checkpoint.
    """
    rows = np.zeros((len(log_tokens) - 4, len(log_tokens)))
    for row, middle in zip(rows, range(2, len(log_tokens) - 2), strict=True):
        row[middle] = 1
        neighbours = [middle - 2, middle - 1, middle + 1, middle + 2]
        for one in neighbours:
            others = log_tokens[[other for other in neighbours if other != one]]
            row[one] = -np.prod((log_tokens[middle] - others) / (log_tokens[one] - others))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def possible_goals(baseline: ReplicatedCurve) -> Goals:
    """Find the checkpoints at which the baseline may have its best score; the observed best is one of them.

    A checkpoint that truly is the best is observed below the best by no more than the largest error of all checkpoints
    minus its own error. The share of replicates whose errors allow that is its plausibility: 1 for the observed best.
    """
    # A checkpoint that equals an earlier one in every replicate is no other goal: as in the views, the first counts.
    _, distinct = np.unique(baseline.scores, axis=1, return_index=True)
    tokens, scores = (values[..., np.sort(distinct)] for values in (baseline.tokens, baseline.scores))
    observed, errors = scores[0], scores[1:] - scores[0]
    behind = errors.max(axis=1, keepdims=True) - errors
    plausible = reaches(observed + behind, observed.max()).mean(axis=0)
    possible = plausible > 0
    error = ERROR * min(plausible.sum(), MOST_DOUBT) / plausible[possible] ** SHARPNESS
    kept = np.flatnonzero(possible)[error < 1]
    return Goals(tokens[kept], scores[:, kept], error[error < 1])


def factor_interval(goals: Goals, variant: ReplicatedCurve, *, interpolated: bool) -> tuple[float, float, float]:
    """Return low and high end over all goals, and the share of replicates that reach the best of the goals."""
    drawn = ReplicatedCurve(variant.tokens, variant.scores[1:])
    ends = [
        interval(crossing_factors(tokens, scores[1:], drawn, interpolated=interpolated), error)
        for tokens, scores, error in zip(goals.tokens, goals.scores.T, goals.error, strict=True)
    ]
    lows, highs = zip(*ends, strict=True)
    best = goals.scores[1:].max(axis=1)
    return min(lows), max(highs), float(reaches(drawn.scores.max(axis=1), best).mean())


def grid_interval(baseline: ReplicatedCurve, variant: ReplicatedCurve) -> tuple[float, float]:
    """Return the factors that the spacing of the checkpoints leaves open on the observed curves.

    The baseline reaches its best after the checkpoint before, and so does the variant. Example: a best at 40 after 20
    tokens, and a crossing at 20 after 10 tokens, leave 20 / 20 to 40 / 10.
    """
    best = np.flatnonzero(reaches(baseline.scores[0], baseline.scores[0].max()))[0]
    crossings = np.flatnonzero(reaches(variant.scores[0], baseline.scores[0].max()))
    crossing = crossings[0] if len(crossings) else len(variant.tokens)
    ends, needed = np.array([0, *baseline.tokens]), np.array([0, *variant.tokens, np.inf])
    with np.errstate(divide="ignore"):
        low, high = ends[[best, best + 1]] / needed[[crossing + 1, crossing]]
    return float(low), float(high)


def spanning(ends: tuple[float, float], others: tuple[float, float]) -> tuple[float, float]:
    """Return the interval that spans two intervals."""
    return min(ends[0], others[0]), max(ends[1], others[1])


def crossing_factors(goal_tokens: float, goal: np.ndarray, variant: ReplicatedCurve, *, interpolated: bool) -> Factors:
    """Divide the goal's tokens by the variant's tokens to the goal's score, in each replicate [R].

    Example: a goal of 0.5 at 40 tokens, and a curve of 0.2, 0.6 at 10, 20 tokens: 40 / 20 = 2.
    """
    reached_at = reaches(variant.scores, goal[:, None])
    reached, at = reached_at.any(axis=1), reached_at.argmax(axis=1)
    spent = variant.tokens[at].astype(float)
    if interpolated:
        inner = np.flatnonzero(reached & (at > 0))
        after, before = at[inner], at[inner] - 1
        value_after, value_before = variant.scores[inner, after], variant.scores[inner, before]
        back = np.maximum(0, (value_after - goal[inner]) / (value_after - value_before))
        spent[inner] *= (variant.tokens[before] / variant.tokens[after]) ** back
    spent[~reached] = variant.tokens[-1]
    return Factors(goal_tokens / spent, at_most=~reached, at_least=reached & (at == 0))


def reaches(value: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Compare with a goal up to rounding, as reaches.sql: sums in another order are still ties."""
    return value >= goal - TIE * np.abs(goal)


def interval(factors: Factors, error: float) -> tuple[float, float]:
    """Return the ends of the interval that misses with this probability; 0 and infinity where the interval is open."""
    low = _quantile(np.where(factors.at_most, 0.0, factors.value), error / 2)
    high = -_quantile(-np.where(factors.at_least, np.inf, factors.value), error / 2)
    return low, high


def _quantile(values: np.ndarray, probability: float) -> float:
    """Return the lowest value with at least this probability (up to 1/2) below it and half of its own (mid-p)."""
    distinct, counts = np.unique(values, return_counts=True)
    return float(distinct[np.argmax(counts.cumsum() - counts / 2 >= probability * len(values))])
