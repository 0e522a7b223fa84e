"""Write evaluations as records of Every Eval Ever, a schema for evaluations of many origins.

A record is a checkpoint of a run with its accuracies and losses. The package `every-eval-ever`
checks records; it needs Python 3.12, and writing them does not need it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import pandas as pd

from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark

FACTS = ("run_id", "tokens", "variant", "depth", "seed", "parameters", "weights")
ASKED = ("filter", "chance", "harness_version")
LIBRARY = "lm-eval "  # begins the version of a harness; other tasks are asked by this program alone


def write_records(
    scores: pd.DataFrame, study: Study, folder: Path, owner: str, public: Container[Any]
) -> None:
    """Write a record of each checkpoint to `folder/data/<study>/<owner>/<run>/`.

    There the validator looks for them. `public` are the checkpoints whose weights are published:
    run and tokens.
    """
    benchmarks = {benchmark.name: benchmark for benchmark in study.own_benchmarks}
    now = str(int(time.time()))
    for (run_id, tokens), rows in scores.groupby(["run_id", "tokens"]):
        name = f"{study.name}-{run_id}".replace("+", "-")  # as the hub allows
        details = {
            "deployment_type": "self_deployed",
            "model_availability": "open_weights" if (run_id, tokens) in public else "unknown",
            **{fact: str(rows.iloc[0][fact]) for fact in FACTS},
        }
        record = {
            "schema_version": "0.3.0",
            "evaluation_id": f"{study.study_id}/{owner}/{name}/{tokens}/{now}",
            "retrieved_timestamp": now,
            "source_metadata": {
                "source_name": study.study_id,
                "source_type": "evaluation_run",
                "source_organization_name": owner,
                "evaluator_relationship": "first_party",
            },
            "eval_library": {"name": "lm_eval", "version": _library_version(rows)},
            "model_info": {
                "name": f"{name} at {tokens}",
                "id": f"{owner}/{name}",
                "additional_details": details,
            },
            "evaluation_results": [
                _result(row, benchmarks.get(row["task"])) for row in rows.to_dict("records")
            ],
        }
        # of the same checkpoint the same name each time
        key = UUID(bytes=uuid5(NAMESPACE_URL, f"{owner}/{name}/{tokens}").bytes, version=4)
        path = folder / "data" / study.name / owner / name / f"{key}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1, allow_nan=False))


def _library_version(rows: pd.DataFrame) -> str:
    for version in rows["harness_version"].dropna():
        if version.startswith(LIBRARY):
            return version.removeprefix(LIBRARY)
    return "unknown"


def _result(row: Mapping[str, Any], benchmark: Benchmark | None) -> dict[str, Any]:
    """Describe one number: what was asked, the metric, the score with its standard error."""
    is_loss = row["measure"] == "loss"
    source = {"dataset_name": row["task"], "source_type": "other"}
    if benchmark:
        source = {
            "dataset_name": row["task"],
            "source_type": "hf_dataset",
            "hf_repo": benchmark.repository,
            "hf_split": benchmark.split,
        }
    score: dict[str, Any] = {"score": row["value"]}
    if pd.notna(row["stderr"]):
        score["uncertainty"] = {
            "standard_error": {"value": row["stderr"]},
            "num_samples": int(row["items"]),
        }
    metric = {
        "metric_id": "bits_per_byte" if is_loss else "accuracy",
        "metric_name": row["metric"],
        "lower_is_better": is_loss,
        "score_type": "continuous",
        "min_score": 0,
        "max_score": "Infinity" if is_loss else 1,
        "additional_details": {name: str(row[name]) for name in ASKED if pd.notna(row[name])},
    }
    return {
        "evaluation_result_id": f"{row['task']}/{row['metric']}/{row['filter']}",
        "evaluation_name": row["task"],
        "source_data": source,
        "metric_config": metric,
        "score_details": score,
    }
