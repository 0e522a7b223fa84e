"""Rows of `StudyData.ratios` as the texts read them, and a study that has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.weaknesses import COSTS
from tests.reports.small_results import STUDY

ROW = {
    "study_id": STUDY,
    "depth": 4,
    "variant": "DR",
    "baseline": "LA",
    "task": "average",
    "metric": "accuracy",
    "score_low": 0.46,
    "score_high": 0.531,
    "ratio": 1.672,
    "low": 1.35,
    "high": 2.08,
    "factor": 0.598,
    "at_least": 1.23,
    "reached": True,
    "significant": True,
    "p_adjusted": 0.007,
    "depends_on": None,
    "seeds": 4,
    "detectable": 1.32,
    "in_advance": False,
    "near_chance": False,
    "within_checkpoint": False,
    "before_decay": False,
    "decay_bound": None,
    "one_task": False,
    "cut_short": False,
    "tuned": False,
    "comparisons": 9,
    "outdated": False,
    "variant_tokens": 8e5,
    "baseline_tokens": 4.5e5,
    "best": 0.531,
    "baseline_best": 0.747,
}
NONE = {"ratio": None, "low": None, "high": None, "factor": None, "detectable": None}
NO_RATIO = {**NONE, "significant": None, "p_adjusted": None, "reached": False}
NO_SCORES = {"score_low": None, "score_high": None}
ONE_SEED = {"low": None, "high": None, "significant": None, "p_adjusted": None, "seeds": 1}
OPEN = {"ratio": 1.05, "low": 0.9, "high": 1.21, "significant": False, "p_adjusted": 0.4}
LOSS = {"metric": "loss", "score_low": 1.62, "score_high": 1.834}


def table_of(*rows: Mapping[str, Any]) -> pd.DataFrame:
    """Rows of `StudyData.ratios`, each with these changes."""
    frame = pd.DataFrame([{**ROW, **row} for row in rows])
    numbers = ["ratio", "low", "high", "factor", "score_low", "score_high", "p_adjusted"]
    return frame.astype(dict.fromkeys(numbers, float) | {"significant": "boolean"})


def data_of(ratios: pd.DataFrame, **frames: pd.DataFrame) -> StudyData:
    """A study with these ratios, whose runs are complete, and nothing else."""
    runs = pd.DataFrame({"depth": 4, "variant": ["LA", "DR"], "status": "complete"})
    given = {
        "ratios": ratios,
        "order": pd.DataFrame({"variant": ["LA", "DR"], "baseline": "LA"}),
        "runs": runs.assign(learning_rate=1e-3, run_id=["a", "b"], tokens=800),
        "tuning": pd.DataFrame({"depth": [4, 4], "variant": ["LA", "DR"]}),
        "mismatches": pd.DataFrame(),
        "cut_short": pd.DataFrame({"depth": [], "variant": [], "ends": []}),
        "counted": pd.DataFrame(
            {
                "depth": [4, 4, 4],
                "variant": ["LA", "LA", "DR"],
                "run_id": ["LA-s0", "LA-s1", "DR-s0"],
            }
        ),
        "resources": pd.DataFrame({"depth": [4], "variant": "LA"} | dict.fromkeys(COSTS, 1.0)),
        "models": pd.DataFrame({"depth": [4], "variant": "LA", "remarks": None, "expert_size": 1}),
        "training_curves": pd.DataFrame({"losses_not_finite": []}),
        "accuracy": pd.DataFrame({"task": [], "items": [], "run_id": []}),
        "efficiency": pd.DataFrame(
            {"depth": [], "variant": [], "task": [], "own_best": [], "near_chance": []},
            dtype=object,
        ),
        "checkpoints": pd.DataFrame({"epoch": [1.0]}),
        "elsewhere": pd.DataFrame({"variant": [], "origin": []}, dtype=object),
    }
    return StudyData({}, given | frames)


MANY_VARIANTS = [{"variant": f"variant-{number:02d}", "ratio": 1.2} for number in range(11)]
