"""Frames as the views give them, for the tests of figures."""

from __future__ import annotations

import csv
import io
from typing import Any

import pandas as pd

from dreamer_study.reports.style.theme import styles

DRAWN = styles(["LA", "DR"])


def curve(**columns: Any) -> pd.DataFrame:
    """Rows of `StudyData.curve` on two tasks."""
    rows = pd.DataFrame(
        {
            "variant": ["LA", "LA", "DR", "DR"],
            "tokens": [1e6, 16e6] * 2,
            "accuracy": [0.2, 0.4, 0.3, 0.5],
        }
    )
    rows = rows.assign(
        depth=4, stderr=0.02, chance=0.1, items=100, seeds=1, seed_error=0.01
    ).assign(**columns)
    return pd.concat([rows.assign(task=task) for task in ("gsm8k", "average")])


NO_RAW = curve().iloc[:0]
RUNS = curve().assign(run_id="r", status="complete")
COUNTED = RUNS[["run_id"]]
FACTORS = pd.DataFrame(
    {
        "depth": 4,
        "baseline": "LA",
        "variant": ["LA", "DR"] * 2,
        "task": ["gsm8k"] * 2 + ["average"] * 2,
        "baseline_accuracy": 0.4,
        "variant_tokens": [16e6] * 4,
        "factor": [1.0, 1.0, 1.0, 2.0],
        "bound": ["exact", "at most", "exact", "at least"],
        "near_chance": [False, True, False, False],
    }
)


def data(specification: dict) -> list[list[dict[str, str]]]:
    """The data of a specification as rows of text."""
    texts = [value for value in specification["datasets"].values() if isinstance(value, str)]
    return [list(csv.DictReader(io.StringIO(text))) for text in texts]


SCORES = pd.DataFrame({"query_depth": [1, 2, 2], "key_depth": [1, 1, 2], "score": [1.0, 0.3, 0.7]})
SCORES = SCORES.assign(variant="DR", depth=2, run_id="s", tokens=5)


def ratios(**columns: Any) -> pd.DataFrame:
    """A row of `StudyData.ratios`: DR's, of the average accuracy."""
    row = {
        "depth": 4,
        "variant": "DR",
        "baseline": "LA",
        "task": "average",
        "metric": "accuracy",
        "score_low": 0.3,
        "score_high": 0.4,
        "ratio": 1.7,
        "low": 1.4,
        "high": 2.0,
        "best": 0.5,
        "baseline_best": 0.4,
        "reached": True,
        "seeds": 4.0,
        "outdated": False,
        "significant": True,
        "comparisons": 1,
        "within_checkpoint": False,
        "in_advance": False,
        "decay_bound": None,
    }
    numbers = ["score_low", "score_high", "ratio", "low", "high"]
    frame = pd.DataFrame([row | columns])
    return frame.astype({**dict.fromkeys(numbers, float), "significant": "boolean"})
