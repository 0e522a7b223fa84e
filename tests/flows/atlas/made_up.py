"""Results files of made-up studies, each a family of the atlas, without a training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dreamer_study.flows.atlas.collecting import collect
from dreamer_study.flows.plan.elsewhere import settings_as_inputs
from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.ingest import ingest
from dreamer_study.sql.results import connect
from dreamer_study.sql.statistics.compute import compute_statistics
from tests.flows.by_hand import tiny_settings

TASKS = {"world_expressions": 0.2, "world_recall": 0.1}  # with the accuracy of guessing
ITEMS = 50
POINTS = [1000 * 2**power for power in range(6)]
# How fast a variant learns each task; 0: never.
SPEEDS = {
    "LA": (1.0, 1.0),
    "DR": (0.5, 0.8),
    "Llama": (0.0, 1.5),
    "RWKV": (1.4, 0.6),
    "LSTM": (0.7, 0.0),
    "Late": (1.0, 1.0),
}
NEVER = {("DR", "world_recall", 2)}  # variant, task and seed


def settings(name: str, variants: Sequence[str], **changes: Any) -> dict[str, Any]:
    """The settings of a family; `changes` are those of sections."""
    written = [
        {"name": variant, "family": "LA", "overrides": {"expert_size": 32 + 8 * place}}
        for place, variant in enumerate(SPEEDS)
        if variant in variants
    ]
    changes = {"name": name, "models": {"variants": written, "depths": [2]}, **changes}
    changes["data"] = {
        "world": {"documents": 1500, "items": 40, "families": ["expressions", "recall"]}
    }
    changes["training"] = {"seeds": [0, 1, 2], **changes.get("training", {})}
    changes["evaluation"] = {"bootstrap_replicates": 50, **changes.get("evaluation", {})}
    return tiny_settings(**changes)


def family(
    path: Path, variants: Sequence[str], *, trained: Mapping[str, int] | None = None, **changes: Any
) -> Path:
    """Write the results file of a family; `trained` says of which variants fewer seeds are there."""
    study = load_study(settings(path.stem, variants, **changes))
    study_id = study.study_id
    tables: dict[str, list[dict[str, Any]]] = {
        "studies": [
            {
                "study_id": study_id,
                "name": study.name,
                "config": json.dumps({"study": study.model_dump(mode="json")}),
                "code_version": "0.1.0 (1a2b3c4)",
                "created_at": datetime(2026, 11, 29),
                "baseline": "LA",
            }
        ],
        "study_inputs": [
            {"study_id": study_id, "what": what, "value": value}
            for what, value in {**settings_as_inputs(study), "the tokenizer": "5d1c"}.items()
        ],
        "benchmark_levels": [
            {
                "study_id": study_id,
                "task": task,
                "metric": "acc",
                "filter": "none",
                "chance": chance,
            }
            for task, chance in TASKS.items()
        ],
    }
    for place, variant in enumerate(variants, start=1):
        seeds = (trained or {}).get(variant, 3)
        for table, rows in _of_variant(study_id, variant, place, seeds).items():
            tables.setdefault(table, []).extend(rows)
    ingest(path, {name: pa.Table.from_pylist(rows) for name, rows in tables.items()})
    with closing(connect(path)) as connection:
        compute_statistics(connection, study_id, replicates=50)
    return path


def _of_variant(
    study_id: str, variant: str, place: int, seeds: int
) -> dict[str, list[dict[str, Any]]]:
    model = {"study_id": study_id, "model_id": f"{variant}-2"}
    costs = {"parameters": 50_000 + place, "flops_per_token": 75_000.0, "memory_bytes": 1}
    tables: dict[str, list[dict[str, Any]]] = {
        "models": [
            {**model, "variant": variant, "depth": 2, "config": "{}", "place": place, **costs}
        ],
        "tuning": [
            {
                "study_id": study_id,
                "depth": 2,
                "variant": variant,
                "learning_rate": rate,
                "seed": 100,
                "tokens": 1000,
                "loss": 1.0,
                "chosen": rate == 2e-3,
            }
            for rate in (1e-3, 2e-3, 4e-3)
        ],
    }
    for seed in range(seeds):
        run = {"run_id": f"{variant}-2-s{seed}"}
        rate = {"learning_rate": 2e-3, "tokens_per_second": 1000.0, "device": "cpu"}
        state = {"seed": seed, "status": "complete", "tokens": POINTS[-1]}
        tables.setdefault("runs", []).append({**model, **run, **state, **rate})
        for tokens in POINTS:
            at = {**run, "tokens": tokens}
            tables.setdefault("checkpoints", []).append({**at, "step": tokens // 500})
            for task in TASKS:
                tables.setdefault("claims", []).append({"study_id": study_id, **at, "task": task})
                for table, rows in _evaluated(variant, seed, at, task).items():
                    tables.setdefault(table, []).extend(rows)
    return tables


def _evaluated(
    variant: str, seed: int, at: Mapping[str, Any], task: str
) -> dict[str, list[dict[str, Any]]]:
    """Make the rows of an evaluation: accuracies that rise with the logarithm of the tokens."""
    chance = TASKS[task]
    speed = SPEEDS[variant][list(TASKS).index(task)]
    if (variant, task, seed) in NEVER:
        speed = 0.0
    learned = np.clip(speed * np.log2(at["tokens"] / 1000) / 6 + 0.03 * seed, 0, 1)
    accuracy = chance + (1 - chance) * learned * (speed > 0)
    drawn = np.random.default_rng([seed, len(variant), at["tokens"]]).random(ITEMS)
    right = (drawn < accuracy).astype(float)
    key = {**at, "task": task, "filter": "none"}
    error = float(right.std() / np.sqrt(ITEMS))
    scores = {"acc": float(right.mean()), "gold_bits_per_byte": 3.0 - 2 * accuracy}
    return {
        "evaluations": [
            {
                **key,
                "metric": metric,
                "value": value,
                "stderr": error,
                "items": ITEMS,
                "chance": chance if metric == "acc" else None,
            }
            for metric, value in scores.items()
        ],
        "items": [
            {**key, "metric": metric, "item_id": str(item), "value": value}
            for metric, values in (("acc", right), ("gold_bits_per_byte", drawn))
            for item, value in enumerate(values.tolist())
        ],
    }


def made_up_world(folder: Path) -> Path:
    """Write the world `tiny` of two families, and return the folder of worlds."""
    families = [
        family(folder / "dense.duckdb", ["LA", "Llama"]),
        family(
            folder / "recurrent.duckdb", ["LA", "DR", "RWKV", "LSTM", "Late"], trained={"Late": 2}
        ),
    ]
    left_out = [{"variant": "Mamba", "reason": "1,000 tokens/s"}]
    remarks = collect(families, folder / "worlds" / "tiny", left_out)
    assert remarks == ["left out, as not complete: Late"]
    return folder / "worlds"
