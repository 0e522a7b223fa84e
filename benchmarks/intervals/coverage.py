"""Count how often the 95 % interval of the mean factor holds the true one; decides whether its method may be believed.

    python -m benchmarks.intervals.coverage [--studies 400] [--set population|scenarios] [--seeds 3 4 5 8]

The studies are simulated. The true mean factor is that of the true curves, the means over seeds and items. The table
has the share of studies in percent whose interval contains the truth and, in brackets, the median of high / low;
studies without an interval are not counted.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator
from functools import cache

import numpy as np

from benchmarks.intervals.simulated_studies import SCENARIOS, Design, population, scores
from sql.statistics.bootstrap import resample
from sql.statistics.mean_factors import Interval, SeedCurves, mean_factor_interval, mean_log_factor

REPLICATES = 200


@cache
def truth(of: Design) -> float:
    """Compute the mean factor of the expected curves."""
    curves = [SeedCurves(np.log(of.share), of.expected(model)[None], None) for model in range(2)]
    return float(np.exp(mean_log_factor(*curves, *(curve.mean for curve in curves))[0]))


def interval(of: Design, random: np.random.Generator) -> Interval:
    """Simulate one study, and compute the interval as a study does."""
    answered = scores(of, random)
    means = answered.mean(axis=0)
    by_item = answered.mean(axis=2).reshape(of.items, -1)
    drawn = np.vstack([by_item.mean(axis=0), resample(by_item, REPLICATES, random)]).reshape(-1, *means[:, 0].shape)
    return mean_factor_interval(*(SeedCurves(np.log(of.share), means[model], drawn[:, model]) for model in range(2)))


def row(name: str, designs: Iterator[Design], random: np.random.Generator) -> str:
    """Simulate a study of each design, and format a row of the table."""
    inside, widths = [], []
    for of in designs:
        found = interval(of, random)
        if found.low is not None:
            inside.append(found.low <= truth(of) <= found.high)
            widths.append(found.high / found.low)
    return f"| {name} | {len(inside)} | {100 * np.mean(inside):.1f} ({np.median(widths):.2f}) |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--set", choices=("population", "scenarios"), default="population")
    parser.add_argument("--seeds", type=int, nargs="+", default=(3, 4, 5, 8))
    options = parser.parse_args()
    print("| studies | counted | in the interval |\n|---|---|---|")
    if options.set == "population":
        for seeds in options.seeds:
            random = np.random.default_rng([2026, seeds])
            designs = (population(random, seeds) for _ in range(options.studies))
            print(row(f"population, {seeds} seeds", designs, random), flush=True)
        return
    for name, of in SCENARIOS.items():
        if of.seeds in options.seeds:
            random = np.random.default_rng(zlib.crc32(name.encode()))
            print(row(name, (of for _ in range(options.studies)), random), flush=True)


if __name__ == "__main__":
    main()
