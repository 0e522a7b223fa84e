"""The fitted curves of a study: known factors come out again, with honest intervals; what cannot be fitted says so."""

from __future__ import annotations

import numpy as np
import pytest

from sql import results
from sql.statistics.compute import compute_statistics
from tests.sql.by_hand import enter_scores, put

TOKENS = np.arange(1, 13) * 100_000.0


def law(floor, ceiling, scale, exponent, tokens=TOKENS):
    return ceiling - (ceiling - floor) / (1 + (tokens / scale) ** exponent)


@pytest.fixture
def path(tmp_path, empty_file):
    return empty_file(tmp_path / "results.duckdb")


def study(speed, items=600):
    """Scores of items of evenly spread difficulty, so that the accuracies are those of the law up to one item."""
    levels = np.random.default_rng(0).permutation((np.arange(items) + 0.5) / items)
    return {int(t): levels < law(0.1, 0.9, 8e5 / speed, 1.3, t) for t in TOKENS}


def fitted(path, view="data_efficiency_fitted", variant="DR", task="t"):
    rows = results.query(path, f"from {view} where variant = '{variant}' and task = '{task}'")
    assert len(rows) == 1
    return rows.iloc[0]


def test_a_variant_twice_as_fast_has_the_factor_two(path):
    enter_scores(path, {"LA": {"t": study(1)}, "DR": {"t": study(2)}}, chance=0.1)
    with results.connect(path) as connection:
        frame = compute_statistics(connection, "s", replicates=100)["fitted_curves"]
    assert list(frame["status"]) == ["fitted"] * 4  # two models, the task and the average
    row = fitted(path)
    assert row["factor"] == pytest.approx(2, rel=0.03)
    assert row["low"] <= row["factor"] <= row["high"] < 2.5
    assert row["bound"] == "exact"
    own = fitted(path, variant="LA")
    assert (own["factor"], own["low"], own["high"], own["bound"]) == (1, 1, 1, "exact")
    goal = law(0.1, 0.9, 8e5, 1.3, 6e5)
    tokens = results.query(path, f"from fitted_tokens_to('t', {goal})").set_index("variant")
    assert tokens.loc["LA", "tokens"] == pytest.approx(6e5, rel=0.02)
    assert tokens.loc["DR", "tokens"] == pytest.approx(3e5, rel=0.02)
    assert (tokens["low"] < tokens["tokens"]).all()
    assert (tokens["tokens"] < tokens["high"]).all()
    line = results.query(path, "from fitted_lines where task = 't' and variant = 'LA'")
    assert (len(line), line["tokens"].iloc[0], line["tokens"].iloc[-1]) == (60, 1e5, pytest.approx(1.2e6))
    assert line["accuracy"].to_numpy() == pytest.approx(law(0.1, 0.9, 8e5, 1.3, line["tokens"].to_numpy()), abs=0.005)


def test_fitting_again_replaces_and_repeats(path):
    enter_scores(path, {"LA": {"t": study(1)}, "DR": {"t": study(2)}}, chance=0.1)
    found = []
    for _ in range(2):
        with results.connect(path) as connection:
            compute_statistics(connection, "s", replicates=20)
            found.append(connection.execute("from fitted_replicates order by all").fetchall())
    assert found[0] == found[1]
    assert len(found[0]) == 4 * 20
    with results.connect(path, read_only=True) as connection:
        assert len(compute_statistics(connection, "s", replicates=5)["fitted_curves"]) == 4


def test_limits_and_missing_curves_are_rows(path):
    early, flat = law(0.1, 0.3, 8e5, 1.3), np.full(12, 0.2)
    curves = {
        "LA": law(0.1, 0.9, 8e5, 1.3),
        "low": early,
        "flat": flat,
        "high": np.minimum(1, 0.9 + 0.005 * TOKENS / 1e5),
    }
    with results.connect(path) as connection:
        for variant, curve in curves.items():
            put(connection, "models", [{"study_id": "s", "model_id": variant, "variant": variant, "depth": 4}])
            put(connection, "runs", [{"study_id": "s", "run_id": variant, "model_id": variant}])
            place = {"run_id": variant, "task": "t", "metric": "acc", "filter": "none", "items": 10_000, "chance": 0.1}
            rows = [{**place, "tokens": int(t), "value": v} for t, v in zip(TOKENS, curve, strict=True)]
            put(connection, "evaluations", rows)
        put(connection, "models", [{"study_id": "s", "model_id": "none", "variant": "none", "depth": 4}])
        compute_statistics(connection, "s")
    assert tuple(fitted(path, variant="low")[["bound", "variant_tokens"]].astype(object).fillna("-")) == (
        "at most",
        "-",
    )
    assert fitted(path, variant="flat")["bound"] == "at most"
    high = fitted(path, variant="high")
    assert (high["bound"], high["variant_tokens"]) == ("at least", 1e5)
    assert fitted(path, variant="none")[["factor", "bound"]].isna().all()
    assert (
        results.query(path, "select low, high from data_efficiency_fitted where variant <> 'LA'").isna().all(axis=None)
    )
    asked = results.query(path, "from fitted_tokens_to('t', 0.5)").set_index("variant")["bound"].to_dict()
    assert asked == {"LA": "exactly", "low": "more than", "flat": "more than", "high": "at most"}
