"""Measure the report of a study of the paper's size; decides whether a change of the report is
kept.

    python -m benchmarks.report                       # makes the results file in a temporary folder
    python -m benchmarks.report --results big.duckdb  # makes the file where it is missing, and keeps it

6 models x 24 checkpoints x 5 tasks x 3 seeds of 100 billion tokens, up to 1,097 experts x 32
depths, all made up. Prints time, memory and size of the page, and the CPU seconds of the statistics
and of the slowest queries.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.tables import print_table
from dreamer_study.reports.data import QUERIES
from dreamer_study.reports.page.report import write_report
from dreamer_study.sql.results import connect, ingest
from dreamer_study.sql.statistics.compute import compute_statistics

STUDY, BATCH, TOKENS = "paper-size", 2**20, 100_000_000_000
CHECKPOINTS, SEEDS, ITEMS = 24, 3, 1319
TASKS = ("gsm8k", "math", "mmlu_math", "mathqa", "world_long")
SLOWEST = 15  # queries that are printed
# Speed of learning and experts of each model: the paper's Table 3.
MODELS = {
    ("LA", 16): (1.0, 32),
    ("LA", 32): (1.2, 32),
    ("DR", 16): (1.5, 517),
    ("DR", 32): (1.8, 1039),
    ("DR+DA", 16): (1.6, 537),
    ("DR+DA", 32): (2.4, 1097),
}


def make_results(path: Path, seeds: int = SEEDS, batch: int = BATCH, depths: int = 2) -> None:
    """Write a results file with rows in every large table, of models of one or two depths."""
    random = np.random.default_rng(0)
    config = {"study": {"name": STUDY, "training": {"tokens": TOKENS}}, "packages": {}}
    ingest(
        path,
        {"studies": _table([{"study_id": STUDY, "name": STUDY, "config": json.dumps(config)}])},
    )
    shown = sorted({depth for _, depth in MODELS})[:depths]
    models = {key: values for key, values in MODELS.items() if key[1] in shown}
    for (variant, depth), (speed, experts) in models.items():
        model = {"study_id": STUDY, "model_id": f"{variant}-{depth}"}
        sizes = {
            "variant": variant,
            "depth": depth,
            "parameters": 10**9,
            "flops_per_token": 1e9,
            "memory_bytes": 10**9,
        }
        config = json.dumps({"experts": experts, "recurrent": variant != "LA"})
        ingest(path, {"models": _table([{**model, **sizes, "config": config}])})
        for seed in range(seeds):
            run = f"{variant}-{depth}-s{seed}"
            measured = {"seconds": 4e5, "device": "H200", "tokens_per_second": 2.5e5, "mfu": 0.3}
            row = {
                **model,
                "run_id": run,
                "seed": seed,
                "status": "complete",
                "tokens": TOKENS,
                **measured,
            }
            ingest(
                path,
                {
                    "runs": _table([row]),
                    **_rows(run, depth, speed, experts, variant == "DR+DA", batch, random),
                },
            )


def _rows(
    run: str,
    depth: int,
    speed: float,
    experts: int,
    attends: bool,
    batch: int,
    random: np.random.Generator,
) -> dict[str, pa.Table]:
    """Draw the rows of one run."""
    points = np.linspace(TOKENS / CHECKPOINTS, TOKENS, CHECKPOINTS).astype(int)
    evaluations, items = [], []
    for task in TASKS:
        for tokens in points:
            place = {
                "run_id": run,
                "tokens": tokens,
                "task": task,
                "metric": "acc",
                "filter": "none",
            }
            scores = (random.random(ITEMS) < 0.6 / (1 + 3e10 / speed / tokens)) * 1.0
            loss = {
                **place,
                "metric": "gold_bits_per_byte",
                "value": 0.5 + 1e10 / (tokens * speed),
                "items": ITEMS,
            }
            evaluations += [{**place, "value": scores.mean(), "items": ITEMS, "chance": 0.0}, loss]
            items.append(
                pd.DataFrame({**place, "item_id": np.arange(ITEMS).astype(str), "value": scores})
            )
    step = np.arange(1, TOKENS // batch + 1)
    steps = {"run_id": run, "step": step, "tokens": step * batch, "loss": 1 + 3 / step**0.3}
    steps |= {
        "learning_rate": 4e-4,
        "gradient_norm": 0.3 + random.random(len(step)),
        "seconds": step * 4.2,
    }
    # Every expert of a recurrent model has favourite depths; a layered model has its own experts at
    # each depth.
    favours = random.gamma(0.3, size=(CHECKPOINTS, depth, experts)) + 1e-3
    selections = (1e6 * favours / favours.sum(axis=2, keepdims=True)).astype(int)
    at, depths, names = np.indices(selections.shape).reshape(3, -1)
    usage = {
        "tokens": points[at],
        "depth": depths + 1,
        "expert": names,
        "selections": selections.ravel(),
    }
    query, key = (np.tile(1 + half, CHECKPOINTS) for half in np.tril_indices(depth))
    attention = {
        "tokens": np.repeat(points, len(query) // CHECKPOINTS),
        "query_depth": query,
        "key_depth": key,
    }
    attention |= {"score": random.random(len(query))}
    checkpoints = {"tokens": points, "epoch": points / 4e10, "stream_hash": points.astype(str)}
    frames = {
        "items": pd.concat(items),
        "steps": pd.DataFrame(steps),
        "expert_usage": pd.DataFrame({"run_id": run, **usage}),
        "checkpoints": pd.DataFrame({"run_id": run, **checkpoints}),
        **({"depth_attention": pd.DataFrame({"run_id": run, **attention})} if attends else {}),
    }
    tables = {
        name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in frames.items()
    }
    return {**tables, "evaluations": _table(evaluations)}


def _table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def measure_report(results: Path, folder: Path) -> dict[str, float]:
    """Write the page, then the page with the figures for papers; in a process of its own, so that
    memory is its own."""
    started, spent = time.monotonic(), time.process_time()
    page = write_report(results, STUDY, folder, papers=False)
    used = {"page s": time.monotonic() - started, "page CPU s": time.process_time() - spent}
    used["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spent = time.process_time()
    write_report(results, STUDY, folder)
    used["CPU s with papers"] = time.process_time() - spent
    return {
        **used,
        "page MB": page.stat().st_size / 1e6,
        "figures": len(list((folder / "figures").glob("*.svg"))),
    }


def measure_queries(results: Path, replicates: int) -> dict[str, float]:
    """Measure the CPU seconds of the statistics, and of the report's queries, the slowest first."""
    spent = {}
    with closing(connect(results)) as connection:
        started = time.process_time()
        compute_statistics(connection, STUDY, replicates=replicates)
        statistics = {f"statistics, {replicates:,} replicates": time.process_time() - started}
        for name, query in QUERIES.items():
            started = time.process_time()
            connection.execute(query, [STUDY]).df()
            spent[name] = time.process_time() - started
    return statistics | dict(sorted(spent.items(), key=lambda item: -item[1])[:SLOWEST])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, help="a file that is kept for another run")
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="one seed and depth, few steps and replicates, for a test",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        results = options.results or Path(place) / "results.duckdb"
        if not results.exists():
            make_results(results, *((1, 2**28, 1) if options.tiny else ()))
        spent = measure_queries(results, 10 if options.tiny else 1000)
        print_table(
            "Statistics and queries",
            [{"query": name, "CPU s": seconds} for name, seconds in spent.items()],
        )
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            print_table(
                "The report",
                [fresh.submit(measure_report, results, Path(place) / "report").result()],
            )


if __name__ == "__main__":
    main()
