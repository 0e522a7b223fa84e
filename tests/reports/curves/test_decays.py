"""A learning rate that decays makes a ratio a bound, unless both runs have ended their decay.

The planted truth: with a rate that has decayed to its end, the variant takes 1.5 times as many
tokens to every score. A run that has ended is as good as one of twice its tokens without a decay,
and the rate decays over the last fifth of each run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dreamer_study.reports.curves.entering import enter_curves
from dreamer_study.reports.curves.points import Curves
from dreamer_study.sql.results import ingest, query

pytestmark = pytest.mark.slow

TRUE = 1.5
HORIZON = 1e9
DECAY_FROM = 0.8
SHARES = np.arange(1, 21) / 20
# Of the seeds, about the law, in log tokens.
SHIFTS = (-0.03, -0.01, 0.01, 0.03)


def decayed(share: np.ndarray) -> np.ndarray:
    """Return how much of a run's decay is done at shares of the run."""
    return np.clip((share - DECAY_FROM) / (1 - DECAY_FROM), 0, 1)


def points(variant: str, horizon: float, tokens_needed: float, shift: float) -> pd.DataFrame:
    """Make the accuracies along one run of a model that needs a multiple of the tokens."""
    tokens = SHARES * horizon
    effective = tokens * 2 ** decayed(SHARES) / tokens_needed * np.exp(-shift)
    accuracy = 0.5 + 0.1 * np.log(effective / HORIZON)
    return pd.DataFrame(
        {
            "variant": variant,
            "seed": SHIFTS.index(shift),
            "tokens": tokens.round().astype(int),
            "task": "t",
            "metric": "accuracy",
            "filter": "none",
            "value": accuracy,
        }
    )


def curves(variant_horizon: float, *, variant_needs: float = TRUE) -> Curves:
    """Make the curves of both models; the baseline's runs have the length 1e9."""
    frames = [
        points(variant, horizon, needed, shift)
        for variant, horizon, needed in (
            ("baseline", HORIZON, 1.0),
            ("variant", variant_horizon, variant_needs),
        )
        for shift in SHIFTS
    ]
    return Curves(pd.concat(frames, ignore_index=True))


def row(path: Path, found: Curves, *, told: bool) -> dict[str, object]:
    """Return the ratio, where the decay is told, or is known from the steps of the runs."""
    enter_curves(path, found, baseline="baseline", decayed_at_end=told)
    if not told:
        ingest(path, {"steps": pa.Table.from_pandas(steps(found), preserve_index=False)})
    (only,) = query(path, "from token_ratios where task = 't'").to_dict("records")
    return only


def steps(found: Curves) -> pd.DataFrame:
    """Make the steps of the runs, with a rate that falls over the last fifth of each run."""
    rows = found.points[["variant", "seed", "tokens"]].copy()
    run = rows.groupby(["variant", "seed"])["tokens"]
    share = rows["tokens"] / run.transform("max")
    return pd.DataFrame(
        {
            "run_id": rows["variant"] + " seed " + rows["seed"].astype(str),
            "step": run.rank().astype(int),
            "tokens": rows["tokens"],
            "learning_rate": 1e-3 * (1 - decayed(share.to_numpy())),
        }
    )


@pytest.mark.parametrize("told", [True, False], ids=["told", "by the steps"])
def test_a_score_reached_inside_a_decay_is_a_bound(tmp_path: Path, told: bool) -> None:
    """With equal horizons the better model has the other's best before its own rate is down."""
    found = row(tmp_path / "results.duckdb", curves(HORIZON), told=told)
    assert found["ratio"] == pytest.approx(1.11, abs=0.005)  # log 0.104 of 0.405
    assert found["decay_bound"] == "at least"
    assert found["ratio"] < TRUE


@pytest.mark.parametrize("told", [True, False], ids=["told", "by the steps"])
def test_the_bound_of_a_better_variant_is_from_above(tmp_path: Path, told: bool) -> None:
    better = curves(HORIZON, variant_needs=1 / TRUE)
    found = row(tmp_path / "results.duckdb", better, told=told)
    assert found["decay_bound"] == "at most"
    assert found["ratio"] > 1 / TRUE


@pytest.mark.parametrize("told", [True, False], ids=["told", "by the steps"])
@pytest.mark.parametrize("length", [0.99, 1.0, 1.01])
def test_runs_that_end_at_one_quality_give_the_ratio_itself(
    tmp_path: Path, told: bool, length: float
) -> None:
    horizon = length * TRUE * HORIZON
    found = row(tmp_path / "results.duckdb", curves(horizon), told=told)
    assert pd.isna(found["decay_bound"])
    assert found["ratio"] == pytest.approx(TRUE, rel=0.01)
    if length == 1:
        assert found["ratio"] == pytest.approx(TRUE, rel=1e-6)


def cut(path: Path, share: float) -> dict[str, object]:
    """Return the ratio of curves that stop at a share of the runs, whose steps are known."""
    whole = curves(HORIZON)
    is_early = whole.points["tokens"] <= share * HORIZON
    enter_curves(path, Curves(whole.points[is_early]), baseline="baseline")
    ingest(path, {"steps": pa.Table.from_pandas(steps(whole), preserve_index=False)})
    (found,) = query(path, "from token_ratios where task = 't'").to_dict("records")
    return found


def test_scores_before_any_decay_are_compared_as_they_are(tmp_path: Path) -> None:
    found = cut(tmp_path / "results.duckdb", 0.75)
    assert pd.isna(found["decay_bound"])
    assert found["before_decay"]
    assert found["ratio"] == pytest.approx(TRUE, rel=1e-6)


def test_curves_that_stop_inside_a_decay_give_a_bound(tmp_path: Path) -> None:
    found = cut(tmp_path / "results.duckdb", 0.9)
    assert found["decay_bound"] == "at least"
    assert not found["before_decay"]
    assert found["ratio"] < TRUE


def test_a_rate_that_stays_is_no_decay(tmp_path: Path) -> None:
    found = row(tmp_path / "results.duckdb", curves(HORIZON), told=True)
    path = tmp_path / "constant.duckdb"
    enter_curves(path, curves(HORIZON), baseline="baseline")
    constant = steps(curves(HORIZON)).assign(learning_rate=1e-3)
    ingest(path, {"steps": pa.Table.from_pandas(constant, preserve_index=False)})
    (plain,) = query(path, "from token_ratios where task = 't'").to_dict("records")
    assert pd.isna(plain["decay_bound"])
    assert not plain["before_decay"]
    assert plain["ratio"] == found["ratio"]
