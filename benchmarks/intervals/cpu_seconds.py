"""Measure the CPU seconds of the statistics on a study of the paper's size.

    python -m benchmarks.intervals.cpu_seconds

5 tasks x 24 checkpoints x 3 models x 1,319 items, 1,000 replicates.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from sql.results import connect, ingest
from sql.statistics.compute import compute_statistics

TASKS, CHECKPOINTS, ITEMS = "abcde", 24, 1319
SPEEDS = {"LA": 1.0, "DR": 1.5, "DR+DA": 2.0}


def study() -> dict[str, pa.Table]:
    """Draw the tables of a study whose models differ in speed."""
    random = np.random.default_rng(0)
    runs, evaluations, items = [], [], []
    for variant, speed in SPEEDS.items():
        runs.append({"study_id": "s", "run_id": variant, "model_id": variant})
        for task in TASKS:
            for tokens in np.arange(1, CHECKPOINTS + 1) * 4_000_000_000:
                scores = random.random(ITEMS) < 0.6 / (1 + 3e10 / speed / tokens)
                place = {"run_id": variant, "tokens": tokens, "task": task, "metric": "acc", "filter": "none"}
                evaluations.append({**place, "value": scores.mean(), "items": ITEMS, "chance": 0.0})
                items.append(
                    pd.DataFrame({**place, "item_id": [f"{task}/{n}" for n in range(ITEMS)], "value": scores * 1.0})
                )
    models = [{"study_id": "s", "model_id": variant, "variant": variant, "depth": 16} for variant in SPEEDS]
    tables = {"models": models, "runs": runs, "evaluations": evaluations}
    return {name: pa.Table.from_pylist(rows) for name, rows in tables.items()} | {
        "items": pa.Table.from_pandas(pd.concat(items), preserve_index=False)
    }


def measure(what: str, work: Callable[[], object]) -> None:
    started = time.process_time()
    work()
    print(f"{what:<40} {time.process_time() - started:6.2f} CPU s", flush=True)


def main() -> None:
    tables = study()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.duckdb"
        connect(path).close()
        measure(f"ingest of {tables['items'].num_rows:,} items", lambda: ingest(path, tables))
        with closing(connect(path)) as connection:
            measure("compute_statistics, 1,000 replicates", lambda: compute_statistics(connection, "s"))
            for view in ("data_efficiency", "loss_efficiency", "mean_factors", "factor_by_target"):
                measure(view, lambda view=view: connection.execute(f"from {view}").fetchall())


if __name__ == "__main__":
    main()
