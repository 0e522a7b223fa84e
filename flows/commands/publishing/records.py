"""Write evaluations as records of Every Eval Ever, a schema in which evaluations of many origins
are collected.

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
    """Write a record of each checkpoint to `folder/data/<study>/<owner>/<run>/`, where the
    validator wants them.

    `public` are the checkpoints whose weights are published: run and tokens.
    """
    benchmarks, now = {one.name: one for one in study.own_benchmarks}, str(int(time.time()))
    source = {
        "source_type": "evaluation_run",
        "source_organization_name": owner,
        "evaluator_relationship": "first_party",
    }
    for (run_id, tokens), rows in scores.groupby(["run_id", "tokens"]):
        first, name = rows.iloc[0], f"{study.name}-{run_id}".replace("+", "-")  # as the hub allows
        versions = [
            text.removeprefix(LIBRARY)
            for text in rows["harness_version"].dropna()
            if text.startswith(LIBRARY)
        ]
        details = {"deployment_type": "self_deployed"}
        details |= {
            "model_availability": "open_weights" if (run_id, tokens) in public else "unknown"
        }
        details |= {fact: str(first[fact]) for fact in FACTS}
        record = {
            "schema_version": "0.3.0",
            "evaluation_id": f"{study.study_id}/{owner}/{name}/{tokens}/{now}",
            "retrieved_timestamp": now,
            "source_metadata": {"source_name": study.study_id, **source},
            "eval_library": {"name": "lm_eval", "version": next(iter(versions), "unknown")},
            "model_info": {
                "name": f"{name} at {tokens}",
                "id": f"{owner}/{name}",
                "additional_details": details,
            },
            "evaluation_results": [
                _result(row, benchmarks.get(row["task"])) for row in rows.to_dict("records")
            ],
        }
        # each time the same
        key = UUID(bytes=uuid5(NAMESPACE_URL, f"{owner}/{name}/{tokens}").bytes, version=4)
        path = folder / "data" / study.name / owner / name / f"{key}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1, allow_nan=False))


def _result(row: Mapping[str, Any], benchmark: Benchmark | None) -> dict[str, Any]:
    """Describe one number: what was asked, the metric, the score with its standard error."""
    source, is_loss, score = (
        {"source_type": "other"},
        row["measure"] == "loss",
        {"score": row["value"]},
    )
    if benchmark:
        source = {
            "source_type": "hf_dataset",
            "hf_repo": benchmark.repository,
            "hf_split": benchmark.split,
        }
    if pd.notna(row["stderr"]):
        score["uncertainty"] = {
            "standard_error": {"value": row["stderr"]},
            "num_samples": int(row["items"]),
        }
    metric = {"metric_id": "bits_per_byte" if is_loss else "accuracy", "metric_name": row["metric"]}
    metric |= {"lower_is_better": is_loss, "score_type": "continuous", "min_score": 0}
    metric |= {"max_score": "Infinity" if is_loss else 1}
    return {
        "evaluation_result_id": f"{row['task']}/{row['metric']}/{row['filter']}",
        "evaluation_name": row["task"],
        "source_data": {"dataset_name": row["task"], **source},
        "metric_config": {
            **metric,
            "additional_details": {name: str(row[name]) for name in ASKED if pd.notna(row[name])},
        },
        "score_details": score,
    }
