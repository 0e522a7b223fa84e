"""Compute the ratios of tokens of studies from their stored curves: `ratios.csv` in each folder.

    python docs/results/ratios.py

The scores of items are not stored, so these intervals are over the seeds alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from dreamer_study.reports.curves.entering import enter_curves, read
from dreamer_study.sql.results import query

RESULTS = Path(__file__).parent
BASELINE = "LA"
RATIOS = """
    select variant, task, metric, ratio, low, high, score_low, score_high, at_least, reached,
        significant, seeds
    from token_ratios
    where task in ('average', 'validation')
    order by metric, task, variant
"""


def studies() -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield the folder of each study, which of its studies or depths, and the points of its curves.

    Points are as in the tables that `dreamer factors` reads.
    """
    depth = pd.read_csv(RESULTS / "depth/curves.csv")
    for world, points in depth.groupby("world"):
        # one task alone, which stands for the average
        named = points.rename(columns={"accuracy": "score"}).drop(columns="world")
        yield "depth", str(world), named.assign(task=str(world))

    accuracy = pd.read_csv(RESULTS / "recurrence/token_accuracy.csv")
    losses = pd.read_csv(RESULTS / "recurrence/token_loss.csv")
    keys = ["depth", "variant", "seed", "task", "tokens"]
    both = accuracy.rename(columns={"accuracy": "score"}).merge(losses, on=keys, how="outer")
    for trained_depth, points in both[both["task"] != "average"].groupby("depth"):
        yield "recurrence", str(trained_depth), points.drop(columns="depth")

    yield "gpu-small", "8", pd.read_csv(RESULTS / "gpu-small/curves.csv")
    yield "size-and-problems", "8", pd.read_csv(RESULTS / "size-and-problems/curves-stories.csv")
    small = pd.read_csv(RESULTS / "size-and-problems/curves-stories-small.csv")
    yield "size-and-problems", "4", small


def ratios(points: pd.DataFrame) -> pd.DataFrame:
    """Compute the ratios of curves against the baseline."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "curves.csv"
        points.to_csv(table, index=False)
        database = Path(folder) / "results.duckdb"
        enter_curves(database, read(table), baseline=BASELINE)
        return query(database, RATIOS)


def main() -> None:
    """Write the ratios of every study beside its curves."""
    by_folder: dict[str, list[pd.DataFrame]] = {}
    for folder, name, points in studies():
        rows = ratios(points)
        rows.insert(0, "study", name)
        by_folder.setdefault(folder, []).append(rows)
    for folder, parts in by_folder.items():
        table = pd.concat(parts)
        table.to_csv(RESULTS / folder / "ratios.csv", index=False, float_format="%.4g")
        print(f"{folder}\n{table.to_string(index=False)}\n")


if __name__ == "__main__":
    main()
