"""Mean factors in words: the figure, its interval, what it is a mean over; nothing claimed from one seed."""

from __future__ import annotations

import math

import pandas as pd

from reports.text.mean_factors import headline, mean_finding

ROW = {
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
}


def test_a_factor_has_its_interval_and_what_it_is_a_mean_over() -> None:
    found = mean_finding(ROW)
    assert (found.figure, found.unit, found.interval) == ("1.24×", "fewer training tokens", "95% interval 1.05 to 1.46")
    assert "every average accuracy from 31.0% to 88.0%" in found.sentence
    assert "5 seeds" in found.sentence
    assert found.doubts == ()


def test_a_factor_below_one_is_said_in_times_as_many_too() -> None:
    found = mean_finding({**ROW, "factor": 0.8, "low": 0.64, "high": 0.96})
    assert (found.figure, found.unit) == ("0.80×", "that is, 1.25 times as many training tokens")
    assert found.interval == "95% interval 0.64 to 0.96"


def test_one_seed_has_no_interval() -> None:
    found = mean_finding({**ROW, "low": math.nan, "high": math.nan, "seeds": 1})
    assert found.interval == ""
    assert len(found.doubts) == 1


def test_losses_are_named() -> None:
    row = {**ROW, "metric": "loss", "range_low": 0.412, "range_high": 1.25}
    assert "every average loss from 1.25 bits per byte to 0.41 bits per byte" in mean_finding(row).sentence


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
