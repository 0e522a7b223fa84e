"""Fit how a ratio of tokens changes with the size of the models: a straight line in logarithms.

    log ratio = level + slope * (log size - mean log size)

Each ratio comes from a study of its own, with its own standard error and degrees of freedom. Sizes
whose ratios are known better count for more (p_k = 1 / error_k^2, and the mean is weighted so too):

    slope = sum of w_k * log ratio_k,
    w_k = p_k * (x_k - mean x) / sum of p * (x - mean x)^2

The errors are known from seeds and items, so an interval comes from them and not from the scatter
around the line, of which three sizes have one degree of freedom and two have none. The variance of
any sum of w_k * log ratio_k has two parts:

    seeds:  sum of (w_k * seed_error_k)^2, as every size has seeds of its own;
    items:  the larger of sum of (w_k * item_error_k)^2 and (sum of w_k * item_error_k)^2.

All sizes are asked the same items, so their errors by items may be anything between independent and
the same. The variance is linear in this correlation, so it is largest at one of the two ends. In a
slope errors in common cancel, in a crossing they do not. Degrees of freedom are those of Welch and
Satterthwaite; the items' part counts as known. That the weights are estimates themselves costs no
coverage with four seeds, and equal weights gave wider intervals (docs/log.md).

The line is an assumption. With three sizes or more it is tested by the weighted sum of squares
around it, which is compared with c * F(f1, f2) (S. Johansen, The Welch-James approximation to the
distribution of the residual sum of squares in a weighted linear regression, Biometrika 67, 1980):

    f1 = K - 2,   A = sum of (1 - h_k)^2 / freedom_k,   h_k the leverage of a size,
    c = f1 + 2 A - 6 A / (f1 + 2),   f2 = f1 * (f1 + 2) / (3 A)

Errors in common make this test reject less often than it says, not more often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc, stdtr, stdtrit

from dreamer_study.sql.statistics.errors import SIGNIFICANCE

BESIDE = math.log(2)  # how far a crossing may lie outside the sizes that were measured
FARTHEST = math.log(100)  # how far an end of its interval may lie off


@dataclass(frozen=True)
class Points:
    """Log ratios [K] at log sizes [K], with their standard errors and degrees of freedom [K].

    `errors` are of seeds and items together, `item_errors` are the part of the items.
    """

    log_sizes: np.ndarray
    log_ratios: np.ndarray
    errors: np.ndarray
    item_errors: np.ndarray
    freedom: np.ndarray


@dataclass(frozen=True)
class Trend:
    """A slope of log ratios over log sizes (natural logarithms), with its 95 % interval.

    `p` tests the slope against 0. `p_of_line` tests whether the ratios lie on a line; None for two
    sizes. `crossing` is the log size at which the line is 0, where both models need equal tokens,
    with the interval of the sizes at which 0 cannot be excluded (Fieller). It is None where the
    slope's interval holds 0, as the line may then cross anywhere, where the crossing lies more than
    a factor of two outside the sizes that were measured, and where an end of its interval lies
    further away than a factor of 100.
    """

    slope: float
    low: float
    high: float
    p: float
    p_of_line: float | None
    crossing: tuple[float, float, float] | None


class _Line:
    """A line fitted with some weights: its slope, and its value at any size, as weights [K] of the
    log ratios."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self.log_sizes = points.log_sizes
        # without an error at all every size counts alike
        has_errors = points.errors.all()
        self.precision = 1 / points.errors**2 if has_errors else np.ones_like(points.errors)
        self.mean = self.precision @ self.log_sizes / self.precision.sum()
        self._shares = self.precision / self.precision.sum()
        centred = self.precision * (self.log_sizes - self.mean)
        self.of_slope = centred / (centred @ (self.log_sizes - self.mean))

    def at(self, log_size: float) -> np.ndarray:
        """Return the weights of the log ratios in the line's value at a size."""
        return self._shares + self.of_slope * (log_size - self.mean)

    def estimate(self, weights: np.ndarray) -> tuple[float, float, float]:
        """Return a weighted sum of the log ratios, half its 95 % interval, and p against 0."""
        value = float(weights @ self.points.log_ratios)
        error, freedom = _error(weights, self.points)
        half = float(stdtrit(freedom, 1 - SIGNIFICANCE / 2) * error)
        p = float(2 * stdtr(freedom, -abs(value) / error)) if error > 0 else float(value == 0)
        return value, half, p


def fit_trend(points: Points) -> Trend:
    """Fit a line through points of at least two different sizes."""
    assert np.ptp(points.log_sizes) > 0, "two different sizes"
    line = _Line(points)
    slope, half, p = line.estimate(line.of_slope)
    low, high = slope - half, slope + half
    crossing = _crossing(line) if low > 0 or high < 0 else None
    return Trend(slope, low, high, p, _p_of_line(line), crossing)


def line_at(points: Points, log_sizes: np.ndarray) -> np.ndarray:
    """Return the line at some log sizes [P] and the ends of its 95 % interval there, [3, P]."""
    line = _Line(points)
    estimates = [line.estimate(line.at(log_size)) for log_size in log_sizes]
    values, halves, _ = np.array(estimates).T
    return np.stack([values, values - halves, values + halves])


def _error(weights: np.ndarray, points: Points) -> tuple[float, float]:
    """Return the standard error of a weighted sum of log ratios, and its degrees of freedom."""
    of_items = weights * points.item_errors
    apart = (of_items**2).sum()
    in_common = of_items.sum() ** 2
    parts = (weights * points.errors) ** 2
    variance = parts.sum() - apart + max(apart, in_common)
    # part^2 / freedom is the same of seeds alone: the items' part is known
    denominator = (parts**2 / points.freedom).sum()
    freedom = variance**2 / denominator if denominator > 0 else math.inf
    return math.sqrt(variance), float(freedom)


def _p_of_line(line: _Line) -> float | None:
    """Test whether the ratios lie on a line (Johansen); None with two points or without errors."""
    points = line.points
    free = len(points.log_sizes) - 2
    if free < 1 or not points.errors.all():
        return None
    fitted = np.array([line.at(log_size) for log_size in points.log_sizes])  # [K, K]
    around = points.log_ratios - fitted @ points.log_ratios
    squares = line.precision @ around**2
    spread = (((1 - fitted.diagonal()) ** 2) / points.freedom).sum()
    scale = free + 2 * spread - 6 * spread / (free + 2)
    second = free * (free + 2) / (3 * spread) if spread > 0 else math.inf
    # scipy's F takes no infinite degrees of freedom
    return float(fdtrc(free, min(second, 1e9), squares / scale))


def _crossing(line: _Line) -> tuple[float, float, float] | None:
    """Find the log size where the line is 0, and between which sizes 0 cannot be excluded.

    None where that is too far from the sizes that were measured.
    """
    smallest = float(line.log_sizes.min())
    largest = float(line.log_sizes.max())
    ratios = line.points.log_ratios
    at = float(line.mean - (line.at(line.mean) @ ratios) / (line.of_slope @ ratios))
    if not smallest - BESIDE <= at <= largest + BESIDE:
        return None

    def is_excluded(log_size: float) -> bool:
        value, half, _ = line.estimate(line.at(log_size))
        return abs(value) > half

    ends = []
    for farthest in (smallest - FARTHEST, largest + FARTHEST):
        if not is_excluded(farthest):
            return None
        inside, outside = at, farthest
        for _ in range(50):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if is_excluded(middle) else (middle, outside)
        ends.append(outside)
    return at, ends[0], ends[1]
