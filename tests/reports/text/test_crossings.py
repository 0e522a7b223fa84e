"""Factors by the paper's rule in words: one unit in a sentence, with bound and doubts."""

from __future__ import annotations

from typing import Any

import pytest

from reports.text.crossings import crossing

ROW = {
    "variant": "DR",
    "baseline": "LA",
    "depth": 16,
    "task": "average",
    "baseline_accuracy": 0.323,
    "baseline_tokens": 100e9,
    "variant_tokens": 25e9,
    "factor": 4.0,
    "bound": "exact",
    "near_chance": False,
    "own_best": 0.457,
    "tokens_trained": 100e9,
    "baseline_bound": "exact",
}
NEVER = {"bound": "at most", "variant_tokens": None}


def test_the_example() -> None:
    found = crossing(ROW)
    assert (found.figure, found.unit, found.interval, found.doubts) == ("4.0×", "fewer training tokens", "", ())
    assert found.sentence == (
        "DR reached LA’s best average accuracy (32.3%) with 4.0 times fewer training tokens: 25B instead of 100B."
    )


@pytest.mark.parametrize(
    ("changed", "figure", "said"),
    [
        pytest.param({"factor": 0.5, "variant_tokens": 200e9}, "0.50×", "2.0 times as many", id="more tokens"),
        pytest.param({"factor": 1.0, "variant_tokens": 100e9}, "1.0×", "with as many", id="as many"),
        pytest.param({"factor": 1.04, "variant_tokens": 96e9}, "1.0×", "with about as many", id="about as many"),
        pytest.param({"bound": "at least"}, "≥\u202f4.0×", "at least 4.0 times fewer", id="at the first checkpoint"),
        pytest.param({"bound": "at least", "factor": 0.9}, "≥\u202f0.90×", "too far apart", id="LA even earlier"),
        pytest.param(NEVER | {"factor": 0.8}, "≤\u202f0.80×", "more than 1.25 times LA’s", id="never reached"),
        pytest.param(NEVER | {"factor": 1.0}, "≤\u202f1.0×", "more tokens than LA", id="never, with as many"),
        pytest.param(NEVER | {"factor": 3.0}, "≤\u202f3.0×", "too few tokens to say", id="ended too early"),
    ],
)
def test_the_figure_and_the_sentence_say_the_bound(changed: dict[str, Any], figure: str, said: str) -> None:
    found = crossing(ROW | changed)
    assert found.figure == figure
    assert said in found.sentence


def test_near_chance_nothing_is_told_and_doubts_stand_beside_the_factor() -> None:
    found = crossing(ROW | {"near_chance": True, "baseline_bound": "at least"})
    assert found.sentence.startswith("The study cannot tell")
    assert len(found.doubts) == 2


def test_a_missing_factor_claims_nothing() -> None:
    found = crossing(ROW | {"factor": float("nan"), "bound": None})
    assert (found.figure, found.doubts) == ("–", ())
    assert "cannot be compared" in found.sentence
