"""The answer in words: factors, losses, numbers, names and what makes them weak."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.reports.data import StudyData, read_study
from dreamer_study.reports.text.answer import answers, warnings
from dreamer_study.reports.text.crossings import crossing
from dreamer_study.reports.text.limitations import data_doubts, rate_doubts
from dreamer_study.reports.text.mean_factors import bounded_ratio, headline, never_reached
from dreamer_study.reports.text.names import architecture_in_words, layers_of, shortened
from dreamer_study.reports.text.numbers import duration, interval, percent, ratio, tokens
from dreamer_study.reports.text.standing import both_ends, standing
from dreamer_study.reports.text.token_stream import epochs, repetition, streams
from tests.reports.small_results import STUDY, entered, model_row, study

ANSWER_ROW = {
    "metric": "accuracy",
    "task": "average",
    "depth": 4,
    "seeds": 5,
    "within_noise": False,
    "baseline": "LA",
}
ANSWER_ROW |= {"bounded": False}
BOUNDED = {
    "bounded": True,
    "missed_low": 0.56,
    "missed_high": 0.77,
    "bound": 2 / 3,
    "bound_low": 0.5,
    "bound_high": 0.8,
}
NO_OTHERS = pd.DataFrame({"depth": []})
OPEN = "The study cannot tell whether "


def sentences(*rows: dict[str, Any]) -> list[str]:
    return answers(
        pd.DataFrame([{**ANSWER_ROW, "low": None, "high": None, **row} for row in rows]), NO_OTHERS
    )


def test_what_is_decided_comes_before_what_is_not_in_one_text_for_each_depth() -> None:
    mixed, single = sentences(
        {"variant": "DR+DA", "factor": 0.8, "low": 0.5, "high": 1.25},
        {"variant": "DR", "factor": 2.5, "low": 1.9, "high": 3.4},
        {"variant": "DR", "factor": 1.1, "depth": 8, "metric": "loss"},
    )
    assert mixed == (
        "At depth 4, for equal average accuracy, DR needed 0.40 times as many training tokens as LA (95% interval 0.29 "
        "to 0.53). The study cannot tell whether DR+DA needed fewer or more: 1.25 times as many (0.80 to 2.00)."
    )
    assert single.startswith(
        "At depth 8, for equal average correct-answer bits per byte, DR needed 0.91 times as many"
    )
    assert single.endswith("(no interval).")


def test_models_that_are_not_decided_share_a_sentence() -> None:
    (text,) = sentences(
        {"variant": "DR", "factor": 1.05, "low": 0.9, "high": 1.2},
        {"variant": "DR+DA", "factor": 0.8, "low": 0.5, "high": 1.25},
    )
    assert text.startswith(f"{OPEN}DR or DR+DA ")
    assert text.count("cannot tell") == 1


def test_a_factor_of_noise_decides_nothing() -> None:
    assert sentences({"variant": "DR", "factor": 0.5, "within_noise": True})[0].startswith(OPEN)


def test_where_a_model_stops_the_bound_is_said_in_place_of_the_factor() -> None:
    (text,) = sentences(
        {"variant": "DR", "factor": 1.5, "low": 1.2, "high": 1.9},
        {"variant": "LA-1", **BOUNDED, "factor": 2 / 3, "low": 0.5, "high": 0.8},
    )
    assert text.startswith("At depth 4, for equal average accuracy, DR needed 0.67 times as many")
    assert text.endswith(
        "LA-1 needs at least 1.50 times as many training tokens over LA’s whole range (95% interval 1.25 to 2.00): in "
        "average accuracy LA reached 77.0%, LA-1 56.0%."
    )


def test_the_best_of_a_model_that_never_reaches_the_start_is_not_known_better() -> None:
    row = {
        "variant": "X",
        "baseline": "LA",
        "metric": "accuracy",
        "task": "average",
        **BOUNDED,
        "covered": 0.0,
    }
    assert never_reached(row).endswith("LA reached 77.0%, X no more than 56.0%")


@pytest.mark.parametrize(
    ("bound", "high", "decided"), [(0.8, 0.95, True), (0.8, 1.1, False), (1.3, 1.6, False)]
)
def test_a_bound_decides_only_below_one(bound: float, high: float, decided: bool) -> None:
    changed = {"bound": bound, "bound_low": bound / 1.1, "bound_high": high}
    said = {"factor": bound, "low": bound / 1.1, "high": high}
    (text,) = sentences({"variant": "LA-1", **BOUNDED, **changed, **said})
    assert text.startswith(
        "At depth 4, LA-1 needs at least"
        if decided
        else "At depth 4, whether LA-1 needed fewer or more is"
    )
    assert ("at least 0.77 times as many" in text) == (bound > 1)


@given(st.floats(0.05, 20), st.floats(1, 3), st.floats(1, 3))
def test_the_interval_holds_the_figure_of_its_sentence(
    value: float, below: float, above: float
) -> None:
    (sentence,) = sentences(
        {"variant": "DR", "factor": value, "low": value / below, "high": value * above}
    )
    figure = float(re.search(r"([\d.]+) times as many", sentence)[1])
    low, high = map(float, re.search(r"95% interval ([\d.]+) to ([\d.]+)", sentence).groups())
    assert low <= figure <= high
    assert sentence.startswith(OPEN) == (value / below < 1 < value * above)


CROSSING_ROW = {
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


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param(
            {},
            "(32.3%) with 0.25 times as many training tokens: 25B instead of 100B",
            id="fewer tokens",
        ),
        pytest.param(
            {"factor": 0.5, "variant_tokens": 200e9}, "with 2.00 times as many", id="more tokens"
        ),
        pytest.param(
            {"bound": "at least"}, "at most 0.25 times as many", id="at the first checkpoint"
        ),
        pytest.param({"bound": "at least", "factor": 0.9}, "too far apart", id="LA even earlier"),
        pytest.param(NEVER | {"factor": 0.8}, "more than 1.25 times as many", id="never reached"),
        pytest.param(NEVER | {"factor": 1.0}, "more tokens than LA", id="never, with as many"),
        pytest.param(NEVER | {"factor": 3.0}, "too few tokens to say", id="ended too early"),
        pytest.param(
            {"baseline_bound": "at least"}, "the ratio may be too low", id="LA best at once"
        ),
    ],
)
def test_the_sentence_says_the_bound(changed: dict[str, Any], said: str) -> None:
    assert said in crossing(CROSSING_ROW | changed)


def test_near_chance_nothing_is_told() -> None:
    assert crossing(CROSSING_ROW | {"near_chance": True}).startswith("The study cannot tell")


MEAN_ROW = {
    "variant": "DR",
    "baseline": "LA",
    "depth": 4,
    "task": "average",
    "metric": "accuracy",
    "factor": 1.24,
    "low": 1.05,
    "high": 1.46,
    "seeds": 5,
    "range_low": 0.31,
    "range_high": 0.88,
    "within_noise": False,
    "bounded": False,
}


def test_a_bound_is_marked() -> None:
    assert [bounded_ratio({"factor": 2 / 3, "bounded": bounded}) for bounded in (False, True)] == [
        "1.50",
        "≥\u202f1.50",
    ]


def test_each_headline_comparison_says_its_ends_and_whether_it_is_decided_together_with_the_others() -> (
    None
):
    place = {name: MEAN_ROW[name] for name in ("variant", "depth", "task", "metric")}
    targets = [(0.32, 0.6, 0.5, 0.72), (0.6, 1.0, 0.8, 1.25), (0.87, 1.5, 1.2, 1.8)]
    columns = ("target", "factor", "low", "high")
    by_target = pd.DataFrame([{**place, **dict(zip(columns, one, strict=True))} for one in targets])
    tested = {
        "p": 0.02,
        "decided_adjusted": False,
        "comparisons": 4,
        "hangs_on": "swaps",
        "detectable": 1.3,
    }
    loss = {**MEAN_ROW, "metric": "loss", "p": math.nan, "hangs_on": None, "detectable": None}
    means = pd.DataFrame([loss, {**MEAN_ROW, **tested}, {**MEAN_ROW, "task": "gsm8k", **tested}])
    others = [("sums", 1.3, True), ("swaps", 1.04, False)]
    without = [
        {
            **MEAN_ROW,
            "left_out": name,
            "factor": value,
            "low": value - 0.1,
            "high": value + 0.1,
            "decided": decided,
        }
        for name, value, decided in others
    ]
    frames = {
        "mean_factors": means,
        "factor_by_target": by_target,
        "without_one": pd.DataFrame(without),
    }
    assert standing(StudyData({}, frames)) == [
        "Average accuracy, the primary measure: decided after correction for 4 comparisons: none; the decision on DR "
        "of depth 4 hangs on one task: without swaps 0.96 times as many (0.88 to 1.06); minimum detectable effect: "
        "1.30 times as many."
    ]
    stands_in = {**tested, "metric": "loss", "task": "validation", "hangs_on": None}
    (text,) = standing(
        StudyData({}, {**frames, "mean_factors": pd.DataFrame([{**MEAN_ROW, **stands_in}])})
    )
    assert text.startswith(
        "Loss on held-out documents, in place of average accuracy, the primary one: decided after"
    )
    assert both_ends(means.iloc[1:2], by_target) == [
        "Depth 4, from the easiest value that both reached to the hardest: DR 1.67× at 32.0% to 0.67× at 87.0%."
    ]


def test_what_matching_takes_of_the_experts_is_said_above_a_tenth(tmp_path: Path) -> None:
    sizes = {"LA": 96, "DR": 88, "DR+DA": 64, "other": None}
    rows = [
        {**model_row(name, name, 4), "config": json.dumps({"expert_size": size})}
        for name, size in sizes.items()
    ]
    data = read_study(
        entered(tmp_path / "results.duckdb", {"studies": [study()], "models": rows}), STUDY
    )
    means = pd.DataFrame([{**ANSWER_ROW, "variant": "DR", "factor": 1.0}])
    taxes = [text for text in warnings(data, means, pd.DataFrame({"bound": []})) if "tax" in text]
    assert taxes == [
        "Matching tax: experts smaller than LA’s, DR+DA at depth 4 by 33%; larger models lose less."
    ]


def test_the_headline_is_a_loss_where_accuracy_is_within_noise() -> None:
    loss = {**MEAN_ROW, "metric": "loss", "task": "validation", "factor": 1.1}
    other = {**MEAN_ROW, "task": "gsm8k"}
    rows = [loss, MEAN_ROW, other, {**MEAN_ROW, "variant": "LA", "factor": 1.0}]
    assert headline(pd.DataFrame(rows))[["variant", "metric", "task"]].to_numpy().tolist() == [
        ["DR", "accuracy", "average"]
    ]
    weak = [loss, {**MEAN_ROW, "within_noise": True}, other]
    assert headline(pd.DataFrame(weak))["task"].tolist() == ["validation"]
    nothing = [{**MEAN_ROW, "within_noise": True}, {**loss, "factor": math.nan}]
    assert headline(pd.DataFrame(nothing))["metric"].tolist() == ["accuracy"]
    noisy = [{**MEAN_ROW, "factor": math.nan}, {**loss, "within_noise": True}]
    assert headline(pd.DataFrame(noisy))["metric"].tolist() == ["loss"], (
        "a noisy factor is better than none"
    )


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
    assert text.endswith("may lie beyond: DR of depth 4 (0.004) and SSM of depth 4 (0.001).")


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
    assert [show(None) for show in (tokens, percent, ratio, duration)] == ["–"] * 4


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.5, "0.40"), (1, "1.00"), (16, "0.062"), (0.05, "20.0"), (math.inf, "0"), (0, "∞")],
)
def test_a_ratio_is_one_over_the_factor_with_the_decimals_that_matter(
    value: float, text: str
) -> None:
    assert ratio(value) == text


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


def test_the_interval_of_a_ratio_is_that_of_the_factor_with_its_ends_changed() -> None:
    assert interval({"low": 0.5, "high": 1.25}) == "0.80 to 2.00"
    assert interval({"low": None, "high": 3}) == ""


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
