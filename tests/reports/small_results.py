"""Small made-up results files for the tests of the report, entered the way a study enters its
own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from dreamer_study.sql.results import connect, ingest
from dreamer_study.sql.statistics.compute import compute_statistics
from tests.sql.by_hand import PLACES
from tests.sql.empty import empty_file

STUDY = "small-00000000"
ITEMS = 40
POINTS = (1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000)
# Right answers of 40 items at each checkpoint. DR has LA's best two checkpoints earlier, DR+DA at
# its first one, and "tiny" never; so the factors on the average are 4, at least 16, and at most 1.
RIGHT = {
    "LA": (4, 8, 12, 16, 20),
    "DR": (8, 12, 20, 24, 28),
    "DR+DA": (20, 24, 28, 32, 36),
    "tiny": (2, 4, 6, 8, 10),
}
VERSIONS = {
    "code_version": "0.1.0 (fedcba987654)",
    "data_version": "0a1b2c3d",
    "harness_version": "lm-eval 0.4.13",
    "packages": json.dumps({"torch": "2.13.0", "lm-eval": "0.4.13"}),
}
TASKS = ("gsm8k", "mmlu_math")
Tables = dict[str, list[dict[str, Any]]]


def entered(
    path: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]], replicates: int = 0
) -> Path:
    """A results file with these rows; with replicates, also the intervals."""
    given = {
        name: pa.Table.from_pylist([dict(row) for row in rows])
        for name, rows in tables.items()
        if rows
    }
    ingest(empty_file(path), given)
    if replicates:
        connection = connect(path)
        compute_statistics(connection, STUDY, replicates=replicates)
        connection.close()
    return path


def study(config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The row of `studies`."""
    chosen = {
        "packages": {"torch": "2.13.0", "duckdb": "2.0.0"},
        "study": {
            "training": {"tokens": POINTS[-1]},
            "name": "small",
            "evaluation": {"limit": ITEMS},
        },
    }
    return {
        "study_id": STUDY,
        "name": "small",
        "config": json.dumps(config or chosen),
        "code_version": "0.1.0 (0123456789ab)",
        "created_at": datetime(2026, 5, 4),
        "baseline": "LA",
    }


def evaluations(
    run: str, right: Sequence[int], tasks: Sequence[str] = TASKS, points: Sequence[int] = POINTS
) -> dict[str, list[dict[str, Any]]]:
    """Rows of `evaluations` and `items` of one run."""
    tables: dict[str, list[dict[str, Any]]] = {"evaluations": [], "items": []}
    for task in tasks:
        metric, kind = ("exact_match", "flexible-extract") if task == "gsm8k" else ("acc", "none")
        for tokens, count in zip(points, right, strict=True):
            key = {"run_id": run, "tokens": tokens, "task": task, "metric": metric, "filter": kind}
            tables["evaluations"].append(
                {**key, "value": count / ITEMS, "stderr": None, "items": ITEMS, "chance": 0.0}
            )
            tables["items"] += [
                {**key, "item_id": str(item), "value": float(item < count)} for item in range(ITEMS)
            ]  # fmt: skip
    return tables


def whole_study(
    path: Path, right: Mapping[str, Sequence[int]] = RIGHT, depths: Sequence[int] = (4,)
) -> Path:
    """A results file with rows in every table."""
    tables: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("models", "runs", "steps", "evaluations", "items")
    }
    tables |= {
        "studies": [study()],
        "curation": curation(),
        "expert_usage": [],
        "depth_attention": [],
    }
    tables |= {"checkpoints": [], "evaluation_versions": [], "depth_evaluations": [], "answers": []}
    for depth in depths:
        for variant, counts in right.items():
            model, run = f"{variant}-{depth}", f"{variant}-{depth}-s0"
            tables["models"].append(model_row(model, variant, depth))
            tables["runs"].append(run_row(run, model))
            tables["steps"] += [
                {"run_id": run, "step": step, "tokens": step * 20_000, "loss": 5 / step**0.3}
                for step in range(1, 801)
            ]
            for name, rows in evaluations(run, counts).items():
                tables[name] += rows
            perplexity = {
                "run_id": run,
                "tokens": POINTS[-1],
                "task": "college",
                "metric": "word_perplexity",
            }
            tables["evaluations"].append(
                {**perplexity, "filter": "none", "value": 9.5, "items": 30}
            )
            tables["checkpoints"] += checkpoints(run)
            last = {"run_id": run, "tokens": POINTS[-1]}
            for task in TASKS:
                tables["evaluation_versions"].append({**last, "task": task, **VERSIONS})
            asked = {**last, "task": "gsm8k", "gold": "7"}
            tables["answers"] += [
                {
                    **asked,
                    "item_id": str(item),
                    "question": f"{item} + <b>1</b>?",
                    "text": "7" if item < counts[-1] else "4",
                }
                for item in (5, 15, 25)
            ]
            if variant == "DR":
                gsm8k = {
                    **last,
                    "task": "gsm8k",
                    "metric": "exact_match",
                    "filter": "flexible-extract",
                    "items": ITEMS,
                }
                tables["depth_evaluations"] += [
                    {**gsm8k, "depth": d, "value": 0.1 * d, "stderr": 0.05}
                    for d in (depth - 1, depth, depth + 1)
                ]
            tables["expert_usage"] += [
                {**last, "depth": d, "expert": e, "selections": 10 * e + d}
                for d in range(1, depth + 1)
                for e in range(4)
            ]
            if variant == "DR+DA":
                pairs = [
                    (query, key) for query in range(1, depth + 1) for key in range(1, query + 1)
                ]
                tables["depth_attention"] += [
                    {**last, "query_depth": query, "key_depth": key, "score": 1 / query}
                    for query, key in pairs
                ]
    return entered(path, tables, replicates=60)


def trained(
    right: Mapping[str, Sequence[int]],
    tasks: Sequence[str] = TASKS,
    seeds: int = 1,
    stream: str = "ab",
) -> Tables:
    """Models of so many seeds for each variant, trained and evaluated; a further seed has one more
    right answer."""
    tables: Tables = {
        "studies": [study()],
        "models": [],
        "runs": [],
        "steps": [],
        "checkpoints": [],
        "run_details": [],
    }
    tables |= {"evaluations": [], "items": []}
    for variant, counts in right.items():
        tables["models"].append(model_row(variant, variant, 4))
        for seed in range(seeds):
            run = f"{variant}-s{seed}"
            tables["runs"].append(run_row(run, variant) | {"seed": seed})
            tables["steps"] += [
                {
                    "run_id": run,
                    "step": n,
                    "tokens": n * 100_000,
                    "loss": 5 / n**0.3,
                    "seconds": 1.0 * n,
                }
                for n in range(1, 161)
            ]
            tables["checkpoints"] += checkpoints(run, stream=stream)
            for name, rows in evaluations(run, [count + seed for count in counts], tasks).items():
                tables[name] += rows
    return tables


def models_and_runs(*variants: str) -> Tables:
    """Build a study with one model and one run for each variant, both named after the variant,
    without evaluations."""
    tables: Tables = {
        "studies": [study()],
        "models": [model_row(name, name, 4) for name in variants],
    }
    return tables | {"runs": [run_row(name, name) for name in variants], "evaluations": []}


def checkpoints(run: str, stream: str = "ab") -> list[dict[str, Any]]:
    """Rows of `checkpoints` of one run, which ends after two epochs and a half."""
    return [
        {
            "run_id": run,
            "tokens": tokens,
            "epoch": 2.5 * tokens / POINTS[-1],
            "stream_hash": f"{stream}{tokens}",
        }
        for tokens in POINTS
    ]


def model_row(model: str, variant: str, depth: int) -> dict[str, Any]:
    """A row of `models`."""
    numbers = {
        "parameters": 1_170_800_000,
        "flops_per_token": 9.389e8,
        "memory_bytes": 4_782_700_000,
    }
    names = {"study_id": STUDY, "model_id": model, "variant": variant, "place": PLACES.get(variant)}
    return {
        **names,
        "depth": depth,
        **numbers,
        "config": json.dumps({"recurrent": variant != "LA"}),
    }


def run_row(
    run: str, model: str, tokens: int = POINTS[-1], status: str = "complete"
) -> dict[str, Any]:
    """A row of `runs`."""
    row = {
        "run_id": run,
        "study_id": STUDY,
        "model_id": model,
        "seed": 0,
        "status": status,
        "tokens": tokens,
    }
    return {
        **row,
        "seconds": 7300.0,
        "device": "cpu",
        "tokens_per_second": 2200.0,
        "stream_hash": "ab" * 16,
    }


def curation() -> list[dict[str, Any]]:
    """Rows of `curation`: 1,000 documents read, 700 packed."""
    steps = [
        ("documents", "kept", 1000, None),
        ("clean", "kept", 900, None),
        ("clean", "too_short", 100, None),
        ("deduplicate", "kept", 700, None),
        ("deduplicate", "exact_duplicate", 200, None),
        ("tokens", "kept", 700, 9_000_000),
    ]
    names = ("stage", "reason", "documents", "tokens")
    return [
        {"study_id": STUDY, "source": "world", "characters": 5, **dict(zip(names, s, strict=True))}
        for s in steps
    ]
