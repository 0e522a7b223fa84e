"""Fit how a ratio of tokens changes with the size of the models: a straight line in logarithms.

    log ratio = level + slope * (log size - mean log size)

Each ratio comes from a study of its own, with its own standard error and degrees of freedom. Sizes
whose ratios are known better count for more (p_k = 1 / error_k^2, and the mean is weighted so too):

    slope = sum of w_k * log ratio_k,
    w_k = p_k * (x_k - mean x) / sum of p * (x - mean x)^2

The slope's variance is the sum of w_k^2 * error_k^2, with the degrees of freedom of Welch and
Satterthwaite. That the weights are estimates themselves costs no coverage with four seeds, and
equal weights gave wider intervals (benchmarks/intervals/trends.py). The line itself is not tested:
of three sizes one degree of freedom is left.

Studies that ask the same items, or train the same seeds, err in the same direction. Such errors
cancel in a slope, whose interval is then too wide rather than too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from dreamer_study.sql.statistics.errors import SIGNIFICANCE

FARTHEST = 100  # times the range of the sizes that an end of a crossing's interval may lie off


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


class _Line:
    """A line fitted with some weights: its slope, and its value at any size, as weights [K] of the
    log ratios."""

    def __init__(self, log_sizes: np.ndarray, precision: np.ndarray) -> None:
        self.log_sizes = log_sizes
        self.mean = precision @ log_sizes / precision.sum()
        self._shares = precision / precision.sum()
        centred = precision * (log_sizes - self.mean)
        self.of_slope = centred / (centred @ (log_sizes - self.mean))

    def at(self, log_size: float) -> np.ndarray:
        """Return the weights of the log ratios in the line's value at a size."""
        return self._shares + self.of_slope * (log_size - self.mean)


def fit_trend(
    log_sizes: np.ndarray, log_ratios: np.ndarray, errors: np.ndarray, freedom: np.ndarray
) -> Trend:
    """Fit a line through log ratios [K] at log sizes [K], of standard errors [K] and freedoms [K].

    Needs two different sizes.
    """
    assert np.ptp(log_sizes) > 0, "two different sizes"
    line = _Line(log_sizes, 1 / errors**2 if errors.all() else np.ones_like(errors))
    weights = line.of_slope
    slope = float(weights @ log_ratios)
    error, degrees = _error(weights, errors, freedom)
    half = float(stdtrit(degrees, 1 - SIGNIFICANCE / 2) * error)
    p = float(2 * stdtr(degrees, -abs(slope) / error)) if error > 0 else float(slope == 0)
    low, high = slope - half, slope + half
    crossing = None
    if low > 0 or high < 0:
        crossing = _crossing(line, log_ratios, errors, freedom)
    return Trend(slope, low, high, p, crossing)


def _error(weights: np.ndarray, errors: np.ndarray, freedom: np.ndarray) -> tuple[float, float]:
    """Return the standard error of a weighted sum of log ratios, and its degrees of freedom."""
    parts = (weights * errors) ** 2
    variance = parts.sum()
    denominator = (parts**2 / freedom).sum()
    degrees = variance**2 / denominator if denominator > 0 else math.inf
    return math.sqrt(variance), float(degrees)


def _crossing(
    line: _Line, log_ratios: np.ndarray, errors: np.ndarray, freedom: np.ndarray
) -> tuple[float, float, float] | None:
    """Find the log size where the line is 0, and between which sizes 0 cannot be excluded.

    None where 0 cannot be excluded at any size on one side.
    """
    range_of_sizes = np.ptp(line.log_sizes)
    at = line.mean - (line.at(line.mean) @ log_ratios) / (line.of_slope @ log_ratios)

    def is_excluded(log_size: float) -> bool:
        weights = line.at(log_size)
        error, degrees = _error(weights, errors, freedom)
        return abs(weights @ log_ratios) > stdtrit(degrees, 1 - SIGNIFICANCE / 2) * error

    ends = []
    for direction in (-1, 1):
        distance = range_of_sizes / 64
        while not is_excluded(at + direction * distance):
            distance *= 2
            if distance > FARTHEST * range_of_sizes:
                return None
        inside, outside = 0.0, distance
        for _ in range(50):
            middle = (inside + outside) / 2
            inside, outside = (
                (inside, middle) if is_excluded(at + direction * middle) else (middle, outside)
            )
        ends.append(at + direction * outside)
    return float(at), float(ends[0]), float(ends[1])
