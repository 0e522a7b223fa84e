"""What the report says of the tokens that runs read counts the runs that count in the curves."""

from __future__ import annotations

import pandas as pd

from reports.data import StudyData
from reports.text.token_stream import streams


def read(*runs: tuple[str, int, str]) -> StudyData:
    """A study of runs (variant, seed, status) of depth 4; runs of one seed have read the same tokens."""
    checkpoints = [
        {"run_id": f"{variant}-{seed}", "variant": variant, "depth": 4, "seed": seed, "status": status}
        | {"tokens": 1000, "stream_hash": f"hash {seed}"}
        for variant, seed, status in runs
    ]
    return StudyData({}, {"checkpoints": pd.DataFrame(checkpoints), "mismatches": pd.DataFrame()})


def test_a_failed_run_is_none_that_went_on() -> None:
    failed = read(("LA", 0, "complete"), ("LA", 1, "failed"), ("DR", 0, "failed"), ("DR", 1, "complete"))
    assert "The models that went on are of different seeds (DR 1 and LA 0)" in streams(failed)
    whole = read(*((variant, seed, "complete") for variant in ("LA", "DR") for seed in (0, 1)))
    assert streams(whole).startswith("All models read the same tokens in the same order, another order for each seed")
