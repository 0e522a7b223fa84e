"""Compute the resolution of a study: the smallest ratio that it distinguishes from 1.

The noise of a ratio has two parts, on the log scale: what seeds of one model differ by, which
more seeds make smaller, and what other items of the same benchmarks would change, which more seeds
do not make smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dreamer_study.sql.statistics.errors import POWER, SIGNIFICANCE, together

STUDIES = 20_000  # simulated


@dataclass(frozen=True)
class Noise:
    """The noise of a ratio on the log scale, as a study has measured it.

    `seed_deviation` is the standard deviation between seeds of one model. `item_error` is the
    standard error of the log ratio that comes from the benchmarks' `items` (0: not counted).
    `measured_on` is the study.
    """

    seed_deviation: float
    item_error: float
    measured_on: str
    items: int = 0

    def with_items(self, items: int) -> Noise:
        """Return the noise of a study with another number of items.

        Unchanged where one of the two numbers of items is not known. A standard error goes with one
        over the root of the number of items.
        """
        if not (items and self.items):
            return self
        error = self.item_error * math.sqrt(self.items / items)
        return replace(self, item_error=error, items=items)


def smallest_ratio(noise: Noise, seeds: int, significance: float = SIGNIFICANCE) -> float:
    """Compute the smallest ratio above 1 whose interval leaves out 1 in four of five studies.

    Both models have `seeds` seeds, and the interval, by default of 95 %, is Welch's, as in
    pairs.py. Found by simulation, because the degrees of freedom are estimated too. Infinite
    with one seed, which tells nothing of the others.

    Example: a deviation of 0.15 between 5 seeds and an item error of 0.03 give a standard error of
    0.10 and a smallest ratio of 1.38.
    """
    if seeds < 2:
        return math.inf
    random = np.random.default_rng(0)
    seed_variance = noise.seed_deviation**2 / seeds  # of the mean over the seeds of one model
    # Twice, as the deviation is of one model and a ratio is of two; the item error already is that
    # of the log ratio of both.
    standard_error = math.sqrt(2 * seed_variance + noise.item_error**2)
    errors = random.normal(0, standard_error, STUDIES)
    # What each study estimates the variances of its two models to be: over the true ones, estimates
    # are chi-squared with seeds - 1 degrees of freedom, by that number.
    ratios = random.chisquare(seeds - 1, (2, STUDIES))
    estimates = seed_variance * ratios / (seeds - 1)  # [2, STUDIES]
    half = together(estimates, [seeds, seeds], noise.item_error**2, significance).half()
    # A study with the true log ratio r measures r + error; its interval leaves out 0 where
    # r + error > half, which is r > half - error: four of five do for the 80 % quantile of that.
    return math.exp(float(np.quantile(half - errors, POWER)))
