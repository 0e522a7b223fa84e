"""Count how often the statements about a slope over sizes are right.

    python -m benchmarks.intervals.trends [--studies 500]

Decides whether `dreamer compare --over` may be believed. A case is three studies, of models 64, 96
and 128 wide, at equal tokens. Each study is simulated as in `coverage.py`, with seeds of its own.

The protocol, fixed before any of the numbers was looked at. An earlier one (docs/log.md) chose the
weights of the fit; since then errors of items that sizes share are covered, and the line is tested:

* Designs of a case:
  * `equal`, two models of one law at each size, true slope 0; every size draws a law, a number of
    items and items of its own.
  * `population`, two models as studies may come at the smallest size, of which the variant is
    faster by 1.2 times for each doubling of the width. The true slope is that of the line through
    the true ratios of the three sizes, fitted as the measured ones are, so curves that bend are no
    fault of the interval.
  * `shared`, as `equal`, with the same items at all sizes, and half of a run's own luck with an
    item is that of its architecture: equal for all seeds and sizes of a model, so that errors of
    the items have much in common.
  * `crossing`, two models of one law, of which the variant needs 1.5 times the tokens at the
    smallest size and 1 / 1.5 times at the largest, by a line in logarithms; with the same items and
    the luck of architectures as in `shared`. Both models need equal tokens at the middle of the
    sizes in logarithms.
* 4 seeds of each model, 500 cases of each design, 200 replicates of the items, random numbers from
  [2031, design]. A size without an interval is left out; a case with fewer than two sizes says
  nothing.
* Reported of the cases that say something: the share of intervals of the slope that hold the true
  one; the median half width; the share of the cases that name a crossing; of these, and of all
  cases, the share whose crossing's interval holds the true one (a case of `crossing` without one is
  counted as right: it says nothing); the share in which the test of the line has p below 0.05, of
  cases with three sizes, which in `population` is about curves that bend too; and the share of all
  cases that say something.
* Concluded: the interval of a slope holds if its share lies between 93 and 97 % in `equal` and
  `population`, and is 93 % or more in `shared` and `crossing`, where it may be too wide. Crossings
  hold if in `crossing` no more than 7 % of all cases name a wrong one, and in `equal` and `shared`
  no more than 7 % name any. The test of the line holds if at most 7 % of `equal` and of `shared`
  reject it. A number that disappoints stays, and is written down as such.

This is the second run of the protocol. In the first one, with random numbers from [2029, design], a
size whose variant had missed the baseline's best was left out too. At equal tokens that leaves out
every clear ratio above 1 and none below, as a test of the command showed, not these numbers; and
`shared` mixed accuracies with laws of losses, a fault of the simulation. docs/log.md has both runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from benchmarks.intervals.coverage import curves_of, truth
from benchmarks.intervals.designs import equal
from benchmarks.intervals.simulated_studies import OF_RUN, Design, population, scores
from dreamer_study.sql.statistics.errors import SIGNIFICANCE
from dreamer_study.sql.statistics.pairs import Comparison, compare_models
from dreamer_study.sql.statistics.trends import Points, fit_trend

SEEDS = 4
WIDTHS = np.array([64, 96, 128])
LOG_SIZES = 2 * np.log(WIDTHS)  # FLOPs grow with the square of the width
MIDDLE = float((LOG_SIZES[0] + LOG_SIZES[-1]) / 2)
GAIN = 1.2  # of the variant's speed, for each doubling of the width
FARTHEST_RATIO = 1.5  # of `crossing`, at the smallest size
DESIGNS = ("equal", "population", "shared", "crossing")
SAME_ITEMS = ("shared", "crossing")


def designs(name: str, random: np.random.Generator) -> list[Design]:
    """Draw the designs of a case, from the smallest size to the largest."""
    if name == "population":
        smallest = population(random, SEEDS)
        return [_faster(smallest, GAIN**doublings) for doublings in np.log2(WIDTHS / WIDTHS[0])]
    drawn = [equal(random, SEEDS) for _ in WIDTHS]
    if name == "equal":
        return drawn
    if name == "shared":
        return [_like(drawn[0], of, random) for of in drawn]
    away = (LOG_SIZES - MIDDLE) / (LOG_SIZES[-1] - MIDDLE)  # -1 at the smallest, 1 at the largest
    return [_faster(drawn[0], FARTHEST_RATIO**share) for share in away]


def _like(first: Design, of: Design, random: np.random.Generator) -> Design:
    """Return a design of as many items as the first one, drawn again until both score alike."""
    while of.loss != first.loss:
        of = equal(random, SEEDS)
    return replace(of, items=first.items)


def _faster(of: Design, speed: float) -> Design:
    baseline, variant = of.laws

    def faster(tokens: np.ndarray) -> np.ndarray:
        return variant(tokens * speed)

    return replace(of, laws=(baseline, faster))


def answers(
    drawn: Sequence[Design], random: np.random.Generator, *, same: bool
) -> list[np.ndarray]:
    """Draw the scores of a case's studies, with the `same` items and luck of architectures."""
    if not same:
        return [scores(of, random) for of in drawn]
    items = random.standard_normal((drawn[0].items, 1, 1, 1))
    luck = OF_RUN * math.sqrt(0.5) * random.standard_normal((drawn[0].items, 2, 1, 1))
    return [scores(of, random, items=items, luck=luck) for of in drawn]


def case(name: str, random: np.random.Generator) -> dict[str, float]:
    """Simulate one case: what is counted of it; NaN where it says nothing."""
    drawn = designs(name, random)
    answered = answers(drawn, random, same=name in SAME_ITEMS)
    found = [
        compare_models(*curves_of(of, of_size, random))
        for of, of_size in zip(drawn, answered, strict=True)
    ]
    true = np.array([truth(of).ratio for of in drawn])
    on_line = np.array([_is_on_line(each) for each in found]) & ~np.isnan(true)
    if on_line.sum() < 2:
        return {"says": 0.0}
    points = _points(found, on_line)
    trend = fit_trend(points)
    true_slope = fit_trend(replace(points, log_ratios=true[on_line])).slope
    counted = {
        "says": 1.0,
        "inside": float(trend.low <= true_slope <= trend.high),
        "half": (trend.high - trend.low) / 2,
        "crosses": float(trend.crossing is not None),
        "not_wrong": 1.0,
    }
    if trend.p_of_line is not None:
        counted["rejects_line"] = float(trend.p_of_line < SIGNIFICANCE)
    if trend.crossing is not None:
        _, low, high = trend.crossing
        counted["crossing_inside"] = float(name == "crossing" and low <= MIDDLE <= high)
        counted["not_wrong"] = counted["crossing_inside"]
    return counted


def _is_on_line(found: Comparison) -> bool:
    return None not in (found.ratio, found.low, found.high)


def _points(found: Sequence[Comparison], on_line: np.ndarray) -> Points:
    kept = [each for each, is_kept in zip(found, on_line, strict=True) if is_kept]
    item_errors = np.array([each.item_error or 0.0 for each in kept])
    seed_errors = np.array([each.seed_error for each in kept])
    return Points(
        log_sizes=LOG_SIZES[on_line],
        log_ratios=np.log([each.ratio for each in kept]),
        errors=np.hypot(seed_errors, item_errors),
        item_errors=item_errors,
        freedom=np.array([each.degrees_of_freedom for each in kept]),
    )


COLUMNS = (
    "design",
    "slope holds %",
    "half width",
    "names a crossing %",
    "of these right %",
    "no wrong crossing %",
    "line rejected %",
    "says something %",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=500, help="cases of each design")
    parser.add_argument("--random", type=int, default=2031, help="seed of the random numbers")
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for number, name in enumerate(DESIGNS):
        random = np.random.default_rng([options.random, number])
        cases = pd.DataFrame([case(name, random) for _ in range(options.studies)])
        if "crossing_inside" not in cases:  # no case names a crossing
            cases["crossing_inside"] = math.nan
        mean = 100 * cases.mean()
        cells = [
            name,
            f"{mean['inside']:.1f}",
            f"{cases['half'].median():.3f}",
            f"{mean['crosses']:.1f}",
            f"{mean['crossing_inside']:.1f}",
            f"{mean['not_wrong']:.1f}",
            f"{mean['rejects_line']:.1f}",
            f"{mean['says']:.1f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
