"""The first screen's figure: the distance between two curves is drawn where it is the mean factor."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from reports.figures.answer import answer
from reports.style.theme import styles
from tests.reports.figures.frames import curve, data

CURVES, NO_LOSSES = curve(), curve().iloc[:0].rename(columns={"accuracy": "value"})
CHOSEN = pd.DataFrame({"variant": ["DR"], "depth": 4, "task": "average", "metric": "accuracy", "factor": [2.0]})
CHOSEN = CHOSEN.assign(within_noise=False, baseline="LA")
MODELS = pd.DataFrame({"variant": ["LA", "DR"], "depth": 4, "config": None})
TARGETS = pd.DataFrame({"target": np.linspace(0.3, 0.4, 25), "factor": np.linspace(1.5, 2.6, 25)})
TARGETS = TARGETS.assign(variant="DR", depth=4, task="average", metric="accuracy", variant_tokens=2e6)
TARGETS = TARGETS.assign(baseline_tokens=TARGETS["variant_tokens"] * TARGETS["factor"])


def bars(chosen: pd.DataFrame, targets: pd.DataFrame) -> list[dict[str, str]]:
    """The bars of the only panel, with both ends in tokens."""
    drawn = answer(chosen, CURVES, NO_LOSSES, targets, MODELS, STYLES)
    return [row for rows in data(drawn.panels[0].specification) if "to" in rows[0] for row in rows]


def span(bar: dict[str, str]) -> float:
    return float(bar["to"]) / float(bar["tokens"])


STYLES = styles(["LA", "DR", "DR+DA"])
# Factors by target as curves of a study have them: far from the mean nearly everywhere, and through the mean in a jump.
JUMP = np.repeat([0.75, 0.95], [10, 15])
COURSES = {
    "even": np.linspace(1.5, 2.6, 25),
    "a jump": JUMP,
    "two jumps": np.repeat([3, 1.2, 3], [5, 15, 5]),
    "flat": np.full(25, 1.7),
    "falling": np.linspace(0.9, 0.5, 25),
}


@pytest.mark.parametrize("course", COURSES)
def test_a_bar_spans_what_its_label_says(course: str) -> None:
    factors = COURSES[course]
    mean = float(np.exp(np.log(factors).mean()))
    targets = TARGETS.assign(factor=factors, baseline_tokens=TARGETS["variant_tokens"] * factors)
    (bar,) = bars(CHOSEN.assign(factor=mean), targets)
    said = float(bar["label"].split("×")[0])
    assert said == pytest.approx(max(mean, 1 / mean), rel=0.01)
    assert span(bar) == pytest.approx(said, rel=0.03)
    assert 0.3 <= float(bar["value"]) <= 0.4


def test_a_mean_that_no_height_has_is_not_drawn() -> None:
    assert bars(CHOSEN.assign(factor=3.0), TARGETS) == []


def test_two_bars_of_nearly_one_height_are_drawn_apart_and_keep_their_spans() -> None:
    both = pd.concat([CHOSEN.assign(factor=0.85), CHOSEN.assign(variant="DR+DA", factor=0.8)])
    targets = TARGETS.assign(factor=JUMP, baseline_tokens=TARGETS["variant_tokens"] * JUMP)
    first, second = sorted(bars(both, pd.concat([targets, targets.assign(variant="DR+DA")])), key=span)
    assert span(first) == pytest.approx(1 / 0.85, rel=0.03)
    assert span(second) == pytest.approx(1 / 0.8, rel=0.03)
    assert abs(float(first["value"]) - float(second["value"])) > 0.02


def test_no_headline_no_figure() -> None:
    assert answer(CHOSEN.iloc[:0], CURVES, NO_LOSSES, TARGETS, MODELS, STYLES) is None
