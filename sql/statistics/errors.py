"""Combine errors into the interval, the p-value and the smallest detectable effect of a number.

A variance is a sum of parts: one for the seeds of each side, and one for the items. The parts of
the seeds are estimated from few seeds. So an interval uses Student's t quantile, with the degrees
of freedom of all parts together (Welch, Satterthwaite). The part of the items comes from hundreds
of items and counts as known, with infinitely many degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit  # scipy.stats takes a second to be imported

SIGNIFICANCE = 0.05  # an interval leaves out the truth in one of twenty studies
POWER = 0.8  # an effect is detectable that four of five studies distinguish from none


@dataclass(frozen=True)
class Errors:
    """The standard errors of several numbers, and the degrees of freedom of each error.

    `size` and `freedom` are arrays of equal shape. An interval leaves out the truth as often as
    `significance` says: less often where the interval is one of several looks.
    """

    size: np.ndarray
    freedom: np.ndarray
    significance: float = SIGNIFICANCE

    def half(self) -> np.ndarray:
        """Compute half the width of the interval: t(1 - significance / 2) * standard error."""
        return stdtrit(self.freedom, 1 - self.significance / 2) * self.size

    def p(self, values: np.ndarray) -> np.ndarray:
        """Test whether numbers are other than 0: p = 2 * P(t < -|value| / standard error).

        A number without an error is other than 0 with p 0. Where intervals are wider, as one of
        several looks, p is larger by the same ratio: p below 0.05 means in any case that the
        interval leaves out 0.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.where(values == 0, 0, np.abs(values) / self.size)
        scale = SIGNIFICANCE / self.significance
        return np.minimum(1, 2 * stdtr(self.freedom, -distance) * scale)

    @property
    def detectable(self) -> np.ndarray:
        """Return the smallest number above 0 that four of five such studies distinguish from 0.

        (t(1 - significance / 2) + t(POWER)) * standard error, the usual approximation, with the
        errors as measured. Before a study, `smallest_ratio` simulates the degrees of freedom.
        """
        return self.half() + stdtrit(self.freedom, POWER) * self.size


def together(
    parts: Sequence[np.ndarray],
    seeds: Sequence[int],
    of_items: np.ndarray | float = 0.0,
    significance: float = SIGNIFICANCE,
) -> Errors:
    """Add variances: a part from the spread of the seeds of each side, and the items' variance.

    Degrees of freedom by Welch and Satterthwaite, in which the items' part, as good as known, drops
    out of the denominator:

        (sum of all variances)^2 / sum over parts of [part^2 / (seeds - 1)]

    Infinite where the seeds have no spread at all; NaN where a part is unknown (NaN).
    """
    variance = sum(parts) + np.asarray(of_items)
    denominator = sum(part**2 / (count - 1) for part, count in zip(parts, seeds, strict=True))
    without_spread = np.where(np.isnan(denominator), np.nan, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(denominator > 0, variance**2 / denominator, without_spread)
    return Errors(np.sqrt(variance), freedom, significance)


def jackknife(without_one: np.ndarray) -> np.ndarray:
    """Estimate the variances of statistics [T] from their values without one seed each [N, T].

    (N - 1) / N * sum of (value without a seed - their mean)^2, by Efron: the variance of the
    statistic itself, which is of all N seeds.
    """
    seeds = len(without_one)
    return (seeds - 1) / seeds * ((without_one - without_one.mean(axis=0)) ** 2).sum(axis=0)


def holm(p: np.ndarray) -> np.ndarray:
    """Adjust p-values by Holm's method; none may be NaN, which would count as a test.

    The smallest of n p-values is multiplied by n, the next one by n - 1, and so on. No adjusted
    value is below the adjusted value of a smaller one. Adjusted p-values below a level are
    significant at this level over all tests together.
    """
    order = np.argsort(p)
    remaining_tests = np.arange(len(p), 0, -1)
    adjusted = np.maximum.accumulate(p[order] * remaining_tests).clip(max=1.0)
    return adjusted[np.argsort(order)]
