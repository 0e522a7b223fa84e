"""Sentences about mean factors: one unit, what cannot be told first, nothing claimed from one seed."""

from __future__ import annotations

import math
import re

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from reports.text.mean_factors import headline, mean_finding

ROW = {
    "variant": "DR",
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
}


def test_a_decided_factor_has_one_sentence() -> None:
    found = mean_finding(ROW)
    assert found.sentence == (
        "DR of depth 4 needed 1.24 times fewer training tokens than LA for equal average accuracy (95% interval 1.05 "
        "to 1.46)."
    )
    assert (found.figure, found.unit, found.interval) == ("1.24×", "fewer training tokens", "95% interval 1.05 to 1.46")
    assert found.details == (
        "The mean over every average accuracy from 31.0% to 88.0%, which both models reached; 5 seeds of each, or more."
    )
    assert found.doubts == ()
    assert not found.undecided


def test_more_tokens_have_the_interval_in_times_more() -> None:
    found = mean_finding({**ROW, "factor": 0.8, "low": 0.64, "high": 0.96})
    assert found.sentence == (
        "DR of depth 4 needed 1.25 times more training tokens than LA for equal average accuracy (95% interval 1.04 "
        "to 1.56)."
    )


def test_an_interval_with_one_begins_with_what_cannot_be_told() -> None:
    found = mean_finding({**ROW, "low": 0.9})
    assert found.sentence == (
        "The study cannot tell whether DR of depth 4 needs fewer training tokens than LA for equal average accuracy: "
        "1.24 times fewer at best estimate, with a 95% interval of 0.90 to 1.46, where 1 is as many."
    )
    more = mean_finding({**ROW, "factor": 0.9, "low": 0.7, "high": 1.25})
    assert "1.11 times more at best estimate, with a 95% interval of 0.80 to 1.43" in more.sentence


@given(st.floats(0.05, 20), st.floats(1, 3), st.floats(1, 3))
def test_the_interval_holds_the_figure_of_its_sentence(value: float, below: float, above: float) -> None:
    sentence = mean_finding({**ROW, "factor": value, "low": value / below, "high": value * above}).sentence
    figure = float(re.search(r"([\d.]+) times (?:fewer|more)", sentence)[1])
    low, high = map(float, re.search(r"95% interval (?:of )?([\d.]+) to ([\d.]+)", sentence).groups())
    assert low <= figure <= high
    assert sentence.startswith("The study cannot tell") == (value / below < 1 < value * above)


def test_one_seed_has_no_interval() -> None:
    found = mean_finding({**ROW, "low": math.nan, "high": math.nan, "seeds": 1})
    assert found.sentence.endswith("for equal average accuracy (no interval).")
    assert found.doubts[0].startswith("A model has one seed")


def test_losses_are_named() -> None:
    row = {**ROW, "metric": "loss", "range_low": 0.412, "range_high": 1.25}
    assert "for equal average loss of the right answers" in mean_finding(row).sentence
    assert "from 1.25 bits per byte to 0.41 bits per byte" in mean_finding(row).details
    assert "for equal loss on held-out documents" in mean_finding({**row, "task": "validation"}).sentence


def test_the_headline_is_a_loss_where_accuracy_is_within_noise() -> None:
    loss = {**ROW, "metric": "loss", "task": "validation", "factor": 1.1}
    other = {**ROW, "task": "gsm8k"}
    rows = [loss, ROW, other, {**ROW, "variant": "LA", "factor": 1.0}]
    assert headline(pd.DataFrame(rows))[["variant", "metric", "task"]].to_numpy().tolist() == [
        ["DR", "accuracy", "average"]
    ]
    weak = [loss, {**ROW, "within_noise": True}, other]
    assert headline(pd.DataFrame(weak))["task"].tolist() == ["validation"]
    nothing = [{**ROW, "within_noise": True}, {**loss, "factor": math.nan}]
    assert headline(pd.DataFrame(nothing))["metric"].tolist() == ["accuracy"]
    noisy = [{**ROW, "factor": math.nan}, {**loss, "within_noise": True}]
    assert headline(pd.DataFrame(noisy))["metric"].tolist() == ["loss"], "a noisy factor is better than none"
