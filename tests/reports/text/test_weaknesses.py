"""What makes an answer weak is named beside it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dreamer_study.reports.data import read_study
from dreamer_study.reports.text.ratios import leading
from dreamer_study.reports.text.weaknesses import COSTS, warnings
from tests.reports.small_results import STUDY, entered, model_row, study
from tests.reports.text.ratio_rows import MANY_VARIANTS, ONE_SEED, data_of, table_of


def warned(*rows: Mapping[str, Any], **frames: pd.DataFrame) -> list[str]:
    ratios = table_of(*rows)
    return warnings(data_of(ratios, **frames), leading(ratios))


def test_an_answer_without_weaknesses_has_no_warning() -> None:
    assert warned({}) == []


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"decay_bound": "at most"},
            "DR: the true ratio is at most this one, as the score was reached while the learning"
            " rate decays.",
        ),
        (
            {"before_decay": True},
            "Checkpoints taken before the learning rate decays: the ratio after the decay may be"
            " another (DR).",
        ),
        (ONE_SEED, "One seed: nothing says what another would give for DR."),
        (
            {"depends_on": "swaps, sums"},
            "Depends on one benchmark, without which the average would not be significant or would"
            " say the reverse: DR on swaps and on sums.",
        ),
        ({"near_chance": True}, "Near chance: DR on Average."),
    ],
)
def test_what_makes_the_answer_weak_is_named(changed: Mapping[str, Any], text: str) -> None:
    assert warned(changed) == [text]


def test_an_average_of_one_task_is_said_to_be_one() -> None:
    assert warned({"one_task": True}, {"task": "gsm8k"}) == ["One task: GSM8K alone."]


def test_rates_that_were_not_tuned_are_named_where_they_are_known() -> None:
    tuning = pd.DataFrame({"depth": [4], "variant": ["LA"]})
    assert warned({}, tuning=tuning) == [
        "Learning rate as the study file sets it, searched for others only: DR."
    ]
    assert warned({}, tuning=tuning[:0]) == [
        "Learning rates are as the study file sets them: this study searched none."
    ]
    ratios = table_of({})
    elsewhere = data_of(ratios)
    runs = elsewhere.runs.assign(learning_rate=math.nan)
    assert warned({}, tuning=tuning[:0], runs=runs) == []


def test_of_unequal_costs_only_those_that_differ_are_named() -> None:
    costs = {
        "LA": (1.0, 1.0),
        "equal": (1.009, 0.991),
        "larger": (1.005, 1.2),
        "dearer": (1.33, math.nan),
        "both": (0.5, 2.0),
    }
    rows = [dict(zip(COSTS, pair, strict=True)) for pair in costs.values()]
    resources = pd.DataFrame(rows).assign(depth=4, variant=list(costs))
    assert warned({}, resources=resources) == [
        "Unequal costs, against LA: larger (+20 % parameters), dearer (+33 % FLOPs a token) and"
        " both (-50 % FLOPs a token, +100 % parameters)."
    ]


def test_a_warning_of_many_names_the_first_and_counts_the_others() -> None:
    (text,) = warned(*[row | {"before_decay": True} for row in MANY_VARIANTS])
    named = re.findall(r"variant-\d\d", text)
    assert named == [row["variant"] for row in MANY_VARIANTS[: len(named)]]
    assert f"and {len(MANY_VARIANTS) - len(named)} more" in text
    near = [{"near_chance": True, "task": f"task-{number}"} for number in range(40)]
    texts = [text for text in warned({}, *near) if text.startswith("Near chance")]
    assert len(texts) < 6
    named = [task for text in texts for task in re.findall(r"task-\d+", text)]
    assert f"{40 - len(named)} further tasks" in texts[-1]


@pytest.mark.slow
def test_what_matching_takes_of_the_experts_is_said_above_a_tenth(tmp_path: Path) -> None:
    sizes = {"LA": 96, "DR": 88, "DR+DA": 64, "other": None}
    rows = [
        {**model_row(name, name, 4), "config": json.dumps({"expert_size": size})}
        for name, size in sizes.items()
    ]
    data = read_study(
        entered(tmp_path / "results.duckdb", {"studies": [study()], "models": rows}), STUDY
    )
    costs = [text for text in warnings(data, leading(data.ratios)) if "cost:" in text]
    assert costs == [
        "Matching cost: experts smaller than LA’s, DR+DA by 33 %; larger models lose less."
    ]
