"""Figures hold what their frames hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from dreamer_study.reports.data import read_study
from dreamer_study.reports.figures.accuracy import accuracy, accuracy_at_other_depths
from dreamer_study.reports.figures.answer import answer
from dreamer_study.reports.figures.balance import balance, concentration
from dreamer_study.reports.figures.depth_attention import depth_attention
from dreamer_study.reports.figures.efficiency import token_ratios
from dreamer_study.reports.figures.experts import experts_of_depths, order_of_experts, selections
from dreamer_study.reports.figures.rendering import Figure, Panel, page_drawing
from dreamer_study.reports.figures.targets import by_target
from dreamer_study.reports.figures.training import loss, rates
from dreamer_study.reports.style.theme import styles
from dreamer_study.reports.tables.results import other_depths
from dreamer_study.sql.results import connect
from tests.reports.figures.frames import (
    COUNTED,
    DRAWN,
    FACTORS,
    NO_RAW,
    RUNS,
    SCORES,
    curve,
    data,
    ratios,
)
from tests.reports.small_results import RIGHT, STUDY, whole_study

CURVES, NO_LOSSES = curve(), curve().iloc[:0].rename(columns={"accuracy": "value"})
STYLES = styles(["LA", "DR", "DR+DA"])
STEPS = np.arange(101)
# Ratios at the scores of the grid. Of an answer over the upper half of them, the mean may be far
# from the ratio nearly everywhere, and pass through the mean in a jump.
COURSES = {
    "even": np.linspace(1 / 1.5, 1 / 2.6, 101),
    "a jump": np.repeat([1 / 0.75, 1 / 0.95], [70, 31]),
    "two jumps": np.repeat([1 / 3, 1 / 1.2, 1 / 3], [60, 20, 21]),
    "flat": np.full(101, 1.7),
    "falling": np.linspace(1.1, 2, 101),
}


def at_scores(course: np.ndarray, variant: str = "DR", reached: int = 100) -> pd.DataFrame:
    """The baseline LA and a variant with ratios at scores of 0.3 to 0.4; `reached` is the last step
    that the variant had."""
    baseline_tokens = np.geomspace(2e6, 16e6, 101)
    rows = pd.DataFrame({"step": STEPS, "score": 0.3 + STEPS / 1000, "at_first": False})
    rows = rows.assign(depth=4, task="average", metric="accuracy")
    own = (baseline_tokens * course)[: reached + 1]
    own_tokens = np.concatenate([own, np.full(100 - reached, np.nan)])
    return pd.concat(
        [
            rows.assign(variant="LA", tokens=baseline_tokens, best=0.4),
            rows.assign(variant=variant, tokens=own_tokens, best=0.3 + reached / 1000),
        ]
    )


def draw(ratios: pd.DataFrame, grid: pd.DataFrame) -> Figure | None:
    return answer(ratios, CURVES, NO_LOSSES, grid, RUNS, NO_LOSSES, STYLES)


def strip_rows(ratios: pd.DataFrame, grid: pd.DataFrame, column: str) -> list[dict[str, str]]:
    """The rows with a column that the strip beside the curves draws."""
    _, strip = draw(ratios, grid).panels
    return [row for rows in data(strip.specification) if column in rows[0] for row in rows]


def drawn_rows(ratios: pd.DataFrame, grid: pd.DataFrame, column: str) -> list[dict[str, str]]:
    """The rows with a column that the panel with the curves of the answer draws."""
    one, _ = draw(ratios, grid).panels
    return [row for rows in data(one.specification) if column in rows[0] for row in rows]


def arrows(ratios: pd.DataFrame, grid: pd.DataFrame) -> list[dict[str, str]]:
    """The arrows and labels of the answer, where the slider begins."""
    return [row for row in drawn_rows(ratios, grid, "label") if row["place"] == "0"]


def span(arrow: dict[str, str]) -> float:
    return float(arrow["tokens"]) / float(arrow["baseline_tokens"])


@pytest.mark.parametrize("course", COURSES)
def test_an_arrow_leads_from_the_baseline_as_far_as_its_label_says(course: str) -> None:
    grid = at_scores(COURSES[course])
    upper = COURSES[course][50:]
    mean = float(np.exp(np.log(upper).mean()))
    chosen = ratios(
        ratio=mean, low=mean / 1.2, high=mean * 1.2, score_low=0.35, score_high=0.4, reached=True
    )
    (arrow,) = arrows(chosen, grid)
    assert arrow["label"] == f"DR {mean:.2f}x ({mean / 1.2:.2f} to {mean * 1.2:.2f})"
    assert span(arrow) == pytest.approx(mean, rel=1e-4)
    assert 0.35 <= float(arrow["value"]) <= 0.4
    assert arrow["dashed"] == "false"
    at_height = np.interp(float(arrow["value"]), 0.3 + STEPS / 1000, np.log(grid["tokens"][:101]))
    assert float(arrow["baseline_tokens"]) == pytest.approx(np.exp(at_height), rel=1e-3)
    apart = np.abs(np.log(upper / mean))
    tip = np.exp(at_height) * np.interp(float(arrow["value"]), 0.3 + STEPS / 1000, COURSES[course])
    assert abs(np.log(float(arrow["tokens"]) / tip)) <= apart.min() + 0.01


def test_scores_between_two_steps_of_the_grid_have_an_arrow_too() -> None:
    grid = at_scores(np.full(101, 1.7), reached=50)
    between = ratios(score_low=0.3504, score_high=0.3508)
    (arrow,) = arrows(between, grid)
    assert span(arrow) == pytest.approx(1.7, rel=1e-4)
    assert 0.3504 <= float(arrow["value"]) <= 0.3508


def test_bounds_are_dashed_arrows_that_say_so() -> None:
    grid = at_scores(np.full(101, 2.0), reached=10)
    last = 16e6  # of either model
    least = {"ratio": None, "low": 4.0, "high": None, "score_low": None, "score_high": None}
    (arrow,) = arrows(ratios(**least), grid)
    assert arrow["label"] == "DR at least 4.00x"
    assert (arrow["dashed"], span(arrow), float(arrow["tokens"])) == ("true", 4, last)
    most = least | {"low": None, "high": 0.25}
    (arrow,) = arrows(ratios(**most), grid)
    assert arrow["label"] == "DR at most 0.25x"
    assert (arrow["dashed"], span(arrow)) == ("true", 0.25)
    assert float(arrow["baseline_tokens"]) == last


def test_a_ratio_that_a_decay_makes_a_bound_is_dashed_and_says_so() -> None:
    grid = at_scores(np.full(101, 1.7))
    (arrow,) = arrows(ratios(decay_bound="at least"), grid)
    assert arrow["label"] == "DR at least 1.70x (1.40 to 2.00)"
    assert arrow["dashed"] == "true"


def test_a_ratio_without_a_place_on_the_curves_has_a_label_and_no_arrow() -> None:
    (arrow,) = arrows(ratios(), at_scores(np.full(101, 1.7)).iloc[:0])
    assert (arrow["label"], arrow["tokens"]) == ("DR 1.70x (1.40 to 2.00)", "")


def test_at_every_place_of_the_slider_each_model_has_one_number_at_one_score() -> None:
    course = COURSES["falling"]
    drawn = draw(ratios(), at_scores(course, reached=80))
    (slider,) = drawn.panels[0].specification["params"]
    assert slider["value"] == slider["bind"]["min"] == 0
    assert (slider["bind"]["max"], slider["bind"]["step"]) == (101, 1)
    headings = {
        row["place"]: row["words"]
        for row in strip_rows(ratios(), at_scores(course, reached=80), "words")
        if "place" in row
    }
    found = drawn_rows(ratios(), at_scores(course, reached=80), "label")
    for place in range(1, 102):
        own, other = [row for row in found if row["place"] == str(place)]
        score = 0.3 + (place - 1) / 1000
        assert headings[str(place)] == f"Tokens to {100 * score:.1f} %"
        assert own["label"].startswith("LA ")
        assert float(own["value"]) == float(other["value"]) == pytest.approx(score)
        if place <= 81:
            assert other["label"].endswith(f", {course[place - 1]:.2f}x LA’s")
            assert span(other) == pytest.approx(course[place - 1], rel=1e-4)
        else:
            assert other["label"] == "DR: never (best 38.0 %)"
            assert other["tokens"] == ""


def test_what_the_first_checkpoint_has_took_at_most_its_tokens_and_has_no_ratio() -> None:
    grid = at_scores(np.full(101, 0.5))
    early = grid["variant"].eq("DR") & (grid["step"] < 20)
    found = drawn_rows(ratios(), grid.assign(at_first=early), "label")
    (at_first,) = [row for row in found if row["place"] == "1" and row["variant"] == "DR"]
    assert (at_first["label"], at_first["dashed"]) == ("DR at most 1M", "true")


def test_arrows_of_nearly_one_height_are_drawn_apart_and_keep_their_spans() -> None:
    course = np.full(101, 1.2)
    both = pd.concat([ratios(ratio=1.2), ratios(ratio=1.25, variant="DR+DA")])
    grid = pd.concat([at_scores(course), at_scores(course, "DR+DA").iloc[101:]])
    first, second = sorted(arrows(both, grid), key=span)
    assert span(first) == pytest.approx(1.2, rel=1e-4)
    assert span(second) == pytest.approx(1.25, rel=1e-4)
    assert abs(float(first["value"]) - float(second["value"])) > 0.02


@pytest.mark.parametrize("variants", [2, 5])
def test_arrows_stay_near_the_scores_that_both_models_have(variants: int) -> None:
    """Many arrows at the best score of all: they go down from there, over no more than the scores
    of the answers."""
    names = [f"V{number}" for number in range(variants)]
    course = np.full(101, 1.2)
    course[-1] = 1.7  # so that the ratio is at the last score
    grid = pd.concat([at_scores(course, name).iloc[101:] for name in names])
    grid = pd.concat([at_scores(course).iloc[:101], grid])
    rows = pd.concat([ratios(variant=name, score_low=0.38) for name in names])
    heights = [float(row["value"]) for row in arrows(rows, grid)]
    assert len(set(heights)) == variants
    assert max(heights) == pytest.approx(0.4)
    assert min(heights) >= 0.38


def test_the_strip_has_a_row_for_each_variant_filled_where_significant() -> None:
    grid = at_scores(np.full(101, 1.7))
    both = pd.concat(
        [ratios(), ratios(variant="DR+DA", ratio=0.9, low=0.7, high=1.2, significant=False)]
    ).assign(reached=[False, True])
    rows = {row["variant"]: row for row in strip_rows(both, grid, "least")}
    assert {name: row["hollow"] for name, row in rows.items()} == {"DR": "false", "DR+DA": "true"}
    assert {name: row["missed"] for name, row in rows.items()} == {"DR": "true", "DR+DA": "false"}
    assert float(rows["DR+DA"]["row"]) < float(rows["DR"]["row"]), "in the order of the effect"
    labels = {row["variant"]: row for row in strip_rows(both, grid, "label") if row["place"] == "0"}
    assert labels["DR"]["label"] == "DR 1.70x (1.40 to 2.00)"
    assert all(float(labels[name]["row"]) < float(rows[name]["row"]) for name in rows)


def test_the_curves_have_no_text_but_levels_and_names_beyond_their_ends() -> None:
    curves, _ = draw(ratios(), at_scores(np.full(101, 1.7))).panels
    x = [layer.get("encoding", {}).get("x", {}) for layer in curves.specification["layer"]]
    assert max(part["scale"]["domain"][1] for part in x if "scale" in part) > 1.2 * 16e6
    names = [rows for rows in data(curves.specification) if {"words", "tokens"} <= {*rows[0]}]
    assert {row["words"] for rows in names for row in rows} == {"LA", "DR"}
    assert {float(row["tokens"]) for rows in names for row in rows} == {16e6}


def test_what_a_variant_never_reached_is_a_dashed_line() -> None:
    grid = at_scores(np.full(101, 1.7), reached=50)
    short = ratios(reached=False, best=0.35)
    lines = drawn_rows(short, grid, "baseline_best")
    last = CURVES[CURVES["variant"] == "DR"]["tokens"].max()
    assert [(float(row["tokens"]), row["best"], row["baseline_best"]) for row in lines] == [
        (last, "0.35", "0.4")
    ]
    drawn = draw(short, grid)
    assert drawn.panels[0].description.endswith("LA’s best, 40.0 %, was never reached by DR.")
    assert drawn_rows(ratios(reached=True), grid, "baseline_best") == []
    assert drawn_rows(ratios(reached=None), grid, "baseline_best") == []


def test_an_answer_in_another_measure_is_said_beside_the_curves() -> None:
    """Most models have one in average accuracy; the panel has its curves."""
    grid = pd.concat([at_scores(np.full(101, 1.7)), at_scores(np.full(101, 1.7), "tiny")])
    near_chance = ratios(variant="DR+DA", metric="loss", ratio=1.2, low=1.1, high=1.3)
    rows = pd.concat([near_chance, ratios(), ratios(variant="tiny")])
    labels = {row["variant"]: (row["label"], row["tokens"] != "") for row in arrows(rows, grid)}
    assert labels == {
        "DR": ("DR 1.70x (1.40 to 2.00)", True),
        "DR+DA": ("DR+DA 1.20x (1.10 to 1.30) in average correct-answer bits per byte", False),
        "tiny": ("tiny 1.70x (1.40 to 2.00)", True),
    }
    drawn = draw(rows, grid)
    assert drawn.panels[0].title == "Average accuracy, depth 4"


def test_without_a_ratio_the_curves_are_drawn_and_the_model_is_named() -> None:
    grid = at_scores(np.full(101, 1.7))
    unknown = ratios(ratio=None, low=None, high=None, score_low=None, score_high=None)
    (one,) = arrows(unknown, grid)
    assert (one["label"], one["tokens"], one["value"]) == ("DR: no ratio", "", "")
    assert draw(ratios(outdated=True), grid) is None
    assert draw(ratios().iloc[:0], grid) is None


@pytest.mark.parametrize(
    ("width", "words"), [(0.5, "35.0 %"), (0.05, "30.50 %"), (0.002, "30.020 %")]
)
def test_steps_of_the_slider_have_headings_of_their_own(width: float, words: str) -> None:
    grid = at_scores(np.full(101, 1.7))
    grid = grid.assign(score=0.3 + width * grid["step"] / 100)
    headings = [row["words"] for row in strip_rows(ratios(), grid, "words")]
    assert len(set(headings)) == 102
    assert f"Tokens to {words}" in headings


# Two experts: the most selected has three quarters of the selections.
POINTS = pd.DataFrame({"experts": [1, 2], "share": [0.75, 1]})
BALANCE_CURVES = pd.concat([POINTS.assign(depth=depth) for depth in (1, 2, None)]).assign(
    model_depth=2, tokens=5, baseline="LA"
)
GINI = pd.DataFrame({"variant": ["DR", "LA"], "model_depth": 2, "gini": [0.25, 0.5]})
GINI = GINI.assign(lowest=[0.2, 0.5], highest=[0.3, 0.5])


def test_a_panel_has_the_depths_the_whole_model_and_the_baseline() -> None:
    curves = pd.concat(
        [
            BALANCE_CURVES.assign(run_id="s", variant="DR"),
            BALANCE_CURVES.assign(run_id="a", variant="LA"),
        ]
    )
    drawn = concentration(curves, GINI, DRAWN)
    assert drawn.finding == "DR, depth 2: Gini coefficient DR 0.250 and LA 0.500."
    (panel,) = drawn.panels
    assert panel.title == "DR, depth 2"
    assert panel.description.endswith("Gini coefficient DR 0.250 and LA 0.500.")
    lines = [
        [(row.get("depth"), row["experts"], row["share"]) for row in rows]
        for rows in data(panel.specification)
    ]
    most, all_of_them = ("1", "0.75"), ("2", "1")
    assert [(None, *most), (None, *all_of_them)] in lines
    assert [(depth, *point) for depth in ("1", "2") for point in (most, all_of_them)] in lines
    assert panel.specification["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"


def test_the_baseline_alone_has_a_panel() -> None:
    drawn = concentration(BALANCE_CURVES.assign(run_id="s", variant="LA"), GINI, DRAWN)
    assert [one.title for one in drawn.panels] == ["LA, depth 2"]


def test_balance_shows_the_whole_model_over_training_and_each_depth_against_the_baseline() -> None:
    gini = pd.DataFrame(
        {"depth": [None, None, 1], "tokens": [1e6, 2e6, 2e6], "gini": [0.2, 0.1, 0.5]}
    )
    gini = gini.assign(variant="DR", model_depth=2, run_id="s")
    ratios = pd.DataFrame(
        {"variant": ["LA", "DR", "DR"], "depth": [1, 1, 2], "ratio": [1, 2.5, 11]}
    )
    ratios = ratios.assign(
        baseline="LA", model_depth=2, experts_for_90=5.0, baseline_experts_for_90=2.0
    )
    drawn = balance(gini, GINI.iloc[:1], ratios, DRAWN)
    assert drawn.finding == (
        "Gini coefficient of expert selection at depth 2, at the end: DR 0.250 (0.200 to 0.300)."
    )
    assert [one.title for one in drawn.panels] == [
        "Depth 2: Gini coefficient",
        "Depth 2: experts used, against LA",
    ]
    assert "experts used, against LA’s: DR 2.5 to 11 times" in drawn.panels[1].description
    assert balance(gini.iloc[2:], GINI, ratios.iloc[:1], DRAWN) is None


def test_figures_side_by_side_give_one_gini_coefficient(tmp_path: Path) -> None:
    database = whole_study(tmp_path / "results.duckdb", {name: RIGHT[name] for name in DRAWN})
    with connect(database) as connection:
        connection.execute(
            "insert into runs by name select * replace ('other' as run_id, 1 as seed) from runs"
            " where run_id = 'DR-4-s0'"
        )
        connection.execute(
            "insert into expert_usage by name select * replace ('other' as run_id, 1 as selections)"
            " from expert_usage where run_id = 'DR-4-s0'"
        )
    data = read_study(
        database, STUDY, ("order", "concentration", "gini", "gini_at_end", "diversity")
    )
    lines = concentration(data.concentration, data.gini_at_end, DRAWN)
    training = balance(data.gini, data.gini_at_end, data.diversity, DRAWN)
    even, uneven = sorted(data.gini.loc[data.gini["variant"] == "DR", "gini"])
    assert even == 0
    assert f"DR {uneven / 2:.3f}" in lines.finding
    assert f"DR {uneven / 2:.3f} (0.000 to {uneven:.3f})" in training.finding


def test_every_row_of_a_depth_attention_map_is_scaled_by_its_strongest() -> None:
    drawn = depth_attention(SCORES, DRAWN)
    assert drawn.finding == (
        "DR, depth 2: of 1 depth after the first, most attention goes to the depth itself in 1, to the depth before "
        "in 0."
    )
    (rows,) = data(drawn.panels[0].specification)
    assert [float(row["strength"]) for row in rows] == pytest.approx([1, 3 / 7, 1], rel=1e-4)
    drawing = page_drawing(drawn.panels[0], 1)
    assert all(f">{label}</text>" in drawing for label in ("100", "30", "70"))
    assert "1 to 1 (100%) and 2 to 2 (70%)" in drawn.panels[0].description


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


COUNTS = {
    (1, 0): 50,
    (2, 0): 50,
    (1, 1): 0,
    (2, 1): 100,
    (1, 2): 100,
    (2, 2): 0,
    (1, 3): 0,
    (2, 3): 0,
}
FRAME = pd.DataFrame([{"depth": d, "expert": e, "selections": n} for (d, e), n in COUNTS.items()])
FRAME = FRAME.assign(variant="DR", model_depth=2, run_id="s", tokens=5)


def map_of(panel: Panel) -> np.ndarray:
    """The shares [depth, expert] of a map."""
    (rows,) = data(panel.specification)
    cells = pd.DataFrame(rows).astype(float)
    assert not cells.duplicated(["depth", "expert"]).any()
    return cells.pivot_table(index="depth", columns="expert", values="share").to_numpy()


def test_experts_are_ordered_from_those_of_few_depths_to_those_of_many() -> None:
    drawn = selections(FRAME, DRAWN)
    # Experts 2 and 1 have one depth, the first and the second; expert 0 has both; expert 3 was
    # never selected.
    assert map_of(drawn.panels[0]).tolist() == [[1, 0, 0.5], [0, 1, 0.5]]
    assert "each of 3 experts" in drawn.panels[0].description
    assert "specialised has 100% of its selections, the most general 50%" in drawn.panels[0].finding
    assert selections(FRAME.iloc[:0], DRAWN) is None


def test_the_experts_of_a_depth_are_shares_of_its_selections() -> None:
    drawn = experts_of_depths(FRAME, DRAWN)
    # Both depths make 150 selections: 100 of an expert of their own, 50 of expert 0.
    assert map_of(drawn.panels[0]) == pytest.approx(np.array([[2, 0, 1], [0, 2, 1]]) / 3, abs=1e-5)
    assert (
        "gives one expert 66.7% of its selections, where even use would be 33.33%"
        in drawn.panels[0].description
    )


def test_groups_of_experts_are_sorted_by_depths_drawn_from_their_selections() -> None:
    shares = np.zeros((4, 60))
    shares[np.arange(60) % 4, np.arange(60)] = 1  # one depth each
    order = order_of_experts(shares)
    depths = shares[:, order].argmax(axis=0)
    assert depths.tolist() == sorted(depths.tolist())
    even = np.full((4, 400), 0.25)
    assert len(set(order_of_experts(even).tolist())) == 400
    mixed = order_of_experts(np.hstack([even, shares]))
    assert set(mixed[:60]) == set(range(400, 460)), "experts of one depth come first"


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


RUN_CURVES = pd.DataFrame(
    {"tokens": [1e6, 4e6, 8e6], "loss": [5.0, 3.0, 2.9], "losses_not_finite": 0}
)
RUN_CURVES = RUN_CURVES.assign(depth=4, variant="LA", run_id="r", seed=0, status="complete")


def means_of(curves: pd.DataFrame) -> pd.DataFrame:
    """The rows of `training_means` that the view has of these curves."""
    counted = curves[~curves["status"].isin(["screened", "failed"])]
    means = counted.groupby(["depth", "variant", "tokens"], as_index=False).agg(
        loss=("loss", "mean"), seed_error=("loss", "sem"), seeds=("run_id", "nunique")
    )
    return means[means["loss"].notna()]


def training_loss(curves: pd.DataFrame, bytes_per_token: float | None = None) -> Figure:
    drawn = loss(curves, means_of(curves), DRAWN, bytes_per_token)
    assert drawn is not None
    return drawn


def seeds_of(curves: pd.DataFrame, count: int) -> pd.DataFrame:
    """Runs whose losses are 0.1 apart."""
    parts = [
        curves.assign(run_id=f"r{seed}", seed=seed, loss=curves["loss"] + 0.1 * seed)
        for seed in range(count)
    ]
    return pd.concat(parts, ignore_index=True)


def thin_lines(figure: Figure) -> int:
    layers = figure.panels[0].specification["layer"]
    return len([layer for layer in layers if layer.get("name") == "seeds"])


def test_the_later_half_has_a_panel_of_its_own() -> None:
    drawn = training_loss(RUN_CURVES)
    assert drawn.finding == "Depth 4, at the end, mean over the runs: LA 2.900."
    assert [one.title for one in drawn.panels] == ["Depth 4", "Depth 4, later half"]
    (whole,), (late,) = (data(one.specification) for one in drawn.panels)
    assert [row["loss"] for row in whole] == ["5", "3", "2.9"]
    assert [row["loss"] for row in late] == ["3", "2.9"]
    none = RUN_CURVES.assign(loss=float("nan"))
    assert loss(none, means_of(none), DRAWN) is None


def test_the_mean_at_the_end_is_over_runs_that_have_ended() -> None:
    for status, mean in (
        ("evaluating", "2.950"),
        ("training", "2.900"),
        ("failed", "2.900"),
        ("screened", "2.900"),
    ):
        other = RUN_CURVES.assign(
            run_id="other", seed=1, status=status, loss=RUN_CURVES["loss"] + 0.1
        )
        drawn = training_loss(pd.concat([RUN_CURVES, other], ignore_index=True))
        assert drawn.finding == f"Depth 4, at the end, mean over the runs: LA {mean}."


def test_losses_that_are_no_numbers_are_said() -> None:
    drawn = training_loss(RUN_CURVES.assign(losses_not_finite=[0, 0, 7]))
    assert "The loss was not a finite number in r (7 steps)" in drawn.caption


def test_the_training_loss_of_four_seeds_is_a_mean_with_a_band_over_seeds() -> None:
    drawn = training_loss(seeds_of(RUN_CURVES, 4))
    (rows,) = data(drawn.panels[0].specification)
    error = np.std([0, 0.1, 0.2, 0.3], ddof=1) / 2
    assert float(rows[0]["loss"]) == pytest.approx(5.15)
    assert float(rows[0]["low"]) == pytest.approx(5.15 - 3.18245 * error, rel=1e-5)
    assert "Bands are 95 % intervals of the mean, over seeds." in drawn.caption
    assert not thin_lines(drawn)


def test_few_seeds_and_runs_in_no_mean_are_thin_lines() -> None:
    two = training_loss(seeds_of(RUN_CURVES, 2))
    assert thin_lines(two) == 1
    assert "fewer than 4 have no interval" in two.caption
    assert "count in no mean" not in two.caption
    failed = RUN_CURVES.assign(run_id="failed", status="failed")
    more = training_loss(pd.concat([seeds_of(RUN_CURVES, 4), failed], ignore_index=True))
    (thin,) = (part for part in data(more.panels[0].specification) if "run_id" in part[0])
    assert len(thin) == 3
    assert "count in no mean" in more.caption


def test_the_training_loss_is_in_bits_per_byte_where_the_bytes_of_a_token_are_known() -> None:
    drawn = training_loss(RUN_CURVES, bytes_per_token=2.5)
    (rows,) = data(drawn.panels[0].specification)
    assert float(rows[-1]["value"]) == pytest.approx(2.9 / np.log(2) / 2.5, rel=1e-5)
    assert "Bits per byte, with 2.50 bytes to a token" in drawn.caption
    assert drawn.finding == "Depth 4, at the end, mean over the runs: LA 1.674."
    assert "loss (bits per byte)" in json.dumps(drawn.panels[0].specification)
    nats = training_loss(RUN_CURVES)
    assert "Nats per token." in nats.caption
    assert "loss (nats per token)" in json.dumps(nats.panels[0].specification)


def test_the_average_is_the_first_panel() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert [one.title for one in drawn.panels] == ["Average", "GSM8K"]
    assert "at best: LA 40.0% and DR 50.0%, each at 16M tokens" in drawn.panels[0].description
    assert accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=8) is None


def bands(**columns: Any) -> list[tuple[float, float]]:
    """Draw the curve of the average accuracy, and return its confidence band: low and high at every
    checkpoint."""
    drawn = accuracy(curve(**columns), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    rows = next(rows for rows in data(drawn.panels[0].specification) if "low" in rows[0])
    return [(float(row["low"]), float(row["high"])) for row in rows]


@pytest.mark.parametrize("seeds", [1, 3])
def test_few_seeds_have_no_band(seeds: int) -> None:
    drawn = accuracy(curve(seeds=seeds), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    layers = drawn.panels[0].specification["layer"]
    assert not [layer for layer in layers if layer.get("mark", {}).get("type") == "area"]
    assert len([layer for layer in layers if layer.get("name") == "seeds"]) == (seeds > 1)


def test_the_band_of_four_seeds_is_over_seeds_and_items_within_what_is_possible() -> None:
    seeds = np.array([0.38, 0.43, 0.39, 0.42])
    error = seeds.std(ddof=1) / 2
    interval = ttest_1samp(seeds, 0).confidence_interval(0.95)
    of_seeds = interval.high - seeds.mean()
    half = np.hypot(of_seeds, 1.96 * 0.02)
    low, high = bands(seeds=4, seed_error=error, stderr=0.02)[1]
    assert (low, high) == pytest.approx((0.4 - half, 0.4 + half), rel=1e-5)
    assert bands(seeds=4, seed_error=0.4)[1] == (0, 1)


def test_the_caption_says_how_uncertainty_is_drawn() -> None:
    captions = [
        accuracy(curve(seeds=seeds), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4).caption
        for seeds in (1, 3, 4, [4, 4, 2, 2])
    ]
    assert ["95 % intervals of the mean" in words for words in captions] == [
        *(False, False, True, True)
    ]
    assert ["With one seed no interval" in words for words in captions] == [
        *(True, False, False, False)
    ]
    assert ["hin lines" in words for words in captions] == [False, True, False, True]


def test_raw_weights_are_drawn_where_they_were_evaluated() -> None:
    raw = pd.DataFrame(
        {
            "depth": 4,
            "variant": "DR",
            "task": "gsm8k",
            "tokens": [1e6, 16e6],
            "accuracy": [0.2, 0.4],
        }
    )
    drawn = accuracy(curve(), RUNS, FACTORS, raw, COUNTED, DRAWN, depth=4)
    average, gsm8k = (data(one.specification) for one in drawn.panels)
    line = [
        {"variant": "DR", "tokens": t, "accuracy": a}
        for t, a in (("1e+06", "0.2"), ("1.6e+07", "0.4"))
    ]
    assert line in gsm8k
    assert line not in average
    assert "Dotted coloured lines are the raw weights" in drawn.caption


def test_documents_seen_before_are_said_with_the_curves() -> None:
    said = [
        accuracy(
            curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, 4, second_epoch_from=beyond
        ).caption
        for beyond in (None, 2e6, 17e6)
    ]
    assert [
        "From 2M tokens on the models had seen all documents before." in words for words in said
    ] == [
        False,
        True,
        False,
    ]


OTHER_DEPTHS = pd.DataFrame({"depth": [1, 2, 3], "accuracy": [0.1, 0.4, 0.3]})
OTHER_DEPTHS = OTHER_DEPTHS.assign(
    study_id="a",
    variant="DR",
    model_depth=2,
    run_id="s",
    task="gsm8k",
    stderr=0.1,
    chance=0,
    items=9,
)


def test_other_depths_show_the_mean_of_the_seeds_and_each_seed() -> None:
    rows = pd.concat([OTHER_DEPTHS, OTHER_DEPTHS.assign(run_id="t", accuracy=[0.3, 0.6, 0.3])])
    drawn = accuracy_at_other_depths(rows, DRAWN)
    assert drawn.panels[0].description.endswith("at best: DR 50.0% at depth 2.")
    (seeds,) = (part for part in data(drawn.panels[0].specification) if "run_id" in part[0])
    assert {row["run_id"] for row in seeds} == {"s", "t"}
    (row,) = other_depths(rows, DRAWN).rows
    assert [cell.text for cell in row.cells[2:]] == ["20.0% ± 14.1", "50.0% ± 14.1", "30.0% ± 10.0"]


def test_accuracy_at_other_depths_marks_the_trained_one() -> None:
    drawn = accuracy_at_other_depths(OTHER_DEPTHS, DRAWN)
    rings = next(
        rows
        for rows in data(drawn.panels[0].specification)
        if {*rows[0]} == {"variant", "depth", "accuracy"}
    )
    assert [row["depth"] for row in rings] == ["2"]
    assert drawn.panels[0].description.endswith("at best: DR 40.0% at depth 2.")
    cells = [cell.text for cell in other_depths(OTHER_DEPTHS, DRAWN).rows[0].cells]
    assert cells == ["DR", "GSM8K", "10.0%", "40.0%", "30.0%"]
    assert accuracy_at_other_depths(OTHER_DEPTHS.iloc[:0], DRAWN) is None


def test_the_search_for_learning_rates_is_a_line_over_means_with_a_ring_at_what_was_chosen() -> (
    None
):
    rows = pd.DataFrame(
        {
            "learning_rate": [1e-3, 2e-3, 4e-3],
            "loss": [3.0, 2.0, None],
            "chosen": [False, True, False],
        }
    )
    rows = rows.assign(depth=4, variant="LA")
    drawn = rates(pd.concat([rows, rows.assign(loss=[3.2, 2.2, 1.0])]), DRAWN)
    line, ring = data(drawn.panels[0].specification)
    assert [(row["learning_rate"], row["value"]) for row in line] == [
        ("0.001", "3.1"),
        ("0.002", "2.1"),
    ], "none failed"
    assert [row["learning_rate"] for row in ring] == ["0.002"]
    assert drawn.finding == "Depth 4, chosen: LA 0.002 (the highest tried)."
    assert "loss (bits per byte)" in json.dumps(drawn.panels[0].specification)
    assert rates(rows[:0], DRAWN) is None


def test_a_long_name_of_the_baseline_leaves_the_strip_its_room() -> None:
    long = "recurrent-transformer-with-depth-attention-learning-rate-3e-4"
    frames = (ratios(), CURVES, NO_LOSSES, at_scores(np.full(101, 1.7)), RUNS, NO_LOSSES)
    renamed = [frame.replace("LA", long) for frame in frames]
    drawn = answer(*renamed, styles([long, "DR"]))
    rows = [row for part in data(drawn.panels[1].specification) for row in part]
    words = [row[column] for row in rows for column in ("words", "label") if column in row]
    assert "Tokens over the baseline’s" in words
    assert any(text.endswith("x the baseline’s") for text in words)
    assert max(map(len, words)) < 45
