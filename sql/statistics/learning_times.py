"""Fit when a model learns each item of a benchmark: a logistic curve in log tokens.

The chance of a right answer with t tokens, of an item with learning time T and slope k, is

    guess + (1 - SLIP - guess) / (1 + exp(-k * (log t - log T)))

All seeds of a model share T and k. At T, the chance is half way between guessing and knowing.
`guess` is the accuracy of guessing, at least LEAST_GUESS. SLIP is the share of wrong answers to a
known item. The slope has a prior, log k ~ normal(log PRIOR_SLOPE, PRIOR_SPREAD^2), as six to twenty
checkpoints of one item hardly say how steep its curve is. log T has no prior, but lies within
MARGIN of the checkpoints.

Likelihoods are computed at every point of one grid of T and k, for all items by two products of
matrices. From these follow both the penalised maximum with the interval of its profile, and the
median of the posterior with its equal tails. benchmarks/intervals/learning_times.py counts how
often the intervals hold the truth.

Letters of shapes: I items, C checkpoints, T times and K slopes of the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, expit

LEVEL = 0.9  # of the intervals
LEAST_GUESS = 0.01  # so that one lucky answer says little
SLIP = 0.02  # of a known item
PRIOR_SLOPE = 2.0  # from 10 to 90 % of the rise within nine times the tokens
PRIOR_SPREAD = 1.0  # of the log slope: within twice that, from 0.27 to 15
MARGIN = math.log(8)  # of the grid, before the first checkpoint and behind the last one
TIMES = 161  # of the grid
SLOPES = 21
ITEMS_AT_ONCE = 500  # which bounds the memory


@dataclass(frozen=True)
class LearningTimes:
    """The logarithms of the tokens at which items are learned, with 90 % intervals, all [I].

    `estimate` may lie beyond the checkpoints, so that it orders all items. An end of an interval
    beyond the checkpoints is infinite, as no checkpoint says how far beyond the end lies.
    """

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    first: float
    last: float

    @property
    def known_at_first(self) -> np.ndarray:
        """Whether an item was learned before the first checkpoint (left-censored)."""
        return self.estimate < self.first

    @property
    def never_learned(self) -> np.ndarray:
        """Whether an item was not learned at the last checkpoint (right-censored)."""
        return self.estimate > self.last


def fit_times(
    log_tokens: np.ndarray,
    right: np.ndarray,
    asked: np.ndarray,
    guess: float,
    *,
    by: str = "profile",
) -> LearningTimes:
    """Fit the learning times of items.

    `right` [I, C] counts the right answers of all seeds at the checkpoints' `log_tokens` [C], in
    any order, and `asked` [I, C] how many there are; a share of a right answer counts as a share.
    `by` is profile, the penalised maximum with the ends of its profile likelihood, or posterior.
    """
    first, last = float(log_tokens.min()), float(log_tokens.max())
    times = np.linspace(first - MARGIN, last + MARGIN, TIMES)  # [T]
    units = np.linspace(-2.5, 2.5, SLOPES)  # standard deviations of the prior
    slopes = PRIOR_SLOPE * np.exp(PRIOR_SPREAD * units)  # [K]
    known = expit(slopes * (log_tokens[:, None, None] - times[:, None]))  # [C, T, K]
    floor = max(guess, LEAST_GUESS)
    chance = (floor + (1 - SLIP - floor) * known).reshape(len(log_tokens), -1)  # [C, T * K]
    of_right, of_wrong = np.log(chance), np.log1p(-chance)
    summarise = {"profile": _profiles, "posterior": _posteriors}[by]
    found = []
    for start in range(0, len(right), ITEMS_AT_ONCE):
        hits = right[start : start + ITEMS_AT_ONCE]
        misses = asked[start : start + ITEMS_AT_ONCE] - hits
        likelihood = (hits @ of_right + misses @ of_wrong).reshape(-1, TIMES, SLOPES)
        found.append(summarise(times, likelihood - units**2 / 2))  # the prior of the slope
    estimate, low, high = np.concatenate(found, axis=1) if found else np.empty((3, 0))
    low = np.where(low < first, -np.inf, low)
    high = np.where(high > last, np.inf, high)
    return LearningTimes(estimate, low, high, first, last)


def _profiles(times: np.ndarray, penalised: np.ndarray) -> np.ndarray:
    """Return estimates and ends [3, I] by the profile over slopes of log likelihoods [I, T, K].

    An end is where the profile is lower than its maximum by half the chi-squared quantile.
    """
    profile = penalised.max(axis=2)  # [I, T]
    items = np.arange(len(profile))
    # Of a flat maximum, as of an item that was never right, the point farthest from the other end.
    best = profile.max(axis=1, keepdims=True)
    at = np.argmax(profile, axis=1)
    flat = profile >= best - 1e-9
    at = np.where(flat[:, -1], len(times) - 1, at)
    estimate = times[at] + _vertex(profile, at) * (times[1] - times[0])
    threshold = best[:, 0] - chdtri(1, 1 - LEVEL) / 2
    inside = profile >= threshold[:, None]
    first = inside.argmax(axis=1)
    last = len(times) - 1 - inside[:, ::-1].argmax(axis=1)
    low = _crossing(times, profile, threshold, items, first - 1, first)
    high = _crossing(times, profile, threshold, items, last + 1, last)
    return np.stack([estimate, low, high])


def _vertex(profile: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return how far the vertex of the parabola through three points lies off the middle one [I].

    In steps of the grid; 0 at an end of the grid.
    """
    items = np.arange(len(profile))
    middle = at.clip(1, profile.shape[1] - 2)
    before, here, after = (profile[items, middle + step] for step in (-1, 0, 1))
    bend = before - 2 * here + after
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(bend < 0, (before - after) / (2 * bend), 0)
    return np.where(at == middle, off.clip(-0.5, 0.5), 0)


def _crossing(
    times: np.ndarray,
    profile: np.ndarray,
    threshold: np.ndarray,
    items: np.ndarray,
    outside: np.ndarray,
    inside: np.ndarray,
) -> np.ndarray:
    """Find where profiles cross their thresholds between a point outside and one inside [I].

    The end of the grid where there is no point outside.
    """
    exists = (outside >= 0) & (outside < len(times))
    beyond = np.where(exists, outside, inside)
    below, above = profile[items, beyond], profile[items, inside]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(exists, (above - threshold) / (above - below), 0)
    return times[inside] + share * (times[beyond] - times[inside])


def _posteriors(times: np.ndarray, penalised: np.ndarray) -> np.ndarray:
    """Return medians and equal-tailed ends [3, I] of posteriors, whose prior of log T is flat."""
    weights = np.exp(penalised - penalised.max(axis=(1, 2), keepdims=True)).sum(axis=2)
    shares = weights.cumsum(axis=1) / weights.sum(axis=1, keepdims=True)  # [I, T]
    half = weights / weights.sum(axis=1, keepdims=True) / 2
    middles = shares - half  # of each point of the grid, so that halves of its weight lie around
    wanted = (0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2)
    return np.array([[np.interp(share, row, times) for row in middles] for share in wanted])
