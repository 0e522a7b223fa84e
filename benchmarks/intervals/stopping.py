"""Count how often the interval at stopping holds the true ratio, where seeds are added until the
interval is narrow.

    python -m benchmarks.intervals.stopping [--studies 400] [--high-over-low 1.25]

The studies are those of `coverage.py` in its design `population`, with the looks of
sql/statistics/sequential.py. Beside the share in percent stand that of plain 95 % intervals, looked
at as often, and how many studies stopped at each look. A study without an interval at its last look
is not counted.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from benchmarks.intervals.coverage import curves_of, truth
from benchmarks.intervals.simulated_studies import population, scores
from dreamer_study.sql.statistics.pairs import compare_models
from dreamer_study.sql.statistics.sequential import LOOKS, NOMINAL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--high-over-low", type=float, default=1.25)
    options = parser.parse_args()
    random = np.random.default_rng(2026)
    stopped = Counter[int]()
    inside = []
    plain = []
    for _ in range(options.studies):
        of = population(random, LOOKS[-1])
        answered = scores(of, random)
        true = float(np.exp(truth(of).ratio))
        for seeds in LOOKS:
            curves = curves_of(of, answered[:, :, :seeds], random)
            found = compare_models(*curves, significance=NOMINAL)
            if None in (found.ratio, found.low, found.high) or np.isnan(true):
                continue
            is_narrow = found.high / found.low <= options.high_over_low
            if is_narrow or seeds == LOOKS[-1]:
                usual = compare_models(*curves)
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
