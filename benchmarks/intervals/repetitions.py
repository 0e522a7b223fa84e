"""Repeat a study: what all repetitions say together, and how often one's interval holds that;
decides what README says.

    python -m benchmarks.intervals.repetitions demo folder --times 10

Repetition k draws its world with the seed k, and trains with the seeds that follow those of
repetition k - 1; repetition 0 is the study itself. What is done already is not done again.
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
from scipy.special import stdtrit

from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.results import query

INTERVALS = """
    SELECT metric, task, depth, variant, ratio, low, high, at_least, reached
    FROM token_ratios
"""
NOISE = "SELECT metric, task, seed_deviation, item_error FROM study_noise"
HEADLINES = ("average", "validation")  # tasks that a study is read for


def repetition(study: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the content of a study's file with the seeds and the world of a repetition."""
    if number == 0:
        return study
    data, training, models = study["data"], study["training"], study.get("models") or {}

    def moved(seeds: list[int]) -> list[int]:
        return [seed + number * (max(training["seeds"]) + 1) for seed in seeds]

    variants = [
        {**one, "seeds": moved(one["seeds"])} if isinstance(one, dict) and one.get("seeds") else one
        for one in models.get("variants") or []
    ]
    world = {**(data.get("world") or {}), "seed": (data.get("world") or {}).get("seed", 0) + number}
    return {
        **study,
        "name": f"{study['name']}{number}",
        "data": {**data, "world": world},
        "models": {**models, **({"variants": variants} if variants else {})},
        "training": {**training, "seeds": moved(training["seeds"])},
    }


def summary(intervals: pd.DataFrame) -> pd.DataFrame:
    """Summarise the intervals of repetitions: a row for each metric, task, depth and variant.

    `intervals` has these columns and `ratio`, `low`, `high`, a row for each repetition; one without
    a ratio or an interval does not count. Means are geometric; `mean_low` to `mean_high` is the
    95 % interval of the mean by the `deviation` between repetitions, the standard deviation of the
    logarithm of a ratio.
    """
    columns = ["ratio", "low", "high"]
    keys = ["metric", "task", "depth", "variant"]
    known = intervals.dropna(subset=columns)
    return known.groupby(keys)[columns].apply(_summary_of_one).reset_index()


def _summary_of_one(rows: pd.DataFrame) -> pd.Series:
    """Summarise the repetitions of one model on one task."""
    logarithms = np.log(rows["ratio"])
    width = rows["high"] / rows["low"]
    mean = np.exp(logarithms.mean())
    deviation = logarithms.std()
    half = stdtrit(len(rows) - 1, 0.975) * deviation / np.sqrt(len(rows))
    return pd.Series(
        {
            "repetitions": len(rows),
            "mean": mean,
            "mean_low": mean * np.exp(-half),
            "mean_high": mean * np.exp(half),
            "covered": (rows["low"].le(mean) & rows["high"].ge(mean)).sum(),
            "deviation": deviation,
            "widest": width.max(),
            "high_over_low": np.exp(np.log(width).mean()),
        }
    )


def main() -> None:
    """Run the repetitions, then print every interval and their summary (also as CSV), and the
    pooled noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", help="a preset, or a study file with the built-in problems")
    parser.add_argument(
        "folder", type=Path, help="holds a study file, a root and a log for each repetition"
    )
    parser.add_argument(
        "--times", type=int, default=10, help="number of repetitions, the study itself among them"
    )
    options = parser.parse_args()
    study = load_study(options.study)
    content = study.model_dump(mode="json", exclude_unset=True)
    content["training"]["seeds"] = list(study.training.seeds)
    options.folder.mkdir(parents=True, exist_ok=True)
    intervals, noise = [], []
    for number in range(options.times):
        path, root = (
            options.folder / f"repetition{number}.yaml",
            options.folder / f"repetition{number}",
        )
        path.write_text(yaml.safe_dump(repetition(content, number), sort_keys=False))
        command = [
            sys.executable,
            "-m",
            "dreamer_study.flows.commands.cli",
            "run",
            str(path),
            "--root",
            str(root),
        ]
        with path.with_suffix(".log").open("ab") as log:
            subprocess.run(command, stdout=log, stderr=log, check=True)
        intervals.append(query(root / "results.duckdb", INTERVALS).assign(repetition=number))
        noise.append(query(root / "results.duckdb", NOISE))
    found = pd.concat(intervals)
    found = found[found["task"].isin(HEADLINES)]
    found.to_csv(options.folder / "repetitions.csv", index=False, float_format="%.4g")
    summary(found).to_csv(options.folder / "summary.csv", index=False, float_format="%.4g")
    print(
        found.sort_values(["metric", "task", "variant", "repetition"])
        .round(3)
        .to_string(index=False),
        "\n",
    )
    print(summary(found).round(3).to_string(index=False), "\n")
    pooled = (
        pd.concat(noise).groupby(["metric", "task"]).agg(lambda values: np.sqrt((values**2).mean()))
    )
    print(pooled.round(3).to_string())


if __name__ == "__main__":
    main()
