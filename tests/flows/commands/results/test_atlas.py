"""`dreamer atlas` says below its table what each sign means, in the rows that have it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dreamer_study.flows.atlas.table import Atlas
from dreamer_study.flows.commands.results.atlas import print_atlas, unmatched_flops

MEASURED = {"ratio": 1.2, "low": 0.9, "high": 1.6}
UNKNOWN = dict.fromkeys(("ratio", "low", "high", "decay_bound"))


def atlas(architectures: dict[str, Any] | None = None, **values: Any) -> Atlas:
    """An atlas of LA and X, whose ratio on recall has these values."""
    of_both = {
        "depth": 4,
        "parameters": 1000,
        "flops_per_token": 5000.0,
        "learning_rate": 1e-3,
        "rate_inside": True,
        "seeds": 3,
        "made": "2026-11-29",
    }
    rows = [{"variant": name, "baseline": name == "LA", **of_both} for name in ("LA", "X")]
    rows[1] |= architectures or {}
    ratio = {
        **{"depth": 4, "variant": "X", "baseline": "LA", "task": "world_recall"},
        **{"metric": "accuracy", "score_low": 0.5, "score_high": 0.9, "seeds": 3},
        **{"reached": True, "near_chance": False, "best": 0.9, "baseline_best": 0.9},
        **{"seeds_learned": 3, "baseline_seeds_learned": 3},
        **UNKNOWN,
        **values,
    }
    left_out = pd.DataFrame(columns=["variant", "reason"])
    return Atlas("tiny", pd.DataFrame(rows), pd.DataFrame([ratio]), left_out)


def printed(shown: Atlas, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The line of X, and the lines below the table."""
    print_atlas(shown)
    lines = capsys.readouterr().out.splitlines()
    (of_x,) = [line for line in lines if line.startswith("X")]
    below = next(number for number, line in enumerate(lines) if line.startswith("tiny:"))
    return of_x, "\n".join(lines[below:])


@pytest.mark.parametrize(
    ("values", "cell", "meaning"),
    [
        (MEASURED | {"reached": False}, "1.20x (0.90 to 1.60) †", "†: the best lies below LA's"),
        ({"low": 2.5, "near_chance": True}, "≥ 2.50x", "never rose above chance"),
        ({"low": 2.5}, "≥ 2.50x", "never rose above LA's first checkpoint"),
        ({"high": 0.2}, "≤ 0.20x", "the first checkpoint was above LA's best"),
        ({"high": 0.2, "near_chance": True}, "≤ 0.20x", "LA never rose above chance"),
        (
            MEASURED | {"decay_bound": "at most"},
            "≤ 1.20x (0.90 to 1.60)",
            "≤: a bound with an interval: the learning rate decays",
        ),
        ({"ratio": 1.2, "seeds": 1}, "1.20x (no interval)", "no interval: one seed has none"),
        ({"ratio": 1.2}, "1.20x (no interval)", "no interval: without one of the seeds"),
    ],
)
def test_a_sign_has_the_meaning_of_its_row(
    values: dict[str, Any], cell: str, meaning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    of_x, below = printed(atlas(**values), capsys)
    assert cell in of_x
    assert meaning in below


def test_a_sign_that_no_cell_has_is_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    of_x, below = printed(atlas(**MEASURED), capsys)
    assert "1.20x (0.90 to 1.60)" in of_x
    assert not any(sign in below for sign in ("†", "≥", "≤", "no interval", " of 3"))


def test_a_baseline_that_never_learned_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = {"near_chance": True, "seeds_learned": 0, "baseline_seeds_learned": 0}
    of_x, below = printed(atlas(**nobody), capsys)
    assert "never above chance" in of_x
    assert "On recall, LA itself is above chance at no seed" in below
    assert "itself" not in printed(atlas(**MEASURED), capsys)[1]


def test_costs_and_rates_that_are_not_as_the_others_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = atlas({"flops_per_token": 5120.0, "rate_inside": False}, **MEASURED)
    assert unmatched_flops(shown) == {"X": pytest.approx(0.024)}
    _, below = printed(shown, capsys)
    assert "not within 2 % of LA's: X (+2.4%)" in below
    assert "edge of those tried, so that a better one may lie beyond: X" in below
    _, below = printed(atlas({"flops_per_token": 5050.0}, **MEASURED), capsys)
    assert "not within" not in below
    assert "edge" not in below
