"""Sentences about factors by the paper's rule: one unit in a sentence, with bound, interval and doubts."""

from __future__ import annotations

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from reports.text.crossings import crossing

ROW = {
    "variant": "DR",
    "depth": 16,
    "task": "average",
    "baseline_accuracy": 0.323,
    "baseline_tokens": 100e9,
    "variant_tokens": 25e9,
    "factor": 4.0,
    "bound": "exact",
    "near_chance": False,
    "low": 3.0,
    "high": 5.5,
    "own_best": 0.457,
    "tokens_trained": 100e9,
    "baseline_bound": "exact",
}


def test_an_exact_factor() -> None:
    found = crossing(ROW)
    assert (found.figure, found.unit, found.interval) == ("4.0×", "fewer training tokens", "95% interval 3.0 to 5.5")
    assert found.sentence == (
        "DR reached LA’s best average accuracy (32.3%) with 4.0 times fewer training tokens (95% interval 3.0 to 5.5): "
        "25B instead of 100B."
    )
    assert found.doubts == ()


def test_more_tokens_have_the_interval_in_times_as_many() -> None:
    found = crossing({**ROW, "factor": 0.5, "variant_tokens": 200e9, "low": 0.4, "high": 0.8})
    assert found.sentence == (
        "DR needed 2.0 times as many training tokens (95% interval 1.2 to 2.5) to reach LA’s best average accuracy "
        "(32.3%): 200B instead of 100B."
    )
    assert found.interval == "95% interval 0.40 to 0.80", "in the unit of the figure 0.50×"


def test_a_sentence_begins_with_what_the_study_cannot_tell() -> None:
    unknown = "The study cannot tell whether DR of depth 16 needed fewer or more training tokens than LA. "
    fewer = crossing({**ROW, "low": 0.9, "high": 5.5})
    assert fewer.sentence.startswith(unknown + "DR reached")
    assert "(95% interval 0.90 to 5.5)" in fewer.sentence
    more = crossing({**ROW, "factor": 0.8, "variant_tokens": 120e9, "low": 0.0, "high": 1.6})
    assert more.sentence.startswith(
        unknown + "DR needed 1.2 times as many training tokens (95% interval at least 0.62)"
    )
    assert crossing({**ROW, "near_chance": True}).sentence.startswith(unknown + "DR reached"), "the goal is of chance"
    never = crossing({**ROW, "bound": "at most", "factor": 0.8, "variant_tokens": None, "low": 0.0, "high": 1.7})
    assert never.sentence.startswith(unknown + "DR did not reach")
    assert never.sentence.endswith("more than 1.25 times LA’s tokens (95% interval at least 0.59).")


@given(st.floats(0.05, 20), st.floats(1, 3), st.floats(1, 3))
def test_the_interval_holds_the_figure_of_its_sentence(value: float, below: float, above: float) -> None:
    found = crossing({**ROW, "factor": value, "low": value / below, "high": value * above})
    if shown := re.search(
        r"([\d.]+) times (?:fewer|as many) training tokens \(95% interval ([\d.]+) to ([\d.]+)", found.sentence
    ):
        figure, low, high = map(float, shown.groups())
        assert low <= figure <= high


def test_bounds() -> None:
    least = crossing({**ROW, "bound": "at least", "high": math.inf})
    assert least.figure.startswith("≥")
    assert "by its first checkpoint" in least.sentence
    assert least.sentence.endswith("at least 4.0 times fewer training tokens (95% interval at least 3.0).")
    most = crossing({**ROW, "bound": "at most", "factor": 0.8, "variant_tokens": None, "low": 0.0, "high": 0.9})
    assert most.figure.startswith("≤")
    assert most.sentence == (
        "DR did not reach LA’s best average accuracy (32.3%) within 100B tokens; its own best is 45.7%. "
        "It would need more than 1.25 times LA’s tokens (95% interval at least 1.1)."
    )
    undecided = crossing({**ROW, "bound": "at most", "factor": 3.0})
    assert "too few tokens to say" in undecided.sentence


def test_as_many_tokens() -> None:
    assert "with as many training tokens" in crossing({**ROW, "factor": 1.0, "variant_tokens": 100e9}).sentence
    assert "with about as many training tokens" in crossing({**ROW, "factor": 1.04, "variant_tokens": 96e9}).sentence


def test_doubts() -> None:
    found = crossing({**ROW, "near_chance": True, "baseline_bound": "at least", "low": None})
    assert [doubt.split(":")[0] for doubt in found.doubts] == [
        "No interval has been computed for this factor.",
        "LA itself is within two standard errors of chance here",
        "LA was best at its very first checkpoint",
    ]


def test_a_missing_factor_claims_nothing() -> None:
    found = crossing({**ROW, "factor": float("nan"), "bound": None})
    assert (found.figure, found.doubts) == ("–", ())
    assert "cannot be compared" in found.sentence
