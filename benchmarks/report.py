"""Measure time, memory and size of the report of a study of the paper's size, made up.

    python -m benchmarks.report                       # makes the results file in a temporary folder
    python -m benchmarks.report --results big.duckdb  # makes the file where it is missing, and keeps it

6 models x 24 checkpoints x 5 tasks x 3 seeds of 100 billion tokens, up to 1,097 experts x 32 depths. The report is
written in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from reports.data import QUERIES, read_study
from reports.page.report import write_report
from sql.results import connect, ingest
from sql.statistics.compute import compute_statistics

STUDY, BATCH, TOKENS = "paper-size", 2**20, 100_000_000_000
CHECKPOINTS, SEEDS, ITEMS = 24, 3, 1319
TASKS = ("gsm8k", "math", "mmlu_math", "mathqa", "world_long")
# Speed of learning and experts of each model: the paper's Table 3.
MODELS = {
    ("LA", 16): (1.0, 32),
    ("LA", 32): (1.2, 32),
    ("DR", 16): (1.5, 517),
    ("DR", 32): (1.8, 1039),
    ("DR+DA", 16): (1.6, 537),
    ("DR+DA", 32): (2.4, 1097),
}


def make_results(path: Path) -> None:
    """Write a results file with rows in every large table."""
    random = np.random.default_rng(0)
    config = {"study": {"name": STUDY, "training": {"tokens": TOKENS}}, "packages": {}}
    ingest(path, {"studies": _table([{"study_id": STUDY, "name": STUDY, "config": json.dumps(config)}])})
    for (variant, depth), (speed, experts) in MODELS.items():
        model = {"study_id": STUDY, "model_id": f"{variant}-{depth}"}
        sizes = {"variant": variant, "depth": depth, "parameters": 10**9, "flops_per_token": 1e9, "memory_bytes": 10**9}
        ingest(path, {"models": _table([{**model, **sizes, "config": json.dumps({"experts": experts})}])})
        for seed in range(SEEDS):
            run = f"{variant}-{depth}-s{seed}"
            measured = {"seconds": 4e5, "device": "H200", "tokens_per_second": 2.5e5, "mfu": 0.3}
            row = {**model, "run_id": run, "seed": seed, "status": "complete", "tokens": TOKENS, **measured}
            ingest(path, {"runs": _table([row]), **_rows(run, depth, speed, experts, variant, random)})
    with closing(connect(path)) as connection:
        compute_statistics(connection, STUDY, replicates=100)


def _rows(
    run: str, depth: int, speed: float, experts: int, variant: str, random: np.random.Generator
) -> dict[str, pa.Table]:
    """Draw the rows of one run."""
    points = np.linspace(TOKENS / CHECKPOINTS, TOKENS, CHECKPOINTS).astype(int)
    evaluations, items = [], []
    for task in TASKS:
        for tokens in points:
            place = {"run_id": run, "tokens": tokens, "task": task, "metric": "acc", "filter": "none"}
            scores = (random.random(ITEMS) < 0.6 / (1 + 3e10 / speed / tokens)) * 1.0
            loss = {**place, "metric": "gold_bits_per_byte", "value": 0.5 + 1e10 / (tokens * speed), "items": ITEMS}
            evaluations += [{**place, "value": scores.mean(), "items": ITEMS, "chance": 0.0}, loss]
            items.append(pd.DataFrame({**place, "item_id": np.arange(ITEMS).astype(str), "value": scores}))
    step = np.arange(1, TOKENS // BATCH + 1)
    steps = {"run_id": run, "step": step, "tokens": step * BATCH, "loss": 1 + 3 / step**0.3}
    steps |= {"learning_rate": 4e-4, "gradient_norm": 0.3 + random.random(len(step)), "seconds": step * 4.2}
    # Every expert of a recurrent model has favourite depths; a layered model has its own experts at each depth.
    favours = random.gamma(0.3, size=(CHECKPOINTS, depth, experts)) + 1e-3
    selections = (1e6 * favours / favours.sum(axis=2, keepdims=True)).astype(int)
    at, depths, names = np.indices(selections.shape).reshape(3, -1)
    usage = {
        "run_id": run,
        "tokens": points[at],
        "depth": depths + 1,
        "expert": names,
        "selections": selections.ravel(),
    }
    tables = {"items": pd.concat(items), "steps": pd.DataFrame(steps), "expert_usage": pd.DataFrame(usage)}
    if variant == "DR+DA":
        query, key = (1 + half for half in np.tril_indices(depth))
        at = np.repeat(points, len(query))
        tables["depth_attention"] = pd.DataFrame(
            {
                "run_id": run,
                "tokens": at,
                "query_depth": np.tile(query, CHECKPOINTS),
                "key_depth": np.tile(key, CHECKPOINTS),
            }
        ).assign(score=random.random(len(at)))
    checkpoints = [
        {"run_id": run, "tokens": tokens, "epoch": tokens / 4e10, "stream_hash": f"{tokens}"} for tokens in points
    ]
    return {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in tables.items()} | {
        "evaluations": _table(evaluations),
        "checkpoints": _table(checkpoints),
    }


def _table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def measure_report(results: Path, folder: Path) -> dict[str, float]:
    """Write the page in this process, then the page with the figures for papers.

    Returns of the page seconds, CPU seconds, peak memory in MB and size in MB, and the CPU seconds with the figures.
    """
    started, spent = time.monotonic(), time.process_time()
    page = write_report(results, STUDY, folder, papers=False)
    used = {"seconds": time.monotonic() - started, "cpu": time.process_time() - spent}
    used["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spent = time.process_time()
    write_report(results, STUDY, folder)
    used["cpu_with_papers"] = time.process_time() - spent
    return {**used, "page_mb": page.stat().st_size / 1e6, "figures": len(list((folder / "figures").glob("*.svg")))}


def measure_queries(results: Path) -> None:
    """Print the CPU seconds and the rows of each query of the report, the slowest first."""
    read_study(results, STUDY)  # brings the file up to date
    found = []
    with closing(connect(results, read_only=True)) as connection:
        for name, query in QUERIES.items():
            started = time.process_time()
            rows = len(connection.execute(query, [STUDY]).df())
            found.append((time.process_time() - started, name, rows))
    for seconds, name, rows in sorted(found, reverse=True)[:15]:
        print(f"  {name:<20} {seconds:6.2f} CPU s  {rows:>9,} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)  # the child process
    options = parser.parse_args()
    if options.write:
        print(json.dumps(measure_report(options.results, options.write)))
        return
    with tempfile.TemporaryDirectory() as folder:
        results = options.results or Path(folder) / "results.duckdb"
        if not results.exists():
            make_results(results)
        measure_queries(results)
        again = [sys.executable, "-m", __spec__.name, "--results", str(results), "--write", f"{folder}/report"]
        found = json.loads(subprocess.run(again, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(*(f"{name} {value:.2f}" for name, value in found.items()), sep="\n")


if __name__ == "__main__":
    main()
