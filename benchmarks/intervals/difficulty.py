"""Count how often the 95 % intervals of ratios by difficulty hold 1, of models that are equal.

    python -m benchmarks.intervals.difficulty [--studies 500]

Decides whether the answer by difficulty of `dreamer items` may be believed. Items are grouped by
the answers that are compared afterwards, so items that a model learned early by luck could count as
easy for this model alone. The protocol is docs/results/learning-times/protocol.md, fixed before any of
the numbers was looked at.

Two ways to group are counted: by the learning time of all runs together, as `dreamer items` does,
and by that of the baseline's runs alone.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import pandas as pd

from benchmarks.intervals.coverage import REPLICATES
from benchmarks.intervals.designs import equal
from benchmarks.intervals.simulated_studies import CHANCE, Design, scores
from dreamer_study.sql.statistics.bootstrap import resample
from dreamer_study.sql.statistics.curves import SeedCurves
from dreamer_study.sql.statistics.difficulty import DIFFICULTIES, group_items, share_error
from dreamer_study.sql.statistics.learning_times import fit_times
from dreamer_study.sql.statistics.pairs import compare_models

SEEDS = (3, 4, 5, 6)
WAYS = ("all runs", "baseline alone")


def study(random: np.random.Generator) -> list[dict[str, object]]:
    """Simulate a study of two equal models, and compare them on each group of items."""
    of = equal(random, max(SEEDS))
    while of.loss:
        of = equal(random, max(SEEDS))
    answered = scores(of, random)  # [I, 2, N, C]
    # of each model as many seeds as are drawn for it
    runs = [answered[:, model, : random.choice(SEEDS)] for model in range(2)]
    rows = []
    for way in WAYS:
        groups = _groups(of, runs if way == "all runs" else runs[:1])
        for number, difficulty in enumerate(DIFFICULTIES):
            members = [of_model[groups == number] for of_model in runs]
            baseline, variant = curves(of, members, random)
            found = compare_models(baseline, variant)
            has_interval = None not in (found.ratio, found.low, found.high)
            rows.append(
                {
                    "way": way,
                    "difficulty": difficulty,
                    "has_interval": float(has_interval),
                    "holds": float(found.low <= 1 <= found.high) if has_interval else math.nan,
                    "width": found.high / found.low if has_interval else math.nan,
                    "log_ratio": math.log(found.ratio) if has_interval else math.nan,
                }
            )
    return rows


def _groups(of: Design, runs: list[np.ndarray]) -> np.ndarray:
    """Group items by the answers of runs [I, N, C], which are counted together."""
    together = np.concatenate(runs, axis=1)
    right = together.sum(axis=1)
    asked = np.full(right.shape, together.shape[1])
    times = fit_times(np.log(of.share), right, asked, CHANCE)
    return group_items(times, together.mean(axis=(1, 2)))


def curves(
    of: Design, runs: list[np.ndarray], random: np.random.Generator
) -> tuple[SeedCurves, SeedCurves]:
    """Make the curves of both models over the items of a group, whose answers are [I, N, C]."""
    items = len(runs[0])
    by_item = np.concatenate([of_model.mean(axis=1) for of_model in runs], axis=1)  # [I, 2 * C]
    drawn = np.vstack([by_item.mean(axis=0), resample(by_item, REPLICATES, random)])
    made = []
    for model, of_model in enumerate(runs):
        means = of_model.mean(axis=0)  # [N, C]
        error = np.mean([share_error(share, items) for share in means[:, 0]])
        part = drawn[:, model * of.checkpoints : (model + 1) * of.checkpoints]
        made.append(SeedCurves(np.log(of.share), means, part, CHANCE + 2 * error))
    return made[0], made[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=500, help="simulated studies")
    parser.add_argument("--random", type=int, default=2029, help="seed of the random numbers")
    options = parser.parse_args()
    random = np.random.default_rng(options.random)
    counted = pd.DataFrame([row for _ in range(options.studies) for row in study(random)])
    print("| groups by | items | holds 1 % | median high / low | mean ratio | with interval % |")
    print("|---|---|---|---|---|---|")
    for way in WAYS:
        of_way = counted[counted["way"] == way]
        _print_row(way, "all three", of_way)
        for difficulty in DIFFICULTIES:
            _print_row(way, difficulty, of_way[of_way["difficulty"] == difficulty])


def _print_row(way: str, difficulty: str, rows: pd.DataFrame) -> None:
    cells = [
        way,
        difficulty,
        f"{100 * rows['holds'].mean():.1f}",
        f"{rows['width'].median():.2f}",
        f"{math.exp(rows['log_ratio'].mean()):.3f}",
        f"{100 * rows['has_interval'].mean():.1f}",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
