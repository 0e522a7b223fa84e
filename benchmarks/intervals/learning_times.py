"""Count how often the 90 % intervals of the learning times of items hold the true ones.

    python -m benchmarks.intervals.learning_times [--items 400]

Decides whether the times of `dreamer items` may be believed, and by which of two intervals. The
protocol is docs/results/learning-times/protocol.md, fixed before any of the numbers was looked at.
"""

from __future__ import annotations

import argparse
import itertools
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

from dreamer_study.sql.statistics.learning_times import fit_times

SEEDS = (1, 2, 3, 4, 5, 6)
CHECKPOINTS = (6, 8, 12, 20)
GUESSES = (0.0, 0.1, 0.25, 0.5)
SLOPES = (0.7, 1.5, 3.0, 8.0)
BEYOND = math.log(2)  # how far true times lie before the first checkpoint or behind the last one
SEED_SPREAD = 0.3  # of log tokens, where seeds have times of their own
SLIPS = {"as assumed": 0.02, "no slips": 0.0, "more slips": 0.05, "seeds differ": 0.02}
METHODS = ("profile", "posterior")


@dataclass(frozen=True)
class Cell:
    """One kind of items: how many seeds and checkpoints there are, how far apart, and the rest."""

    design: str
    seeds: int
    checkpoints: int
    spaced: str  # evenly in tokens, or in log tokens
    guess: float
    slope: float

    @property
    def log_tokens(self) -> np.ndarray:
        """Return the log tokens of the checkpoints [C], as shares of the training."""
        if self.spaced == "even":
            return np.log(np.arange(1, self.checkpoints + 1) / self.checkpoints)
        return np.linspace(math.log(1 / 32), 0, self.checkpoints)


def cells() -> list[Cell]:
    """List all cells of the protocol."""
    parts = (SLIPS, SEEDS, CHECKPOINTS, ("even", "log"), GUESSES, SLOPES)
    return [Cell(*values) for values in itertools.product(*parts)]


def simulate(cell: Cell, items: int, random: np.random.Generator) -> pd.DataFrame:
    """Draw items and their answers, and count what both intervals hold."""
    log_tokens = cell.log_tokens
    true = random.uniform(log_tokens[0] - BEYOND, log_tokens[-1] + BEYOND, items)
    spread = SEED_SPREAD if cell.design == "seeds differ" else 0.0
    of_seeds = true[:, None] + spread * random.standard_normal((items, cell.seeds))
    known = expit(cell.slope * (log_tokens - of_seeds[:, :, None]))  # [I, N, C]
    chance = cell.guess + (1 - SLIPS[cell.design] - cell.guess) * known
    right = (random.random(chance.shape) < chance).sum(axis=1)
    asked = np.full(right.shape, cell.seeds)
    is_inside = (true > log_tokens[0]) & (true < log_tokens[-1])
    found = []
    for method in METHODS:
        times = fit_times(log_tokens, right, asked, cell.guess, by=method)
        is_learned = ~times.known_at_first & ~times.never_learned
        width = np.where(is_inside, times.high - times.low, np.nan)
        found.append(
            {
                **vars(cell),
                "method": method,
                "holds": np.mean((times.low <= true) & (true <= times.high)),
                "holds_inside": np.mean(((times.low <= true) & (true <= times.high))[is_inside]),
                "both_ends": np.mean(np.isfinite(width[is_inside])),
                "factor": np.exp(np.median(width[np.isfinite(width)])),
                "bias": np.median((times.estimate - true)[is_inside & is_learned]),
            }
        )
    return pd.DataFrame(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=400, help="of each cell")
    parser.add_argument("--random", type=int, default=2028, help="seed of the random numbers")
    options = parser.parse_args()
    random = np.random.default_rng(options.random)
    counted = pd.concat([simulate(cell, options.items, random) for cell in cells()])
    print_by(counted, ["design"])
    as_assumed = counted[counted["design"] == "as assumed"]
    for part in ("seeds", "checkpoints", "spaced", "guess", "slope"):
        print_by(as_assumed, [part])


def print_by(counted: pd.DataFrame, parts: list[str]) -> None:
    """Print the means over cells, by the values of some parts and by method."""
    numbers = ["holds", "holds_inside", "both_ends", "factor", "bias"]
    means = counted.groupby([*parts, "method"], sort=False)[numbers].mean().reset_index()
    heads = [*parts, "method", "holds %", "holds % (within)", "both ends %", "high / low", "bias"]
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in means.to_dict("records"):
        cells_of_row = [
            *(str(row[part]) for part in [*parts, "method"]),
            f"{100 * row['holds']:.1f}",
            f"{100 * row['holds_inside']:.1f}",
            f"{100 * row['both_ends']:.0f}",
            f"{row['factor']:.2f}",
            f"{row['bias']:+.3f}",
        ]
        print(f"| {' | '.join(cells_of_row)} |", flush=True)


if __name__ == "__main__":
    main()
