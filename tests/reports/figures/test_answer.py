"""The first figure: curves, arrows between them, and the strip of ratios."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dreamer_study.reports.figures.answer import answer
from dreamer_study.reports.figures.rendering import Figure
from dreamer_study.reports.style.theme import styles
from tests.reports.figures.frames import (
    RUNS,
    curve,
    data,
    ratios,
)

pytestmark = pytest.mark.slow

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
