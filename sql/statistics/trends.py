"""Fit how a ratio of tokens changes with the size of the models: a straight line in logarithms.

    log ratio = level + slope * (log size - mean log size)

Each ratio comes of a study of its own, with its own standard error and degrees of freedom. So the
slope is a sum of independent log ratios with known weights,

    slope = sum of w_k * log ratio_k,   w_k = (x_k - mean x) / sum of (x - mean x)^2

and its error is theirs: variance = sum of w_k^2 * error_k^2, with the degrees of freedom of Welch
and Satterthwaite. All sizes count alike: weights by the errors would be estimates themselves, of a
few seeds (benchmarks/intervals/trends.py compares both). The line is not tested: of three sizes
one degree of freedom is left.

Studies that ask the same items, or train the same seeds, err in the same direction. Such errors
cancel in a slope, whose interval is then too wide rather than too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from dreamer_study.sql.statistics.errors import SIGNIFICANCE


@dataclass(frozen=True)
class Trend:
    """A slope of log ratios over log sizes, with its 95 % interval.

    `crossing` is the log size at which the line is 0, where both models need equal tokens, with the
    interval of the sizes at which 0 cannot be excluded (Fieller); None where the slope's interval
    holds 0, as the line may then cross anywhere.
    """

    slope: float
    low: float
    high: float
    p: float
    crossing: tuple[float, float, float] | None


def fit_trend(
    log_sizes: np.ndarray, log_ratios: np.ndarray, errors: np.ndarray, freedom: np.ndarray
) -> Trend:
    """Fit a line through log ratios [K] at log sizes [K], of standard errors [K] and freedoms [K].

    Needs two different sizes.
    """
    centred = log_sizes - log_sizes.mean()
    assert np.ptp(log_sizes) > 0, "two different sizes"
    weights = centred / (centred**2).sum()
    slope = float(weights @ log_ratios)
    error, degrees = _error(weights, errors, freedom)
    half = float(stdtrit(degrees, 1 - SIGNIFICANCE / 2) * error)
    p = float(2 * stdtr(degrees, -abs(slope) / error)) if error > 0 else float(slope == 0)
    low, high = slope - half, slope + half
    crossing = None
    if low > 0 or high < 0:
        crossing = _crossing(log_sizes, log_ratios, errors, freedom, slope)
    return Trend(slope, low, high, p, crossing)


def _error(weights: np.ndarray, errors: np.ndarray, freedom: np.ndarray) -> tuple[float, float]:
    """Return the standard error of a weighted sum of log ratios, and its degrees of freedom."""
    parts = (weights * errors) ** 2
    variance = parts.sum()
    denominator = (parts**2 / freedom).sum()
    degrees = variance**2 / denominator if denominator > 0 else math.inf
    return math.sqrt(variance), float(degrees)


def _crossing(
    log_sizes: np.ndarray,
    log_ratios: np.ndarray,
    errors: np.ndarray,
    freedom: np.ndarray,
    slope: float,
) -> tuple[float, float, float] | None:
    """Find where the line is 0, and between which sizes 0 cannot be excluded.

    The interval is found by a search outwards from the crossing: the line at a size is a weighted
    sum of the log ratios too. None where 0 cannot be excluded at any size on one side.
    """
    mean = log_sizes.mean()
    centred = log_sizes - mean
    spread = (centred**2).sum()
    at = mean - log_ratios.mean() / slope

    def excluded(size: float) -> bool:
        weights = 1 / len(log_sizes) + centred * (size - mean) / spread
        error, degrees = _error(weights, errors, freedom)
        return abs(weights @ log_ratios) > stdtrit(degrees, 1 - SIGNIFICANCE / 2) * error

    ends = []
    for direction in (-1, 1):
        step = np.ptp(log_sizes) / 64
        far = at + direction * step
        while not excluded(far):
            step *= 2
            far = at + direction * step
            if step > 100 * np.ptp(log_sizes):
                return None
        near = at
        for _ in range(60):
            middle = (near + far) / 2
            near, far = (near, middle) if excluded(middle) else (middle, far)
        ends.append((near + far) / 2)
    return float(at), float(ends[0]), float(ends[1])
