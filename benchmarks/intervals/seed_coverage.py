"""Count how often the 95 % intervals of the mean factor hold the true one, on simulated studies with several seeds.

    python -m benchmarks.intervals.seed_coverage [--studies 400] [--set population|scenarios]
                                                    [--seeds 3 4 5 8] [--seed N]

The true mean factor is that of the true curves, the means over seeds and items. The columns hold the share of studies
in percent whose interval contains the truth and, in brackets, the median of high / low. `each by itself` is the method
in use: each model's seeds show their own spread. `pooled` takes one spread from all three models instead. `first rule`
is the interval of the paper's factor for the same studies, items and seeds drawn, without noise of training; its width
is infinite where open.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from scipy.stats import t as t_distribution

from benchmarks.intervals.coverage import contains, observed_factor
from benchmarks.intervals.simulated_seeds import SCENARIOS, SeededDesign, population, seed_scores
from sql.statistics.bootstrap import ReplicatedCurve, resample
from sql.statistics.factor_intervals import Factors, factor_interval, grid_interval, possible_goals, spanning
from sql.statistics.mean_factors import SeedCurves, mean_factor_interval, mean_log_factor

REPLICATES = 200
METHODS = ("each by itself", "pooled", "first rule")
Ends = tuple[float, float]


def truth(of: SeededDesign) -> tuple[float, Factors]:
    """Compute the mean factor of the expected curves, and the factor by the paper's rule."""
    sign = -1 if of.loss else 1
    curves = [sign * of.expected(model) for model in (0, 1)]
    seen = [SeedCurves(np.log(of.tokens), curve[None], None) for curve in curves]
    mean = float(np.exp(mean_log_factor(*seen, *(one.mean for one in seen))[0]))
    return mean, observed_factor(of.tokens, *curves, interpolated=False)


def intervals(of: SeededDesign, random: np.random.Generator) -> dict[str, Ends]:
    """Simulate one study; return its interval by each method."""
    scores = seed_scores(of, random)
    items, models, _, checkpoints = scores.shape
    means = scores.mean(axis=0)
    flat = scores.mean(axis=2).reshape(items, -1)
    drawn = np.vstack([flat.mean(axis=0), resample(flat, REPLICATES, random)]).reshape(-1, models, checkpoints)
    curves = [SeedCurves(np.log(of.tokens), means[model], drawn[:, model]) for model in range(models)]
    found = mean_factor_interval(curves[0], curves[1])
    if found.low is None:
        return {}
    return {
        "each by itself": (found.low, found.high),
        "pooled": pooled(curves, math.sqrt(found.low * found.high), found.item_error),
        "first rule": first_rule(of, scores, random),
    }


def pooled(curves: list[SeedCurves], factor: float, item_error: float) -> Ends:
    """Compute the interval with one spread between seeds for all models, in log tokens against the baseline's curve."""
    baseline, seeds = curves[0], len(curves[0].scores)
    spread = []
    for curve in curves:
        without = mean_log_factor(baseline, curve, baseline.mean, curve.without_one_seed)
        spread.append((seeds - 1) / seeds * ((without - without.mean()) ** 2).sum())
    of_seeds = 2 * np.mean(spread)
    variance = of_seeds + item_error**2
    freedom = len(curves) * (seeds - 1) * (variance / of_seeds) ** 2
    half = t_distribution.ppf(0.975, freedom) * math.sqrt(variance)
    return factor * math.exp(-half), factor * math.exp(half)


def first_rule(of: SeededDesign, scores: np.ndarray, random: np.random.Generator) -> Ends:
    """Compute the interval of the paper's factor by drawing items and seeds anew."""
    items, _, seeds, checkpoints = scores.shape
    flat = scores[:, :2].reshape(items, -1)
    drawn = np.vstack([flat.mean(axis=0), resample(flat, REPLICATES, random)]).reshape(-1, 2, seeds, checkpoints)
    weights = np.full((1 + REPLICATES, 2, seeds, 1), 1 / seeds)
    weights[1:, ..., 0] = random.multinomial(seeds, weights[0, 0, :, 0], size=(REPLICATES, 2)) / seeds
    curves = (drawn * weights).sum(axis=2)
    baseline, variant = (ReplicatedCurve(of.tokens, curves[:, model]) for model in (0, 1))
    ends = factor_interval(possible_goals(baseline), variant, interpolated=False)[:2]
    return spanning(ends, grid_interval(baseline, variant))


class Tally:
    """A row of the table: by method, whether each study's interval has the truth in it, and how wide it is."""

    def __init__(self) -> None:
        self._inside: dict[str, list[bool]] = defaultdict(list)
        self._widths: dict[str, list[float]] = defaultdict(list)

    def add(self, found: dict[str, Ends], mean: float, first: Factors) -> None:
        for method, (low, high) in found.items():
            inside = contains((low, high), first) if method == "first rule" else low <= mean <= high
            self._inside[method].append(inside)
            self._widths[method].append(high / low if low else math.inf)

    def row(self, name: str) -> str:
        cells = [
            f"{100 * np.mean(self._inside[method]):.1f} ({np.median(self._widths[method]):.2f})" for method in METHODS
        ]
        return " | ".join(("", name, f"{len(self._inside[METHODS[0]])}", *cells, "")).strip()


def of_one_design(name: str, of: SeededDesign, studies: int) -> str:
    """Simulate many studies of one design; return a row of the table."""
    true, random, tally = truth(of), np.random.default_rng(zlib.crc32(name.encode())), Tally()
    for _ in range(studies):
        tally.add(intervals(of, random), *true)
    return tally.row(name)


def of_the_population(studies: int, seeds: int, seed: int) -> str:
    """Simulate a study of each of many designs; return a row of the table."""
    random, tally = np.random.default_rng([seed, seeds]), Tally()
    for _ in range(studies):
        of = population(random, seeds)
        tally.add(intervals(of, random), *truth(of))
    return tally.row(f"population, {seeds} seeds")


def rows(asked: argparse.Namespace) -> Iterable[str]:
    if asked.set == "population":
        return (of_the_population(asked.studies, seeds, asked.seed) for seeds in asked.seeds)
    chosen = {name: of for name, of in SCENARIOS.items() if of.seeds in asked.seeds}
    return (of_one_design(name, of, asked.studies) for name, of in chosen.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--set", choices=("population", "scenarios"), default="population")
    parser.add_argument("--seeds", type=int, nargs="+", default=(3, 4, 5, 8))
    parser.add_argument("--seed", type=int, default=2026, help="which studies of the population")
    asked = parser.parse_args()
    print(f"| studies | counted | {' | '.join(METHODS)} |\n{'|---' * (2 + len(METHODS))}|")
    for row in rows(asked):
        print(row, flush=True)


if __name__ == "__main__":
    main()
