"""Count how often the interval at stopping holds the true factor, where seeds are added until the
interval is narrow.

    python -m benchmarks.intervals.stopping [--studies 400] [--high-over-low 1.25]

The studies are those of `coverage.py`, with the looks of sql/statistics/sequential.py.
Beside the share in percent stand that of plain 95 % intervals, looked at as often, and how many
studies stopped at each look.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from benchmarks.intervals.coverage import curves_of, truth
from benchmarks.intervals.simulated_studies import population, scores
from dreamer_study.sql.statistics.mean_factors import mean_factor_interval
from dreamer_study.sql.statistics.sequential import LOOKS, NOMINAL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--high-over-low", type=float, default=1.25)
    options = parser.parse_args()
    random, stopped, inside, plain = np.random.default_rng(2026), Counter[int](), [], []
    for _ in range(options.studies):
        of = population(random, LOOKS[-1])
        answered, true = scores(of, random), float(np.exp(truth(of)[0]))
        for seeds in LOOKS:
            curves = curves_of(of, answered[:, :, :seeds], random)
            found = mean_factor_interval(*curves, NOMINAL)
            if found.low is not None and (
                found.high / found.low <= options.high_over_low or seeds == LOOKS[-1]
            ):
                usual = mean_factor_interval(*curves)
                stopped[seeds] += 1
                inside.append(found.low <= true <= found.high)
                plain.append(usual.low <= true <= usual.high)
                break
    print(
        f"in the interval {100 * np.mean(inside):.1f}, in the plain one {100 * np.mean(plain):.1f}",
        flush=True,
    )
    print(f"studies by seeds at the end {dict(sorted(stopped.items()))}")


if __name__ == "__main__":
    main()
