"""Repeat a study with other seeds and other built-in problems, and count how often its intervals hold the mean of all.

Repetition k draws its world with the seed k, and trains with the seeds that follow those of repetition k - 1;
repetition 0 is the study itself. What is done already is not done again.

    python -m benchmarks.intervals.repetitions demo folder --times 10
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from flows.study.loading import load_study
from sql.results import query

INTERVALS = "SELECT metric, task, depth, variant, factor, low, high FROM mean_factors WHERE variant <> 'LA'"
NOISE = "SELECT metric, task, seed_deviation, item_error FROM study_noise"
HEADLINES = ("average", "validation")  # tasks that the report's headline speaks of


def repetition(study: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the content of a study's file with the seeds and the world of a repetition."""
    if number == 0:
        return study
    data, training = study["data"], study["training"]
    seeds = [seed + number * (max(training["seeds"]) + 1) for seed in training["seeds"]]
    world = {**(data.get("world") or {}), "seed": (data.get("world") or {}).get("seed", 0) + number}
    return {
        **study,
        "name": f"{study['name']}{number}",
        "data": {**data, "world": world},
        "training": {**training, "seeds": seeds},
    }


def coverage(intervals: pd.DataFrame) -> pd.DataFrame:
    """Summarise intervals of repetitions: one row for each metric, task, depth and variant.

    `intervals` has these columns and `factor`, `low`, `high`, one row for each repetition; one without a factor or an
    interval does not count. Means are geometric; `deviation` is the standard deviation of the logarithm of a factor
    between repetitions.
    """
    intervals = intervals.dropna(subset=["factor", "low", "high"])

    def summary(rows: pd.DataFrame) -> pd.Series:
        logarithms = np.log(rows["factor"])
        mean = np.exp(logarithms.mean())
        return pd.Series(
            {
                "repetitions": len(rows),
                "mean": mean,
                "covered": int(((rows["low"] <= mean) & (mean <= rows["high"])).sum()),
                "deviation": logarithms.std(),
                "widest": (rows["high"] / rows["low"]).max(),
                "high_over_low": np.exp(np.log(rows["high"] / rows["low"]).mean()),
            }
        )

    keys = ["metric", "task", "depth", "variant"]
    return intervals.groupby(keys, sort=True)[["factor", "low", "high"]].apply(summary).reset_index()


def main() -> int:
    """Run the repetitions, then print every interval, the coverage, and the noise pooled over all repetitions."""
    parser = argparse.ArgumentParser(description="Repeat a study with other seeds and worlds, and count its coverage.")
    parser.add_argument("study", help="a preset, or a study file with the built-in problems")
    parser.add_argument("folder", type=Path, help="holds a study file, a root and a log for each repetition")
    parser.add_argument("--times", type=int, default=10, help="number of repetitions, the study itself among them")
    options = parser.parse_args()
    study = load_study(options.study)
    content = study.model_dump(mode="json", exclude_unset=True)
    content["training"]["seeds"] = list(study.training.seeds)
    options.folder.mkdir(parents=True, exist_ok=True)
    intervals, noise = [], []
    for number in range(options.times):
        path, root = options.folder / f"repetition{number}.yaml", options.folder / f"repetition{number}"
        path.write_text(yaml.safe_dump(repetition(content, number), sort_keys=False))
        command = [sys.executable, "-m", "flows.commands.cli", "run", str(path), "--root", str(root)]
        with path.with_suffix(".log").open("ab") as log:
            subprocess.run(command, stdout=log, stderr=log, check=True)
        intervals.append(query(root / "results.duckdb", INTERVALS).assign(repetition=number))
        noise.append(query(root / "results.duckdb", NOISE))
    found = pd.concat(intervals)
    found = found[found["task"].isin(HEADLINES)]
    print(found.sort_values(["metric", "task", "variant", "repetition"]).round(3).to_string(index=False), "\n")
    print(coverage(found).round(3).to_string(index=False), "\n")
    pooled = pd.concat(noise).groupby(["metric", "task"]).agg(lambda values: np.sqrt((values**2).mean()))
    print(pooled.round(3).to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
