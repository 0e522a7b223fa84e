"""Names at the ends of curves, heads of arrows, and marks of many variants."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dreamer_study.reports.data import without_repeats
from dreamer_study.reports.figures.answer import spread
from dreamer_study.reports.figures.ratios import DIRECTION, mark_of, ratio_axis
from dreamer_study.reports.style.theme import styles


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([20, 60, 90], [20, 60, 90]),  # apart already: none moves
        ([50, 50], [45, 55]),  # both move, in opposite directions
        ([50, 51, 90], [45.5, 55.5, 90]),
        ([96, 97], [85, 95]),  # within the plot
        ([1, 2], [5, 15]),
    ],
)
def test_names_that_would_meet_are_moved_as_little_as_can_be(
    places: list[float], expected: list[float]
) -> None:
    assert spread(np.array(places, float), 10, 100).tolist() == expected


def test_names_keep_the_order_of_their_curves() -> None:
    places = np.sort(np.random.default_rng(0).uniform(0, 200, 12))
    moved = spread(places, 14, 250)
    assert np.diff(moved).min() >= 14 - 1e-9
    assert moved[0] >= 7
    assert moved[-1] <= 243


def test_variants_of_one_colour_have_different_marks() -> None:
    looks = styles(["LA", *(f"V{number}" for number in range(12))])
    rows = pd.DataFrame({"variant": [*looks], "bound": ""})
    seen = {
        (looks[name].colour, mark) for name, mark in zip(looks, mark_of(rows, looks), strict=True)
    }
    assert len(seen) == 13
    assert mark_of(rows.head(1), looks) == [looks["LA"].vega_shape], "as everywhere on the page"
    assert mark_of(rows.tail(1).assign(bound="at least"), looks) == ["triangle-right"]


def shown_at(axis: dict, width: float) -> list[float]:
    """The ticks that have a number on an axis of this width, by the axis' own expression."""
    needed = eval(axis["labelExpr"].split("<")[1].split("]")[0] + "]")
    return [tick for tick, least in zip(axis["values"], needed, strict=True) if not width < least]


@pytest.mark.parametrize(("low", "high"), [(0.6, 3.5), (0.05, 1.25), (0.8, 1.25), (0.9, 40)])
@pytest.mark.parametrize("width", [60, 200, 640])
def test_an_axis_of_ratios_always_says_1x(low: float, high: float, width: float) -> None:
    shown = shown_at(ratio_axis(low, high).to_dict(), width)
    assert 1 in shown
    places = np.log(np.array(shown) / low) / np.log(high / low) * width
    assert np.diff(places).min(initial=99) > 18, "numbers do not meet"
    assert "titleX" not in ratio_axis(low, high).to_dict()
    assert "clamp" in ratio_axis(low, high, title=DIRECTION).to_dict()["titleX"]["expr"]


def test_the_average_over_one_task_is_shown_once() -> None:
    rows = pd.DataFrame({"task": ["average", "gsm8k", "validation"], "metric": ["accuracy"] * 3})
    assert without_repeats(rows)["task"].tolist() == ["average", "validation"]
    of_loss = rows.assign(metric=["accuracy", "loss", "loss"])
    assert len(without_repeats(of_loss)) == 3, "the average is of another metric"
    two = pd.concat([rows, rows.assign(task="mmlu")])
    assert len(without_repeats(two)) == 6
    assert len(without_repeats(rows.iloc[1:])) == 2, "no average"
    assert len(without_repeats(rows.assign(one_task=False))) == 3, "an average of nothing"
