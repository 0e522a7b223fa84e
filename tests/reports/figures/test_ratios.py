"""Figures of ratios: by task and measure, and by value."""

from __future__ import annotations

import pandas as pd
import pytest

from dreamer_study.reports.figures.efficiency import token_ratios
from dreamer_study.reports.figures.targets import by_target
from tests.reports.figures.frames import (
    DRAWN,
    data,
    ratios,
)

RATIOS = pd.concat(
    [
        ratios(ratio=0.81, low=0.71, high=0.91),
        ratios(task="gsm8k", ratio=None, low=5.5, high=None, significant=None),
        ratios(metric="loss", ratio=0.77, low=0.56, high=1.11, significant=False),
    ]
)


def test_token_ratios_show_the_averages_first_and_both_measures() -> None:
    drawn = token_ratios(RATIOS, DRAWN)
    assert (
        drawn.finding == "Significant: 1 of 2 ratios tested, 1 with fewer tokens and 0 with more."
    )
    rows = next(rows for rows in data(drawn.panels[0].specification) if "label" in rows[0])
    assert [(row["name"], row["label"], row["hollow"]) for row in rows] == [
        ("Average accuracy", "0.81x (0.71 to 0.91)", "false"),
        ("Average loss", "0.77x (0.56 to 1.11)", "true"),
        ("GSM8K", "at least 5.50x", "true"),
    ]
    assert [(row["shown"], row["least"], row["most"]) for row in rows[:2]] == [
        ("0.81", "0.71", "0.91"),
        ("0.77", "0.56", "1.11"),
    ]
    titles = {
        layer["encoding"]["x"]["title"] for layer in drawn.panels[0].specification["layer"][:3]
    }
    assert titles == {"fewer tokens  ←  1  →  more tokens"}
    assert token_ratios(RATIOS.assign(ratio=None, low=None, high=None), DRAWN) is None


@pytest.mark.parametrize(
    ("columns", "label", "bound", "opens"),
    [
        ({"ratio": None, "low": 5.5, "high": None}, "at least 5.50x", "at least", "most"),
        ({"ratio": None, "low": None, "high": 0.2}, "at most 0.20x", "at most", "least"),
        (
            {"ratio": 0.9, "low": 0.8, "high": 1.1, "decay_bound": "at most"},
            "at most 0.90x (0.80 to 1.10)",
            "at most",
            "",
        ),
        ({"ratio": 12.0, "low": None, "high": None}, "12.0x", "", ""),
    ],
)
def test_a_bound_has_a_line_to_the_edge(columns, label, bound, opens) -> None:
    drawn = token_ratios(ratios(**columns), DRAWN)
    (row,) = next(rows for rows in data(drawn.panels[0].specification) if "label" in rows[0])
    assert (row["label"], row["bound"]) == (label, bound)
    said = drawn.caption.endswith(f"{bound}: the true ratio lies on that side.")
    assert said == bool(bound)
    given = {"least": columns["low"], "most": columns["high"]}
    for end, value in given.items():
        if end == opens:
            outside = float(row[end]) / float(row["shown"])
            assert outside > 1.1 if end == "most" else outside < 0.9
        else:
            assert row[end] == ("" if value is None else str(value))


@pytest.mark.parametrize(
    ("columns", "hollow"),
    [
        ({}, False),
        ({"significant": False}, True),
        ({"significant": None}, False),
        ({"significant": None, "low": 0.9}, True),
        ({"significant": None, "within_checkpoint": True}, True),
        ({"significant": None, "low": None, "high": None}, True),
    ],
)
def test_what_is_not_distinguished_from_one_is_hollow(columns, hollow: bool) -> None:
    drawn = token_ratios(ratios(**columns), DRAWN)
    (row,) = next(rows for rows in data(drawn.panels[0].specification) if "label" in rows[0])
    assert row["hollow"] == str(hollow).lower()


BY_TARGET = pd.concat(
    pd.DataFrame({"task": "average", "metric": metric, "target": [0.2, 0.8]}).assign(
        depth=4,
        variant="DR",
        baseline="LA",
        ratio=[1.0, 2 / 3],
        ratio_low=[0.8, None],
        ratio_high=[1.25, 100],
    )
    for metric in ("accuracy", "loss")
)


def test_ratios_by_value_have_a_panel_for_each_measure() -> None:
    drawn = by_target(BY_TARGET, ratios(), DRAWN)
    assert drawn.finding == (
        "Average accuracy, depth 4, over the marked scores: DR 1.70x (1.40 to 2.00) at 30 to 40 %."
    )
    assert [one.title for one in drawn.panels] == [
        "Average accuracy, depth 4",
        "Average loss, depth 4",
    ]
    (band,) = (rows for rows in data(drawn.panels[0].specification) if "low" in rows[0])
    # to the edge, or none
    assert [(row["low"], row["high"]) for row in band] == [("0.8", "1.25"), ("", "1.625")]
    assert by_target(BY_TARGET.iloc[:0], RATIOS, DRAWN) is None


def test_the_scores_of_the_answer_are_marked_where_the_ratio_is_by_value() -> None:
    of_both = pd.concat([ratios(), ratios(metric="loss", score_low=1.6, score_high=1.8, ratio=1.2)])
    accuracy_panel, loss_panel = by_target(BY_TARGET, of_both, DRAWN).panels
    for one, expected in ((accuracy_panel, (0.3, 0.4, 1.7)), (loss_panel, (1.6, 1.8, 1.2))):
        marks = [rows for rows in data(one.specification) if "score_low" in rows[0]]
        assert marks
        for (row,) in marks:
            found = tuple(float(row[name]) for name in ("score_low", "score_high", "ratio"))
            assert found == expected
    assert "1.20x (1.40 to 2.00) at 1.80 to 1.60" in loss_panel.description
    unmarked = by_target(BY_TARGET, ratios(ratio=None), DRAWN)
    assert not [rows for rows in data(unmarked.panels[0].specification) if "score_low" in rows[0]]


@pytest.mark.parametrize(
    ("in_advance", "fifth", "fixed"),
    [([False, False], True, False), ([True, True], False, True), ([True, False], True, True)],
)
def test_the_caption_says_which_scores_the_answer_is_over(in_advance, fifth, fixed) -> None:
    of_both = pd.concat([ratios(), ratios(metric="loss", score_low=1.6, score_high=1.6)])
    drawn = by_target(BY_TARGET, of_both.assign(in_advance=in_advance), DRAWN)
    assert ("the upper fifth of those that are compared" in drawn.caption) == fifth
    assert ("fixed in advance" in drawn.caption) == fixed
