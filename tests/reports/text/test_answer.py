"""The answer in words: a sentence for each finding, and what other measures say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.reports.text.answer import answers, second
from dreamer_study.reports.text.ratios import leading
from tests.reports.text.ratio_rows import (
    LOSS,
    MANY_VARIANTS,
    NO_RATIO,
    NO_SCORES,
    ONE_SEED,
    OPEN,
    data_of,
    table_of,
)

BELOW = {"reached": False}
TARGET = {
    "metric": "loss",
    "score_low": 3.28,
    "score_high": 3.28,
    "in_advance": True,
    "task": "fineweb",
}


def said(*rows: Mapping[str, Any], only_task: bool = False) -> list[str]:
    return answers(table_of(*rows), only_task=only_task)


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
            "DR cannot be distinguished from LA: at least 0.90 times as many training tokens, because"
            " DR never reached a loss of 3.28, fixed in advance.",
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


def test_of_many_variants_those_that_the_study_has_trained_come_first() -> None:
    others = [{"variant": f"V{number}"} for number in range(6)]
    rows = table_of(*others, OPEN | {"variant": "Mine"}, {"variant": "Mine-2"})
    elsewhere = [row["variant"] for row in others]
    first, second, counts = answers(rows, elsewhere=elsewhere)
    assert first.startswith("Mine-2 took 1.67 times as many training tokens as LA")
    assert second.startswith("Mine cannot be distinguished from LA")
    assert counts.startswith("Of 8 variants none took significantly fewer")
    assert len(answers(rows)) == 1, "of a study that has trained all of them"
    (few,) = answers(table_of({"variant": "Mine"}, {"variant": "V0"}), elsewhere=["V0"])
    assert few.startswith("Mine took"), "few variants are said as always"


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


@pytest.mark.slow
@given(st.floats(0.05, 20), st.floats(1, 3), st.floats(1, 3))
def test_the_interval_holds_the_figure_of_its_sentence(
    value: float, below: float, above: float
) -> None:
    (sentence,) = said({"ratio": value, "low": value / below, "high": value * above})
    figure = float(re.search(r"([\d.]+) times as many", sentence)[1])
    low, high = map(float, re.search(r"95 % CI ([\d.]+) to ([\d.]+)", sentence).groups())
    assert low <= figure <= high


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


def test_what_another_measure_says_of_many_variants_is_where_they_lie() -> None:
    losses = [row | LOSS | {"ratio": 0.5 + n / 10} for n, row in enumerate(MANY_VARIANTS)]
    rows = table_of(*MANY_VARIANTS, *losses)
    (text,) = second(data_of(rows), leading(rows))
    assert re.findall(r"variant-\d\d", text) == ["variant-00", "variant-10"]
    assert re.findall(r"[\d.]+x", text) == ["0.50x", "1.50x"]
    assert "11 of 11 significant" in text
