"""Count how often the 95 % intervals of factors hold the true ones; decides whether their method
may be believed.

    python -m benchmarks.intervals.coverage [--studies 400] [--seeds 3 5 10]

Each study is simulated, of a design of its own, drawn as studies may come. The true mean factor is
that of the true curves, the means over seeds and items. The table has the share of studies in
percent whose interval contains the truth and, in brackets, the median of high / low; studies
without an interval are not counted.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.intervals.simulated_studies import Design, population, scores
from dreamer_study.sql.statistics.bootstrap import resample
from dreamer_study.sql.statistics.mean_factors import (
    PARTS,
    MeanFactor,
    SeedCurves,
    log_factors,
    mean_factor_interval,
)

REPLICATES = 200
NAMES = ("mean factor", "bound", "first target", "third", "middle", "third last", "last target")
PLACES = [0, 1, 2, 4, 2 + PARTS // 2, -3, -1]  # of these numbers in what log_factors returns


def truth(of: Design) -> np.ndarray:
    """Compute the numbers of the expected curves."""
    curves = [SeedCurves(np.log(of.share), of.expected(model)[None], None) for model in range(2)]
    return log_factors(*curves, *(curve.mean for curve in curves))[0][PLACES]


def curves_of(
    of: Design, answered: np.ndarray, random: np.random.Generator
) -> tuple[SeedCurves, SeedCurves]:
    """Make the curves of a simulated study's baseline and variant, with the draws of their
    items."""
    means = answered.mean(axis=0)
    by_item = answered.mean(axis=2).reshape(of.items, -1)
    drawn = np.vstack([by_item.mean(axis=0), resample(by_item, REPLICATES, random)]).reshape(
        -1, *means[:, 0].shape
    )
    first, second = (
        SeedCurves(np.log(of.share), means[model], drawn[:, model]) for model in range(2)
    )
    return first, second


def intervals(found: MeanFactor, by_target: np.ndarray) -> np.ndarray:
    """Return both ends of the intervals of the logarithms of the numbers in NAMES [7, 2]; NaN where
    unknown."""
    halves = (
        np.full(PARTS, np.nan) if found.target_halves is None else np.array(found.target_halves)
    )
    ends = np.array([[found.low, found.high], [found.bound_low, found.bound_high]], float)
    return np.vstack([np.log(ends), np.stack([by_target - halves, by_target + halves], axis=1)])[
        PLACES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--seeds", type=int, nargs="+", default=(3, 5, 10), help="of each model")
    options = parser.parse_args()
    print(f"| seeds | {' | '.join(NAMES)} |\n|{'---|' * (1 + len(NAMES))}")
    for seeds in options.seeds:
        random, inside, widths = np.random.default_rng([2026, seeds]), [], []
        for _ in range(options.studies):
            of = population(random, seeds)
            curves = curves_of(of, scores(of, random), random)
            values = log_factors(*curves, *(curve.mean for curve in curves))[0]
            ends, true = intervals(mean_factor_interval(*curves), values[2:]), truth(of)
            known = np.isfinite(ends).all(axis=1) & np.isfinite(true)
            inside.append(np.where(known, (ends[:, 0] <= true) & (true <= ends[:, 1]), np.nan))
            widths.append(np.exp(ends[:, 1] - ends[:, 0]))
        shown = zip(100 * np.nanmean(inside, axis=0), np.nanmedian(widths, axis=0), strict=True)
        print(
            f"| {seeds} | {' | '.join(f'{share:.1f} ({width:.2f})' for share, width in shown)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
