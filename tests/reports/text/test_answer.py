"""The answer in words: one unit that is above 1, its interval in that unit, and what makes the answer weak."""

from __future__ import annotations

import math
import re
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.text.answer import answers, times

ROW = {"metric": "accuracy", "task": "average", "depth": 4, "seeds": 5, "within_noise": False, "baseline": "LA"}
NO_OTHERS = pd.DataFrame({"depth": []})
OPEN = "The study cannot tell whether "


def said(*rows: dict[str, Any]) -> list[str]:
    return answers(pd.DataFrame([{**ROW, "low": None, "high": None, **row} for row in rows]), NO_OTHERS)


def test_what_is_decided_comes_before_what_is_not_in_one_text_for_each_depth() -> None:
    mixed, single = said(
        {"variant": "DR+DA", "factor": 0.8, "low": 0.5, "high": 1.25},
        {"variant": "DR", "factor": 2.5, "low": 1.9, "high": 3.4},
        {"variant": "DR", "factor": 1.1, "depth": 8, "metric": "loss"},
    )
    assert mixed == (
        "At depth 4, for equal average accuracy, DR needed 2.50 times fewer training tokens than LA (95% interval 1.90 "
        "to 3.40). The study cannot tell whether DR+DA needed fewer or more: 1.25 times as many (0.80 to 2.00)."
    )
    assert single.startswith("At depth 8, for equal average loss of the right answers, DR needed 1.10 times fewer")
    assert single.endswith("(no interval).")


def test_models_that_are_not_decided_share_a_sentence() -> None:
    (text,) = said(
        {"variant": "DR", "factor": 1.05, "low": 0.9, "high": 1.2},
        {"variant": "DR+DA", "factor": 0.8, "low": 0.5, "high": 1.25},
    )
    assert text.startswith(f"{OPEN}DR or DR+DA ")
    assert text.count("cannot tell") == 1


def test_a_factor_of_noise_decides_nothing() -> None:
    assert said({"variant": "DR", "factor": 0.5, "within_noise": True})[0].startswith(OPEN)


@given(st.floats(0.05, 20), st.floats(1, 3), st.floats(1, 3))
def test_the_interval_holds_the_figure_of_its_sentence(value: float, below: float, above: float) -> None:
    (sentence,) = said({"variant": "DR", "factor": value, "low": value / below, "high": value * above})
    figure = float(re.search(r"([\d.]+) times (?:fewer|as many)", sentence)[1])
    low, high = map(float, re.search(r"95% interval ([\d.]+) to ([\d.]+)", sentence).groups())
    assert low <= figure <= high
    assert sentence.startswith(OPEN) == (value / below < 1 < value * above)


@pytest.mark.parametrize(("value", "words"), [(2.4, "2.40× fewer"), (0.5, "2.00× as many"), (1.0, "1.00× fewer")])
def test_the_unit_is_above_one(value: float, words: str) -> None:
    assert times(value) == words


@given(st.floats(0.01, 100))
def test_the_number_said_is_never_below_one(value: float) -> None:
    number = float(times(value).split("×")[0])
    assert number >= 1
    assert math.isclose(number, max(value, 1 / value), rel_tol=0.01)
