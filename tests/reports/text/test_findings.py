"""Sentences about factors: each has its bound and its doubts."""

from __future__ import annotations

import math

from reports.text.findings import finding, lead

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
    found = finding(ROW)
    assert (found.figure, found.unit, found.interval) == ("4.0×", "fewer training tokens", "95% interval 3.0 to 5.5")
    assert (
        found.sentence
        == "DR reached LA’s best average accuracy (32.3%) with 4.0 times fewer training tokens: 25B instead of 100B."
    )
    assert found.doubts == ()


def test_a_factor_below_one_is_more_tokens() -> None:
    found = finding({**ROW, "factor": 0.5, "variant_tokens": 200e9, "low": 0.4, "high": 1.2})
    assert (
        found.sentence
        == "DR needed 2.0 times more training tokens to reach LA’s best average accuracy (32.3%): 200B instead of 100B."
    )
    assert found.doubts == ("The interval includes 1: the study does not show a difference.",)


def test_bounds() -> None:
    least = finding({**ROW, "bound": "at least", "high": math.inf})
    assert least.figure.startswith("≥")
    assert "by its first checkpoint" in least.sentence
    most = finding({**ROW, "bound": "at most", "factor": 0.8, "variant_tokens": None, "low": 0.0, "high": 0.9})
    assert most.figure.startswith("≤")
    assert most.sentence == (
        "DR did not reach LA’s best average accuracy (32.3%) within 100B tokens; its own best is 45.7%. "
        "It would need more than 1.25 times LA’s tokens."
    )
    assert not most.reached
    undecided = finding({**ROW, "bound": "at most", "factor": 3.0})
    assert "too few tokens to say" in undecided.sentence


def test_as_many_tokens() -> None:
    assert "with as many training tokens" in finding({**ROW, "factor": 1.0, "variant_tokens": 100e9}).sentence
    assert "with about as many training tokens" in finding({**ROW, "factor": 1.04, "variant_tokens": 96e9}).sentence


def test_doubts() -> None:
    found = finding({**ROW, "near_chance": True, "baseline_bound": "at least", "low": None})
    assert [doubt.split(":")[0] for doubt in found.doubts] == [
        "No interval has been computed for this factor.",
        "LA itself is within two standard errors of chance here",
        "LA was best at its very first checkpoint",
    ]
    assert "no interval, near chance" in found.short


def test_a_missing_factor_claims_nothing() -> None:
    found = finding({**ROW, "factor": float("nan"), "bound": None})
    assert (found.figure, found.doubts, found.reached) == ("–", (), False)
    assert "cannot be compared" in found.sentence


def test_the_lead_names_every_variant() -> None:
    rows = [ROW, {**ROW, "variant": "DA", "factor": 2.0}, {**ROW, "variant": "x", "bound": "at most"}]
    assert lead([finding(row) for row in rows], "gsm8k") == (
        "At depth 16, reaching LA’s best accuracy on GSM8K took DR 4.0 times fewer training tokens (95% interval 3.0 "
        "to 5.5) and DA 2.0 times fewer training tokens (95% interval 3.0 to 5.5), compared with LA; x did not "
        "reach it."
    )
    assert (
        lead([finding(rows[2])], "average") == "At depth 16, reaching LA’s best average accuracy: x did not reach it."
    )
