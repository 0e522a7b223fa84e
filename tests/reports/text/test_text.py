"""The answer in words: ratios, losses, numbers, names and what makes them weak."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.reports.data import StudyData, read_study
from dreamer_study.reports.text.answer import answers, second
from dreamer_study.reports.text.limitations import (
    continued_runs,
    data_doubts,
    rate_doubts,
    setting_doubts,
)
from dreamer_study.reports.text.names import architecture_in_words, layers_of, shortened
from dreamer_study.reports.text.numbers import (
    counted,
    duration,
    figure,
    flops,
    interval,
    percent,
    ratio,
    some,
    span,
    times,
    tokens,
)
from dreamer_study.reports.text.ratios import leading, p_value, weaknesses
from dreamer_study.reports.text.token_stream import epochs, repetition, streams
from dreamer_study.reports.text.weaknesses import COSTS, warnings
from tests.reports.small_results import STUDY, entered, model_row, study

ROW = {
    "study_id": STUDY,
    "depth": 4,
    "variant": "DR",
    "baseline": "LA",
    "task": "average",
    "metric": "accuracy",
    "score_low": 0.46,
    "score_high": 0.531,
    "ratio": 1.672,
    "low": 1.35,
    "high": 2.08,
    "factor": 0.598,
    "at_least": 1.23,
    "reached": True,
    "significant": True,
    "p_adjusted": 0.007,
    "depends_on": None,
    "seeds": 4,
    "detectable": 1.32,
    "in_advance": False,
    "near_chance": False,
    "within_checkpoint": False,
    "before_decay": False,
    "decay_bound": None,
    "one_task": False,
    "cut_short": False,
    "tuned": False,
    "comparisons": 9,
    "outdated": False,
    "variant_tokens": 8e5,
    "baseline_tokens": 4.5e5,
    "best": 0.531,
    "baseline_best": 0.747,
}
NONE = {"ratio": None, "low": None, "high": None, "factor": None, "detectable": None}
NO_RATIO = {**NONE, "significant": None, "p_adjusted": None, "reached": False}
NO_SCORES = {"score_low": None, "score_high": None}
BELOW = {"reached": False}
ONE_SEED = {"low": None, "high": None, "significant": None, "p_adjusted": None, "seeds": 1}
OPEN = {"ratio": 1.05, "low": 0.9, "high": 1.21, "significant": False, "p_adjusted": 0.4}
LOSS = {"metric": "loss", "score_low": 1.62, "score_high": 1.834}
TARGET = {
    "metric": "loss",
    "score_low": 3.28,
    "score_high": 3.28,
    "in_advance": True,
    "task": "fineweb",
}


def table_of(*rows: Mapping[str, Any]) -> pd.DataFrame:
    """Rows of `StudyData.ratios`, each with these changes."""
    frame = pd.DataFrame([{**ROW, **row} for row in rows])
    numbers = ["ratio", "low", "high", "factor", "score_low", "score_high", "p_adjusted"]
    return frame.astype(dict.fromkeys(numbers, float) | {"significant": "boolean"})


def said(*rows: Mapping[str, Any], only_task: bool = False) -> list[str]:
    return answers(table_of(*rows), only_task=only_task)


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


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        pytest.param(
            BELOW,
            "DR took 1.67 times as many training tokens as LA to reach accuracies of 46 to 53 %"
            " (95 % CI 1.35 to 2.08), and did not reach LA’s best, 74.7 %.",
            id="more tokens, and below the best",
        ),
        pytest.param(
            {"ratio": 0.4, "low": 0.29, "high": 0.53},
            "DR took 0.40 times as many training tokens as LA to reach accuracies of 46 to 53 %"
            " (95 % CI 0.29 to 0.53).",
            id="fewer tokens",
        ),
        pytest.param(
            {"seeds": 2},
            "DR took 1.67 times as many training tokens as LA to reach accuracies of 46 to 53 %"
            " (95 % CI 1.35 to 2.08, 2 seeds).",
            id="few seeds",
        ),
        pytest.param(
            OPEN,
            "DR cannot be distinguished from LA: 1.05 times as many training tokens to reach"
            " accuracies of 46 to 53 % (95 % CI 0.90 to 1.21).",
            id="not significant",
        ),
        pytest.param(
            OPEN | BELOW | {"low": 1.01, "p_adjusted": 0.09},
            "DR took 1.05 times as many training tokens as LA to reach accuracies of 46 to 53 %"
            " (95 % CI 1.01 to 1.21), which is not significant after correction for 9 comparisons"
            " (p 0.09), and did not reach LA’s best, 74.7 %.",
            id="not significant after correction",
        ),
        pytest.param(
            OPEN | {"within_checkpoint": True},
            "DR and LA are less than one checkpoint apart, no finding: 1.05 times as many training"
            " tokens to reach accuracies of 46 to 53 % (95 % CI 0.90 to 1.21).",
            id="less than a checkpoint apart",
        ),
        pytest.param(
            {"within_checkpoint": True},
            "DR and LA are less than one checkpoint apart, no finding: 1.67 times as many training"
            " tokens to reach accuracies of 46 to 53 % (95 % CI 1.35 to 2.08; a CI knows of seeds"
            " and items, not of what lies between two checkpoints).",
            id="less than a checkpoint apart, with a CI without 1",
        ),
        pytest.param(
            ONE_SEED,
            "DR took 1.67 times as many training tokens as LA to reach accuracies of 46 to 53 %"
            " (no CI: one seed).",
            id="one seed",
        ),
        pytest.param(
            LOSS,
            "DR took 1.67 times as many training tokens as LA to reach losses of 1.83 to 1.62"
            " (95 % CI 1.35 to 2.08).",
            id="a loss, from the easier end",
        ),
        pytest.param(
            LOSS | {"task": "validation"},
            "DR took 1.67 times as many training tokens as LA to reach losses on held-out documents"
            " of 1.83 to 1.62 (95 % CI 1.35 to 2.08).",
            id="held-out documents",
        ),
        pytest.param(
            {"task": "gsm8k"},
            "DR took 1.67 times as many training tokens as LA to reach accuracies on GSM8K of 46 to"
            " 53 % (95 % CI 1.35 to 2.08).",
            id="one of several tasks",
        ),
        pytest.param(
            {"decay_bound": "at most", "ratio": 0.91, "low": 0.85, "high": 0.97},
            "DR took 0.91 times as many training tokens as LA, or fewer, to reach accuracies of 46"
            " to 53 % (95 % CI 0.85 to 0.97).",
            id="at most, within the decay",
        ),
        pytest.param(
            {"decay_bound": "at least"},
            "DR took 1.67 times as many training tokens as LA, or more, to reach accuracies of 46"
            " to 53 % (95 % CI 1.35 to 2.08).",
            id="at least, within the decay",
        ),
        pytest.param(
            NO_RATIO | NO_SCORES | {"low": 5.5, "near_chance": True},
            "DR took at least 5.50 times as many training tokens as LA: its average accuracy never"
            " rose above chance.",
            id="a lower bound, near chance",
        ),
        pytest.param(
            NO_RATIO | NO_SCORES | {"high": 0.2, "near_chance": True, "reached": True},
            "DR took at most 0.20 times as many training tokens as LA: LA’s average accuracy never"
            " rose above chance.",
            id="an upper bound, the baseline near chance",
        ),
        pytest.param(
            NO_RATIO | NO_SCORES | LOSS | {"low": 5.5},
            "DR took at least 5.50 times as many training tokens as LA: the curves have no average"
            " loss in common.",
            id="a lower bound of a loss",
        ),
        pytest.param(
            NO_RATIO | NO_SCORES | {"near_chance": True},
            "DR cannot be compared with LA: neither average accuracy rose above chance.",
            id="both near chance",
        ),
        pytest.param(
            NO_RATIO | NO_SCORES,
            "DR cannot be compared with LA: the curves have no average accuracy in common.",
            id="nothing in common",
        ),
    ],
)
def test_a_sentence_for_each_finding(changed: Mapping[str, Any], text: str) -> None:
    assert said(changed) == [text]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        pytest.param(
            {},
            "DR took 1.67 times as many training tokens as LA to reach a loss of 3.28, fixed in"
            " advance (95 % CI 1.35 to 2.08).",
            id="both reached it",
        ),
        pytest.param(
            {"high": None, "ratio": None, "factor": None, "reached": False},
            "DR took at least 1.35 times as many training tokens as LA: DR never reached a loss of"
            " 3.28, fixed in advance.",
            id="the variant never did",
        ),
        pytest.param(
            {"low": None, "high": 0.8, "ratio": None, "factor": None},
            "DR took at most 0.80 times as many training tokens as LA: LA never reached a loss of"
            " 3.28, fixed in advance.",
            id="the baseline never did",
        ),
        pytest.param(
            {"high": None},
            "DR took 1.67 times as many training tokens as LA to reach a loss of 3.28, fixed in"
            " advance (95 % CI at least 1.35).",
            id="a curve of one seed fewer never did",
        ),
        pytest.param(
            {"high": None, "ratio": None, "low": 0.9, "significant": False, "reached": False},
            "DR cannot be distinguished from LA: at least 0.90 times as many, as DR never reached a"
            " loss of 3.28, fixed in advance.",
            id="a bound below 1",
        ),
        pytest.param(
            NO_RATIO,
            "Neither DR nor LA reached a loss of 3.28, fixed in advance.",
            id="neither did",
        ),
    ],
)
def test_a_sentence_at_a_score_fixed_in_advance(changed: Mapping[str, Any], text: str) -> None:
    assert said(TARGET | changed, only_task=True) == [text]


# What makes sentences long: of each kind of finding the longest one.
LONG = [
    BELOW,
    BELOW | {"decay_bound": "at least"},
    OPEN | BELOW,
    OPEN | {"within_checkpoint": True},
    ONE_SEED | BELOW,
    NO_RATIO | NO_SCORES | {"low": 5.5, "near_chance": True},
    NO_RATIO | NO_SCORES | {"near_chance": True},
]


@pytest.mark.parametrize("first", LONG)
@pytest.mark.parametrize("second", LONG)
def test_two_variants_are_in_one_text_of_at_most_70_words(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> None:
    (text,) = said(first, second | {"variant": "DR+DA"})
    assert len(text.split()) <= 70
    assert text.count("training tokens") <= 2


def test_what_is_not_significant_never_leads_beside_what_is() -> None:
    kinds = {
        "none": NO_RATIO | NO_SCORES,
        "checkpoint": OPEN | {"within_checkpoint": True},
        "open": OPEN,
        "bound": NO_RATIO | NO_SCORES | {"low": 5.5},
        "seed": ONE_SEED,
        "significant": {},
    }
    names = list(kinds)
    lines = said(*(kinds[name] | {"variant": name} for name in names[:5]))
    assert [line.split()[0] for line in lines] == ["seed", "bound", "open", "checkpoint", "none"]
    lines = said(*(kinds[name] | {"variant": name} for name in names[1:]))
    assert lines[0].startswith("significant took")


def test_a_line_for_each_variant_from_three_on_and_a_count_from_six_on() -> None:
    def variants(count: int) -> list[dict[str, Any]]:
        return [{"variant": f"V{number}"} for number in range(count)]

    assert [len(said(*variants(count))) for count in range(1, 8)] == [1, 1, 3, 4, 5, 1, 1]
    fewer = [{"variant": "A", "ratio": 0.7}, {"variant": "B", "ratio": 0.5}]
    (text,) = said(*variants(3), *fewer, OPEN | {"variant": "C"})
    assert text == (
        "Of 6 variants 2 took significantly fewer training tokens than LA (B, 0.50x at 46 to 53 %;"
        " A, 0.70x at 46 to 53 %), 3 took significantly more (V2, 1.67x at 46 to 53 %; V1, 1.67x at"
        " 46 to 53 %; V0, 1.67x at 46 to 53 %) and 1 cannot be distinguished from LA."
    )


def test_of_many_variants_up_to_three_worse_ones_are_named_and_of_more_the_worst() -> None:
    near = [OPEN | {"variant": f"near-{number}"} for number in range(5)]
    worse = [{"variant": f"W{number}", "ratio": 2.0 + number, "low": 1.9} for number in range(4)]
    (text,) = said(*near, worse[0] | {"score_low": 0.42, "score_high": 0.42})
    assert text == (
        "Of 6 variants none took significantly fewer training tokens than LA, 1 took significantly"
        " more (W0, 2.00x at 42 %) and 5 cannot be distinguished from LA."
    )
    (text,) = said(*near, *worse)
    assert "4 took significantly more (most: W3, 5.00x at 46 to 53 %)" in text


def test_depths_are_named_where_there_are_several() -> None:
    assert [text[:9] for text in said({}, {"depth": 8})] == ["Depth 4: ", "Depth 8: "]
    assert "epth" not in " ".join(said({}, {"variant": "DR+DA"}))


@given(st.floats(0.05, 20), st.floats(1, 3), st.floats(1, 3))
def test_the_interval_holds_the_figure_of_its_sentence(
    value: float, below: float, above: float
) -> None:
    (sentence,) = said({"ratio": value, "low": value / below, "high": value * above})
    figure = float(re.search(r"([\d.]+) times as many", sentence)[1])
    low, high = map(float, re.search(r"95 % CI ([\d.]+) to ([\d.]+)", sentence).groups())
    assert low <= figure <= high


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


def data_of(ratios: pd.DataFrame, **frames: pd.DataFrame) -> StudyData:
    """A study with these ratios, whose runs are complete, and nothing else."""
    runs = pd.DataFrame({"depth": 4, "variant": ["LA", "DR"], "status": "complete"})
    given = {
        "ratios": ratios,
        "order": pd.DataFrame({"variant": ["LA", "DR"], "baseline": "LA"}),
        "runs": runs.assign(learning_rate=1e-3, run_id=["a", "b"], tokens=800),
        "tuning": pd.DataFrame({"depth": [4, 4], "variant": ["LA", "DR"]}),
        "mismatches": pd.DataFrame(),
        "cut_short": pd.DataFrame({"depth": [], "variant": [], "ends": []}),
        "counted": pd.DataFrame(
            {
                "depth": [4, 4, 4],
                "variant": ["LA", "LA", "DR"],
                "run_id": ["LA-s0", "LA-s1", "DR-s0"],
            }
        ),
        "resources": pd.DataFrame({"depth": [4], "variant": "LA"} | dict.fromkeys(COSTS, 1.0)),
        "models": pd.DataFrame({"depth": [4], "variant": "LA", "remarks": None, "expert_size": 1}),
        "training_curves": pd.DataFrame({"losses_not_finite": []}),
        "accuracy": pd.DataFrame({"task": [], "items": [], "run_id": []}),
        "efficiency": pd.DataFrame(
            {"depth": [], "variant": [], "task": [], "own_best": [], "near_chance": []},
            dtype=object,
        ),
        "checkpoints": pd.DataFrame({"epoch": [1.0]}),
    }
    return StudyData({}, given | frames)


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


def test_what_other_measures_say_is_second() -> None:
    rows = table_of(
        {},
        {"task": "gsm8k"},
        LOSS | {"ratio": 1.5},
        OPEN | LOSS | {"task": "validation"},
        LOSS | {"variant": "led by it", "task": "validation", "ratio": 2.0},
    )
    assert second(data_of(rows), leading(rows)) == [
        "Average loss: DR 1.50x. Loss on held-out documents: DR 1.05x (not significant)."
    ]


def test_ratios_of_another_measure_at_unlike_scores_have_their_scores() -> None:
    losses = [
        LOSS | {"ratio": 1.5, "score_low": 1.62, "score_high": 1.83},
        LOSS | {"variant": "X", "ratio": 1.2, "score_low": 1.7, "score_high": 1.9},
    ]
    rows = table_of({}, {"variant": "X"}, *losses)
    assert second(data_of(rows), leading(rows)) == [
        "Average loss: DR 1.50x at 1.83 to 1.62 and X 1.20x at 1.90 to 1.70."
    ]


MANY_VARIANTS = [{"variant": f"variant-{number:02d}", "ratio": 1.2} for number in range(11)]


def test_what_another_measure_says_of_many_variants_is_where_they_lie() -> None:
    losses = [row | LOSS | {"ratio": 0.5 + n / 10} for n, row in enumerate(MANY_VARIANTS)]
    rows = table_of(*MANY_VARIANTS, *losses)
    (text,) = second(data_of(rows), leading(rows))
    assert re.findall(r"variant-\d\d", text) == ["variant-00", "variant-10"]
    assert re.findall(r"[\d.]+x", text) == ["0.50x", "1.50x"]
    assert "11 of 11 significant" in text


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


@pytest.mark.parametrize("count", range(1, 15))
def test_a_list_of_some_counts_everything(count: int) -> None:
    names = [f"name-{number}" for number in range(count)]
    text = some(names)
    named = text.count("name-")
    further = re.search(r"and (\d+) more$", text)
    assert named + (int(further[1]) if further else 0) == count
    assert named == count or int(further[1]) > 1


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


@pytest.mark.parametrize(
    ("first", "last", "metric", "text"),
    [
        (0.46, 0.53, "accuracy", "46 to 53 %"),
        (0.461, 0.464, "accuracy", "46.1 to 46.4 %"),
        (0.5, 0.5, "accuracy", "50 %"),
        (0.7475, 0.7475, "accuracy", "74.8 %"),
        (1.834, 1.62, "loss", "1.83 to 1.62"),
        (3.2801, 3.2786, "loss", "3.280 to 3.279"),
        (3.28, 3.28, "loss", "3.28"),
    ],
)
def test_scores_have_the_decimals_that_tell_them_apart(
    first: float, last: float, metric: str, text: str
) -> None:
    assert span(first, last, metric) == text


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


def nearly_emptied(dropped: int, unmarked: int = 0) -> StudyData:
    """A study that names one source, of whose 100 documents the cleaning dropped so many, others
    without marks."""
    rows = [("kept", 100 - dropped), ("too_short", dropped)]
    frame = pd.DataFrame(
        [{"source": "web", "stage": "clean", "reason": r, "documents": n} for r, n in rows]
    )
    without = pd.DataFrame([{"source": "web", "unmarked": float(unmarked)}])
    config = {"study": {"data": {"sources": ["web"]}}}
    return StudyData(
        {"config": json.dumps(config)},
        {"curation": frame, "unmarked": without[without["unmarked"] > 0]},
    )


def test_a_source_that_lost_most_of_its_documents_for_one_reason_is_named() -> None:
    said = [
        "Clean dropped 51.0% of what came from web for one reason: too short (51 of 100 documents)."
    ]
    assert data_doubts(nearly_emptied(51)) == said
    assert data_doubts(nearly_emptied(50)) == []


def test_a_weight_decay_at_the_edge_of_those_tried_is_named() -> None:
    rows = [
        {"depth": 4, "variant": name, "weight_decay": tried, "decay": 0.2, "chosen": tried == best}
        for name, best, grid in (
            ("LA", 0.1, (0.01, 0.1, 1.0)),
            ("Muon", 1.0, (0.01, 0.1, 1.0)),
            ("own", 5.0, (5.0,)),
        )
        for tried in grid
    ]
    texts = setting_doubts(StudyData({}, {"tuning_settings": pd.DataFrame(rows)}))
    assert texts == [
        "Weight decays were chosen at the edge of those tried, so that better ones may lie beyond:"
        " Muon (1)."
    ]
    none = pd.DataFrame(rows)[:0]
    assert setting_doubts(StudyData({}, {"tuning_settings": none})) == []


def test_a_learning_rate_at_the_edge_of_those_tried_is_a_doubt() -> None:
    def doubts(**chosen: float) -> list[str]:
        rows = [
            {
                "depth": 4,
                "variant": name,
                "learning_rate": rate,
                "seed": seed,
                "chosen": rate == best,
            }
            for name, best in chosen.items()
            for rate in (1e-3, 2e-3, 4e-3)
            for seed in (8, 9)
        ]
        return rate_doubts(StudyData({}, {"tuning": pd.DataFrame(rows)}))

    assert doubts(LA=2e-3) == []
    (text,) = doubts(LA=2e-3, DR=4e-3, SSM=1e-3)
    assert text.endswith("may lie beyond: DR (0.004) and SSM (0.001).")


def test_a_run_that_another_computer_has_continued_is_named() -> None:
    engine = "cpu, from 5,120 tokens cpu with another C engine"
    for devices, said in [(["cpu", None], []), (["cpu", engine], [f"rounding: DR ({engine})."])]:
        runs = pd.DataFrame({"run_id": ["LA", "DR"], "device": devices})
        texts = continued_runs(StudyData({}, {"runs": runs}))
        assert [text.partition("but for ")[2] for text in texts] == said


def test_a_source_without_marks_of_reasoning_is_named() -> None:
    (said,) = data_doubts(nearly_emptied(0, unmarked=20))
    assert said.startswith("Responses without marks of a trace stay whole")
    assert said.endswith(": 20 of web.")
    assert data_doubts(nearly_emptied(0)) == []


@pytest.mark.parametrize(
    ("config", "words", "layers"),
    [
        (
            {"recurrent": False, "depth_attention": False, "depth": 4},
            "a layer of its own for each depth",
            "4",
        ),
        (
            {"recurrent": True, "depth_attention": True, "depth": 4},
            "one layer used at every depth, attention over depths",
            "1, used 4 times",
        ),
        (
            {"recurrent": True, "depth_attention": False, "depth": 4, "prelude": 1, "coda": 0},
            "one layer used 3 times, between 1 and 0 of their own",
            "1, and 1 used 3 times",
        ),
        (
            {"recurrent": False, "depth_attention": False, "depth": 4, "expert_pool": True},
            "a layer of its own for each depth, one pool of experts for all layers",
            "4",
        ),
        ({"module": "my_models.py:GPT"}, "my_models.py:GPT", "–"),
        (None, "", "–"),
    ],
)
def test_each_variant_is_said_by_its_configuration_and_not_by_its_name(
    config: Any, words: str, layers: str
) -> None:
    text = config and json.dumps(config)
    assert (architecture_in_words(text), layers_of(text)) == (words, layers)


def test_a_question_is_shortened_to_its_end_at_a_word() -> None:
    assert shortened("recall " + "a b ; " * 30 + "c", "7") == (
        "… " + ("a b ; " * 30 + "c")[-99:],
        "7",
    )
    assert shortened("1 + 1?", "2") == ("1 + 1?", "2")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (512, "512"),
        (999, "999"),
        (1000, "1K"),
        (1_430_000, "1.43M"),
        (999_700, "1M"),
        (25e9, "25B"),
        (3e16, "30,000T"),
    ],
)
def test_token_counts_are_short(count: float, text: str) -> None:
    assert tokens(count) == text


@given(st.integers(1, 10**14))
def test_token_counts_keep_three_digits(count: int) -> None:
    text = tokens(count)
    sizes = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
    value = float(text.rstrip("KMBT").replace(",", "")) * sizes.get(text[-1], 1)
    assert math.isclose(value, count, rel_tol=0.0051)


def test_nothing_is_a_dash() -> None:
    assert [show(None) for show in (tokens, percent, ratio, times, duration)] == ["–"] * 5


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.4, "0.40"), (1, "1.00"), (0.0625, "0.062"), (20, "20.0"), (0, "0"), (math.inf, "∞")],
)
def test_a_ratio_has_the_decimals_that_matter(value: float, text: str) -> None:
    assert ratio(value) == text
    assert times(value) == f"{text}x"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4, "4\u202fs"),
        (0.26, "under 1\u202fs"),
        (600, "10.0\u202fmin"),
        (9000, "2.5\u202fh"),
        (259200, "3.0\u202fdays"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_interval_may_lack_an_end() -> None:
    assert interval({"low": 0.8, "high": 2}) == "0.80 to 2.00"
    assert interval({"low": None, "high": 3}) == "at most 3.00"
    assert interval({"low": 0.5, "high": math.nan}) == "at least 0.50"
    assert interval({"low": None, "high": None}) == ""


def test_runs_of_one_seed_have_read_the_same_tokens() -> None:
    seen = [
        {"run_id": f"{model}-{seed}", "seed": seed} for model in ("LA", "DR") for seed in (0, 1)
    ]
    frame = pd.DataFrame(seen).assign(tokens=1000, stream_hash="ab")
    said = streams(StudyData({}, {"checkpoints": frame, "mismatches": frame[:0]}))
    assert said.endswith("in the same order, another for each seed (checked at 2 checkpoints).")
    assert not streams(StudyData({}, {"checkpoints": frame, "mismatches": frame}))


def mixed(sources: object, epoch: float | None) -> StudyData:
    """A study of these sources whose run of 600 tokens ended in that epoch; curation kept 900
    tokens."""
    frames = {
        "runs": pd.DataFrame({"tokens": [600]}),
        "checkpoints": pd.DataFrame({"tokens": [300, 600], "epoch": [epoch and epoch / 2, epoch]}),
        "funnel": pd.DataFrame({"tokens_kept": [900.0]}),
    }
    return StudyData({"config": json.dumps({"study": {"data": {"sources": sources}}})}, frames)


@pytest.mark.parametrize("sources", [["mine"], [{"name": "mine", "weight": 0.5}], None, "mine"])
def test_documents_of_weights_up_to_1_are_seen_once_in_an_epoch(sources: object) -> None:
    said = [epochs(mixed(sources, epoch)) for epoch in (0.5, None)]
    assert all(
        "No document was seen twice" in text and "600" in text and "900" in text for text in said
    )
    assert ["50%" in said[0], "67%" in said[1]] == [True, True]


def test_repeated_sources_are_named_and_no_tokens_given_for_packed_ones() -> None:
    weights = [{"name": "mine", "weight": 3}, {"name": "gsm8k", "weight": 2.25}, "mathqa"]
    said = [epochs(mixed(weights, epoch)) for epoch in (0.5, None, 1.5)]
    assert all(
        "mine 3 times" in text and "gsm8k 2.25 times" in text and "900" not in text for text in said
    )
    assert ["No document" in text or "600 tokens on" in text for text in said] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("epoch", "said"), [(41.2, "Few data: the longest run read them 41.2 times over."), (40, "")]
)
def test_data_read_too_often_make_an_answer_weak(epoch: float, said: str) -> None:
    assert repetition(mixed(["mine"], epoch)) == said


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2400.4, "2,400"),
        (2.4e3, "2,400"),
        (999.6, "1,000"),
        (13_512_345_678.0, "13,500,000,000"),
        (12.34, "12.3"),
        (1.0, "1"),
        (0.00012345, "0.000123"),
        (-0.5, "-0.5"),
        (0.0, "0"),
        (float("nan"), "–"),
    ],
)
def test_a_figure_has_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert figure(value) == text


def test_flops_keep_their_exponent() -> None:
    assert flops(1.28e21) == "1.28e21"


def test_one_of_a_thing_is_singular() -> None:
    assert [counted(count, "document") for count in (0, 1, 2, 1500)] == [
        "0 documents",
        "1 document",
        "2 documents",
        "1,500 documents",
    ]
    assert counted(2, "study", "studies") == "2 studies"
