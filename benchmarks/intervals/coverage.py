"""Count how often the 95 % intervals of ratios hold the true ones, by the kind of study.

    python -m benchmarks.intervals.coverage [--studies 1000] [--designs population]

Decides whether the method of the intervals may be believed. Each study is simulated, of a design of
its own (`designs.py`). What is estimated is the ratio of the true curves: the same function of the
means over seeds and items as of the measured curves (`token_ratios.log_ratios`).

The protocol, fixed before any of the numbers was looked at:

* Designs: `population`, as studies may come; `equal`, two models of one law; `plateau`, a variant
  that ends well below the baseline; `decay-along` and `decay-at-ends`, a true ratio of 0.667 where
  the learning rate decays over the last fifth of each run, read along single runs of equal lengths,
  and between runs that both end within 3 % of the score that is compared.
* 3, 4, 5 and 8 seeds of each model, 1,000 studies of each design and number of seeds, 200
  replicates of the items, random numbers from [2026, design, seeds].
* Reported of the ratio: the share of intervals that hold the truth, in percent of the studies with
  an interval; the median of high / low; the mean of log ratio - log true ratio (bias); the share of
  studies with an interval. Beside them coverage and width of the mean factor.
* Reported of decays: the share of intervals that hold the ratio of fully decayed runs, which is
  that of the curve through the ends of runs of many lengths; the share of studies whose ratio is
  called a bound, by the rule of the view token_ratios; and the share of all studies whose statement
  holds. A statement is the interval, or, of a bound, its one end: the ratio of fully decayed runs
  is not above `high` where the ratio is 'at most', nor below `low` where it is 'at least'.
* Concluded: the intervals hold if coverage is 93 to 98 % in the population with each number of
  seeds and no design is below 92 (decays by their own estimand); if the bias on plateaus is at most
  0.10 in log; and if in the population the median of high / low is at most 1.10 times that of the
  mean factor, with each number of seeds. Decays are handled if nine in ten of `decay-along` are
  called a bound, and in both designs at least 92 % of the statements hold.

A number that disappoints stays, and is written down as such.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.intervals.designs import DESIGNS
from benchmarks.intervals.simulated_studies import DECAY_FROM, Design, scores
from dreamer_study.sql.statistics.bootstrap import resample
from dreamer_study.sql.statistics.curves import SeedCurves
from dreamer_study.sql.statistics.mean_factors import log_mean_factors
from dreamer_study.sql.statistics.pairs import Comparison, compare_models
from dreamer_study.sql.statistics.token_ratios import log_ratios

REPLICATES = 200
AT_ITS_END = 0.97  # of a run: a score that it reaches after this share is that of the decayed run


@dataclass(frozen=True)
class Truth:
    """The logarithms of the true numbers of a design; NaN without a common range."""

    ratio: float
    ratio_when_decayed: float
    mean_factor: float


def truth(of: Design) -> Truth:
    """Compute the numbers of the expected curves."""
    baseline, variant = (_true_curve(of, model, of.expected(model)) for model in range(2))
    ends = [_true_curve(of, model, of.expected_when_decayed(model)) for model in range(2)]
    return Truth(
        ratio=log_ratios(baseline.mean, variant.mean)[0],
        ratio_when_decayed=log_ratios(*(curve.mean for curve in ends))[0],
        mean_factor=log_mean_factors(baseline.mean, variant.mean)[0],
    )


def _true_curve(of: Design, model: int, expected: np.ndarray) -> SeedCurves:
    return SeedCurves(np.log(of.tokens(model)), expected[None], None, of.noise_floor)


def curves_of(
    of: Design, answered: np.ndarray, random: np.random.Generator
) -> tuple[SeedCurves, SeedCurves]:
    """Make the curves of a simulated study's baseline and variant, with the draws of their items.

    `answered` has the scores [I, 2, N, C] of items, models, seeds and checkpoints.
    """
    means = answered.mean(axis=0)
    by_item = answered.mean(axis=2).reshape(of.items, -1)
    replicates = np.vstack([by_item.mean(axis=0), resample(by_item, REPLICATES, random)])
    drawn = replicates.reshape(-1, 2, of.checkpoints)
    first, second = (
        SeedCurves(np.log(of.tokens(model)), means[model], drawn[:, model], of.noise_floor)
        for model in range(2)
    )
    return first, second


def decay_bound(of: Design, found: Comparison) -> str | None:
    """Say what bound a ratio is where a score was reached while the rate decays.

    The rule is that of sql/views/ratios/token_ratios_against.sql, where it reads tables.
    """
    if not of.decay or found.ratio is None:
        return None
    baseline_share = found.baseline_tokens / of.lengths[0]
    share = found.variant_tokens / of.lengths[1]
    if max(share, baseline_share) <= DECAY_FROM or min(share, baseline_share) >= AT_ITS_END:
        return None
    return "at most" if share < baseline_share else "at least"


def study(of: Design, random: np.random.Generator) -> dict[str, float]:
    """Simulate one study: what is counted of its ratio and its mean factor; NaN where unknown."""
    found = compare_models(*curves_of(of, scores(of, random), random))
    true = truth(of)
    counted = {
        "has_interval": 0.0,
        "mean_factor_inside": _holds(
            found.mean_factor_low, found.mean_factor_high, true.mean_factor
        ),
        "mean_factor_width": _width(found.mean_factor_low, found.mean_factor_high),
    }
    if None in (found.ratio, found.low, found.high) or np.isnan(true.ratio):
        return counted
    bound = decay_bound(of, found)
    holds_when_decayed = _holds(
        0.0 if bound == "at most" else found.low,
        np.inf if bound == "at least" else found.high,
        true.ratio_when_decayed,
    )
    return counted | {
        "has_interval": 1.0,
        "inside": _holds(found.low, found.high, true.ratio),
        "width": _width(found.low, found.high),
        "bias": np.log(found.ratio) - true.ratio,
        "inside_when_decayed": _holds(found.low, found.high, true.ratio_when_decayed),
        "is_bound": float(bound is not None),
        "statement_holds": holds_when_decayed,
    }


def _holds(low: float | None, high: float | None, true_logarithm: float) -> float:
    if low is None or high is None or np.isnan(true_logarithm):
        return np.nan
    return float(low <= np.exp(true_logarithm) <= high)


def _width(low: float | None, high: float | None) -> float:
    return np.nan if low is None or high is None else high / low


def summary(studies: pd.DataFrame, *, decays: bool) -> list[str]:
    """Put the numbers of studies of one design into the cells of a row."""
    median = studies.median()
    percent = 100 * studies.mean()
    cells = [
        f"{percent['inside']:.1f}",
        f"{median['width']:.2f}",
        f"{studies['bias'].mean():+.3f}",
        f"{percent['has_interval']:.1f}",
        f"{percent['mean_factor_inside']:.1f}",
        f"{median['mean_factor_width']:.2f}",
    ]
    of_decays = ("inside_when_decayed", "is_bound", "statement_holds")
    return cells + [f"{percent[name]:.1f}" if decays else "" for name in of_decays]


COLUMNS = (
    "design",
    "seeds",
    "ratio holds %",
    "high / low",
    "bias",
    "with interval %",
    "mean factor holds %",
    "high / low",
    "holds decayed %",
    "called bound %",
    "statement holds %",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=1000, help="of each design and seeds")
    parser.add_argument("--seeds", type=int, nargs="+", default=(3, 4, 5, 8), help="of each model")
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--random", type=int, default=2026, help="seed of the random numbers")
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for name in options.designs:
        for seeds in options.seeds:
            random = np.random.default_rng([options.random, list(DESIGNS).index(name), seeds])
            designs = (DESIGNS[name](random, seeds) for _ in range(options.studies))
            studies = pd.DataFrame([study(of, random) for of in designs])
            cells = [name, str(seeds), *summary(studies, decays=name.startswith("decay"))]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
