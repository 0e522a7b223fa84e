"""Compute the resolution of a study: the smallest mean factor that the study tells from 1.

The noise of a mean factor has two parts, on the log scale: what seeds of one model differ by, which
more seeds make smaller, and what other items of the same benchmarks would change, which they do
not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dreamer_study.sql.statistics.errors import POWER, SIGNIFICANCE, together

STUDIES = 20_000  # simulated


@dataclass(frozen=True)
class Noise:
    """The noise of a mean factor on the log scale, as a study has measured it.

    `seed_deviation` is the standard deviation between seeds of one model, `item_error` the standard
    error that comes from the benchmarks' `items` (0: not counted), `measured_on` the study.
    """

    seed_deviation: float
    item_error: float
    measured_on: str
    items: int = 0

    def with_items(self, items: int) -> Noise:
        """Return the noise of a study with so many items; unchanged where one of the two numbers is
        not known."""
        if not (items and self.items):
            return self
        return replace(
            self, item_error=self.item_error * math.sqrt(self.items / items), items=items
        )


def smallest_factor(noise: Noise, seeds: int, significance: float = SIGNIFICANCE) -> float:
    """Compute the smallest factor above 1 whose interval, by default of 95 %, leaves out 1 in four
    of five studies.

    Both models have `seeds` seeds, and the interval is Welch's, as in mean_factors.py. Found by
    simulation, because the degrees of freedom are estimated too. Infinite with one seed, which
    tells nothing of the others.

    Example: a deviation of 0.15 between 5 seeds and an item error of 0.03 give a standard error of
    0.10 and a smallest factor of 1.38.
    """
    if seeds < 2:
        return math.inf
    random = np.random.default_rng(0)
    seed_variance = noise.seed_deviation**2 / seeds  # of the mean position of one model
    errors = random.normal(0, math.sqrt(2 * seed_variance + noise.item_error**2), STUDIES)
    estimates = seed_variance * random.chisquare(seeds - 1, (2, STUDIES)) / (seeds - 1)
    half = together(estimates, [seeds, seeds], noise.item_error**2, significance).half()
    # a study tells where factor + error > half
    return math.exp(float(np.quantile(half - errors, POWER)))
