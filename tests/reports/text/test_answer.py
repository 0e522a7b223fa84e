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

ROW = {"metric": "accuracy", "task": "average", "depth": 4, "seeds": 5, "within_noise": False}
NO_OTHERS = pd.DataFrame({"depth": []})


def means(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([{**ROW, "low": None, "high": None, **row} for row in rows])


def test_one_sentence_for_each_depth() -> None:
    rows = means(
        {"variant": "DR", "factor": 2.5, "low": 1.9, "high": 3.4},
        {"variant": "DR+DA", "factor": 0.8, "low": 0.5, "high": 1.25},
        {"variant": "DR", "factor": 1.1, "depth": 8, "metric": "loss"},
    )
    assert answers(rows, NO_OTHERS) == [
        (
            4,
            "At depth 4, for equal average accuracy, DR needed 2.50 times fewer training tokens than LA (95% interval "
            "1.90 to 3.40). The study cannot tell whether DR+DA needed fewer or more: 1.25 times as many (0.80 to "
            "2.00).",
        ),
        (
            8,
            "At depth 8, for equal average loss of the right answers, DR needed 1.10 times fewer training tokens than "
            "LA (no interval).",
        ),
    ]


def test_a_sentence_begins_with_what_the_study_cannot_tell() -> None:
    rows = means(
        {"variant": "DR", "factor": 1.05, "low": 0.9, "high": 1.2},
        {"variant": "DR+DA", "factor": 0.8, "low": 0.5, "high": 1.25},
    )
    assert answers(rows, NO_OTHERS)[0][1] == (
        "The study cannot tell whether DR or DR+DA needed fewer or more training tokens than LA at depth 4 for equal "
        "average accuracy: DR 1.05 times fewer (95% interval 0.90 to 1.20) and DR+DA 1.25 times as many (0.80 to 2.00)."
    )


def test_more_tokens_are_as_many_as_those_of_the_baseline() -> None:
    rows = means({"variant": "DR", "factor": 0.5, "low": 0.4, "high": 0.625})
    assert answers(rows, NO_OTHERS)[0][1] == (
        "At depth 4, for equal average accuracy, DR needed 2.00 times as many training tokens as LA (95% interval 1.60 "
        "to 2.50)."
    )


def test_a_factor_of_noise_decides_nothing() -> None:
    rows = means({"variant": "DR", "factor": 0.5, "within_noise": True})
    assert answers(rows, NO_OTHERS)[0][1] == (
        "The study cannot tell whether DR needed fewer or more training tokens than LA at depth 4 for equal average "
        "accuracy: 2.00 times as many (no interval)."
    )


@given(st.floats(0.05, 20), st.floats(1, 3), st.floats(1, 3))
def test_the_interval_holds_the_figure_of_its_sentence(value: float, below: float, above: float) -> None:
    rows = means({"variant": "DR", "factor": value, "low": value / below, "high": value * above})
    ((_, sentence),) = answers(rows, NO_OTHERS)
    figure = float(re.search(r"([\d.]+) times (?:fewer|as many)", sentence)[1])
    low, high = map(float, re.search(r"95% interval ([\d.]+) to ([\d.]+)", sentence).groups())
    assert low <= figure <= high
    assert sentence.startswith("The study cannot tell") == (value / below < 1 < value * above)


@pytest.mark.parametrize(("value", "said"), [(2.4, "2.40× fewer"), (0.5, "2.00× as many"), (1.0, "1.00× fewer")])
def test_the_unit_is_above_one(value: float, said: str) -> None:
    assert times(value) == said


@given(st.floats(0.01, 100))
def test_the_number_said_is_never_below_one(value: float) -> None:
    said = float(times(value).split("×")[0])
    assert said >= 1
    assert math.isclose(said, max(value, 1 / value), rel_tol=0.01)
