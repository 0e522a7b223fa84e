"""Rows of ratios in words: which lead, p-values, weaknesses of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from dreamer_study.reports.text.ratios import leading, p_value, weaknesses
from tests.reports.text.ratio_rows import LOSS, NO_RATIO, NO_SCORES, ONE_SEED, OPEN, table_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0004, "p < 0.001"),
        (0.007, "p 0.007"),
        (0.046, "p 0.046"),
        (0.052, "p 0.052"),
        (0.2, "p 0.2"),
    ],
)
def test_a_p_value_says_on_which_side_of_the_limit_it_is(value: float, text: str) -> None:
    assert p_value(value) == text


def test_the_first_measure_with_something_to_say_leads() -> None:
    loss = LOSS | {"ratio": 1.2}
    validation = loss | {"task": "validation"}
    nothing = NO_RATIO | NO_SCORES
    task = {"task": "gsm8k", "ratio": 3.0}

    def leads(*rows: Mapping[str, Any]) -> list[tuple[str, str]]:
        chosen = leading(table_of(*rows))
        return list(zip(chosen["metric"], chosen["task"], strict=True))

    assert leads({}, task, loss, validation) == [("accuracy", "average")]
    assert leads(nothing, task, loss, validation) == [("loss", "average")]
    assert leads(nothing, task, LOSS | nothing, validation) == [("loss", "validation")]
    assert leads(nothing | {"low": 5.5}, loss) == [("accuracy", "average")], (
        "a bound says something"
    )
    assert leads(nothing, LOSS | nothing) == [("accuracy", "average")], "that nothing is in common"
    assert leads(task | {"in_advance": True} | nothing) == [("accuracy", "gsm8k")]
    assert leads(task, task | {"task": "math"}) == [], "none of several tasks without an average"
    assert leads(task, task | {"metric": "loss"}) == [("accuracy", "gsm8k")]
    assert leads({"outdated": True} | nothing) == []
    assert leads({"seeds": math.nan} | nothing) == [], "no curve"


@pytest.mark.parametrize(
    ("changed", "texts"),
    [
        ({}, []),
        (OPEN, ["not significant"]),
        (OPEN | {"within_checkpoint": True}, ["less than one checkpoint apart, no finding"]),
        (ONE_SEED, ["one seed"]),
        ({"near_chance": True}, ["near chance"]),
        ({"one_task": True}, ["one task"]),
        ({"cut_short": True}, ["cut short"]),
        ({"before_decay": True}, ["checkpoints taken before the learning rate decays"]),
        ({"decay_bound": "at most"}, ["the true ratio is at most this one"]),
        ({"depends_on": "swaps"}, ["depends on swaps"]),
    ],
)
def test_weaknesses_stand_in_the_row(changed: Mapping[str, Any], texts: list[str]) -> None:
    (row,) = table_of(changed).to_dict("records")
    assert weaknesses(row, rates_tuned=True) == texts
    assert weaknesses(row, rates_tuned=None) == texts
    assert weaknesses(row, rates_tuned=False) == [*texts, "learning rate not searched here"]
