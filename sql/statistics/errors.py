"""Put errors together: the interval, the p-value and the smallest effect of a number with a spread
between seeds.

Each part of a variance has its degrees of freedom, and together they have Welch's and
Satterthwaite's. Hundreds of items leave their part as good as known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit  # scipy.stats takes a second to be imported

SIGNIFICANCE, POWER = 0.05, 0.8


@dataclass(frozen=True)
class Errors:
    """The standard errors of several numbers, and the degrees of freedom of each error: arrays of
    equal shape.

    An interval leaves out the truth as often as `significance` says: less often where it is one of
    several looks.
    """

    size: np.ndarray
    freedom: np.ndarray
    significance: float = SIGNIFICANCE

    def half(self) -> np.ndarray:
        """Compute half the width of the interval."""
        return stdtrit(self.freedom, 1 - self.significance / 2) * self.size

    def p(self, values: np.ndarray) -> np.ndarray:
        """Test whether numbers are other than 0; a number without error is. Below 0.05 the interval
        leaves out 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.where(values == 0, 0, np.abs(values) / self.size)
        return np.minimum(
            1, 2 * stdtr(self.freedom, -distance) * (SIGNIFICANCE / self.significance)
        )

    @property
    def detectable(self) -> np.ndarray:
        """Return the smallest number above 0 that four of five such studies tell from 0."""
        return self.half() + stdtrit(self.freedom, POWER) * self.size


def together(
    parts: Sequence[np.ndarray],
    seeds: Sequence[int],
    of_items: np.ndarray | float = 0.0,
    significance: float = SIGNIFICANCE,
) -> Errors:
    """Add the variances that come from the spread of so many seeds each, and the items' variance,
    which is known."""
    variance = sum(parts) + np.asarray(of_items)
    spent = sum(part**2 / (count - 1) for part, count in zip(parts, seeds, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(
            spent > 0, variance**2 / spent, np.where(np.isnan(spent), np.nan, np.inf)
        )
    return Errors(np.sqrt(variance), freedom, significance)


def jackknife(without_one: np.ndarray) -> np.ndarray:
    """Estimate the variances of statistics [T] from their values without one seed each [N, T]."""
    seeds = len(without_one)
    return (seeds - 1) / seeds * ((without_one - without_one.mean(axis=0)) ** 2).sum(axis=0)


def holm(p: np.ndarray) -> np.ndarray:
    """Adjust p-values by Holm's method: those below a level are significant with all tests taken
    together."""
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1.0)
    return adjusted[np.argsort(order)]
