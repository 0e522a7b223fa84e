"""Count how often the 95 % interval of the mean factor holds the true one; decides whether its method may be believed.

    python -m benchmarks.intervals.coverage [--studies 400] [--seeds 3 4 5 8]

Each study is simulated, of a design of its own, drawn as studies may come. The true mean factor is that of the true
curves, the means over seeds and items. The table has the share of studies in percent whose interval contains the truth
and, in brackets, the median of high / low; studies without an interval are not counted.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.intervals.simulated_studies import Design, population, scores
from sql.statistics.bootstrap import resample
from sql.statistics.mean_factors import SeedCurves, log_factors, mean_factor_interval

REPLICATES = 200


def truth(of: Design) -> float:
    """Compute the mean factor of the expected curves."""
    curves = [SeedCurves(np.log(of.share), of.expected(model)[None], None) for model in range(2)]
    return float(np.exp(log_factors(*curves, *(curve.mean for curve in curves))[0, 0]))


def interval(of: Design, random: np.random.Generator) -> tuple[float | None, float | None]:
    """Simulate one study, and compute the ends of the interval as a study does."""
    answered = scores(of, random)
    means = answered.mean(axis=0)
    by_item = answered.mean(axis=2).reshape(of.items, -1)
    drawn = np.vstack([by_item.mean(axis=0), resample(by_item, REPLICATES, random)]).reshape(-1, *means[:, 0].shape)
    curves = (SeedCurves(np.log(of.share), means[model], drawn[:, model]) for model in range(2))
    found = mean_factor_interval(*curves)
    return found.low, found.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--seeds", type=int, nargs="+", default=(3, 4, 5, 8), help="of each model")
    options = parser.parse_args()
    print("| seeds | studies counted | in the interval |\n|---|---|---|")
    for seeds in options.seeds:
        random, inside, widths = np.random.default_rng([2026, seeds]), [], []
        for _ in range(options.studies):
            of = population(random, seeds)
            low, high = interval(of, random)
            if low is not None:
                inside.append(low <= truth(of) <= high)
                widths.append(high / low)
        print(f"| {seeds} | {len(inside)} | {100 * np.mean(inside):.1f} ({np.median(widths):.2f}) |", flush=True)


if __name__ == "__main__":
    main()
