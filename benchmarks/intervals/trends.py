"""Count how often the 95 % interval of a slope over sizes holds the true one.

    python -m benchmarks.intervals.trends [--studies 500]

Decides whether `dreamer compare --over` may be believed, and by which weights the line is fitted. A
case is three studies, of models 64, 96 and 128 wide, at equal tokens. Each study is simulated as in
`coverage.py`, with random numbers of its own.

The protocol, fixed before any of the numbers was looked at:

* Designs: `equal`, two models of one law at each size, true slope 0; `population`, two models as
  studies may come at the smallest size, of which the variant is faster by 1.2 times for each
  doubling of the width. The true slope is that of the line through the true ratios of the three
  designs, fitted as the measured ones are, so curves that bend are no fault of the interval.
* 4 seeds of each model, 500 cases of each design, 200 replicates of the items, random numbers from
  [2027, design].
* Two fits: all sizes alike, and weights by the inverse squares of the measured errors. Both have
  the degrees of freedom of Welch and Satterthwaite.
* Reported of each: the share of intervals that hold the true slope, in percent of the cases with
  three intervals; the median half width; the share of cases with three intervals.
* Concluded: the fit whose share lies between 93 and 97 % in both designs, and of two such fits the
  one with the narrower interval in `population`, if it is narrower by more than 2 %; else all sizes
  alike. Where neither lies there, that is written down, and the wider interval stays.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from benchmarks.intervals.coverage import curves_of, truth
from benchmarks.intervals.designs import equal
from benchmarks.intervals.simulated_studies import Design, Law, population, scores
from dreamer_study.sql.statistics.pairs import Comparison, compare_models
from dreamer_study.sql.statistics.trends import fit_trend

SEEDS = 4
WIDTHS = np.array([64, 96, 128])
LOG_SIZES = 2 * np.log(WIDTHS)  # FLOPs grow with the square of the width
GAIN = 1.2  # of the variant's speed, for each doubling of the width
DESIGNS = ("equal", "population")


def designs(name: str, random: np.random.Generator) -> list[Design]:
    """Draw the designs of a case, from the smallest size to the largest."""
    if name == "equal":
        return [equal(random, SEEDS) for _ in WIDTHS]
    smallest = population(random, SEEDS)
    baseline, variant = smallest.laws
    doublings = np.log2(WIDTHS / WIDTHS[0])
    return [
        replace(smallest, laws=(baseline, _faster(variant, GAIN**times))) for times in doublings
    ]


def _faster(law: Law, speed: float) -> Law:
    return lambda tokens: law(tokens * speed)


def case(name: str, random: np.random.Generator) -> dict[str, float]:
    """Simulate one case: what is counted of both fits; NaN without three intervals."""
    drawn = designs(name, random)
    found = [compare_models(*curves_of(of, scores(of, random), random)) for of in drawn]
    true = np.array([truth(of).ratio for of in drawn])
    if not all(map(_has_interval, found)) or np.isnan(true).any():
        return {"has_intervals": 0.0}
    log_ratios = np.log([each.ratio for each in found])
    errors = np.array([math.hypot(each.seed_error, each.item_error or 0.0) for each in found])
    freedom = np.array([each.degrees_of_freedom for each in found])
    counted = {"has_intervals": 1.0}
    low, high, true_slope = alike(log_ratios, errors, freedom, true)
    counted["alike_inside"] = float(low <= true_slope <= high)
    counted["alike_half"] = (high - low) / 2
    trend = fit_trend(LOG_SIZES, log_ratios, errors, freedom)
    counted["weighted_inside"] = float(trend.low <= _true_weighted(errors, true) <= trend.high)
    counted["weighted_half"] = (trend.high - trend.low) / 2
    return counted


def alike(
    log_ratios: np.ndarray, errors: np.ndarray, freedom: np.ndarray, true: np.ndarray
) -> tuple[float, float, float]:
    """Fit with equal weights: the ends of the interval, and the slope of the truth."""
    centred = LOG_SIZES - LOG_SIZES.mean()
    weights = centred / (centred**2).sum()
    parts = (weights * errors) ** 2
    degrees = parts.sum() ** 2 / (parts**2 / freedom).sum()
    half = stdtrit(degrees, 0.975) * math.sqrt(parts.sum())
    slope = weights @ log_ratios
    return slope - half, slope + half, weights @ true


def _true_weighted(errors: np.ndarray, true: np.ndarray) -> float:
    """Fit the true ratios with the weights that the measured ones have."""
    return fit_trend(LOG_SIZES, true, errors, np.full(len(true), np.inf)).slope


def _has_interval(found: Comparison) -> bool:
    return None not in (found.ratio, found.low, found.high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=500, help="cases of each design")
    parser.add_argument("--random", type=int, default=2027, help="seed of the random numbers")
    options = parser.parse_args()
    print("| design | fit | holds % | half width | with intervals % |\n|---|---|---|---|---|")
    for number, name in enumerate(DESIGNS):
        random = np.random.default_rng([options.random, number])
        cases = pd.DataFrame([case(name, random) for _ in range(options.studies)])
        for fit in ("alike", "weighted"):
            inside = 100 * cases[f"{fit}_inside"].mean()
            half = cases[f"{fit}_half"].median()
            has = 100 * cases["has_intervals"].mean()
            print(f"| {name} | {fit} | {inside:.1f} | {half:.3f} | {has:.1f} |", flush=True)


if __name__ == "__main__":
    main()
