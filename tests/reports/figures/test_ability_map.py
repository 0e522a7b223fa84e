"""A map has a point and a name for each variant, and no two names lie on each other."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from dreamer_study.reports.figures.ability_map import SIDE, ability_map, where_yours_stand
from dreamer_study.reports.figures.forest import forest
from dreamer_study.reports.figures.rendering import Figure, composed
from dreamer_study.reports.style.theme import LIGHT

TASKS = ("world_expressions", "world_recall")
NOTHING = dict.fromkeys(("ratio", "low", "high"), np.nan)


def row(variant: str, task: str, **values: float) -> dict[str, object]:
    names = {"depth": 4, "variant": variant, "baseline": "LA", "task": task, "metric": "accuracy"}
    scores = {"score_high": 0.9, "baseline_best": 0.9}
    usual = {"decay_bound": None, "near_chance": "ratio" not in values, **NOTHING, **scores}
    return {**names, **usual, **values}


def measured(variant: str, task: str, ratio: float) -> dict[str, object]:
    return row(variant, task, ratio=ratio, low=ratio / 1.5, high=ratio * 1.5)


def close_together(count: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        [
            measured(f"Architecture-{number}", task, float(np.exp(random.normal(0, 0.2))))
            for number in range(count)
            for task in TASKS
        ]
    )


def names(figure: Figure) -> pd.DataFrame:
    """The places of the names in pixels, and those of the points on the axes."""
    (panel,) = figure.panels
    layer = panel.specification["layer"][-1]
    scales = [layer["encoding"][side]["scale"]["domain"] for side in ("x", "y")]
    text = panel.specification["datasets"][layer["data"]["name"]]
    frame = pd.read_csv(io.StringIO(text))
    frame = frame.assign(place_x=frame["x"], place_y=frame["y"])
    for side, (low, high) in zip(("x", "y"), scales, strict=True):
        share = np.log(frame[f"name_{side}"] / low) / np.log(high / low)
        frame[side] = SIDE * share
    return frame


@pytest.mark.parametrize("count", [4, 26])
def test_names_do_not_lie_on_each_other(count: int) -> None:
    places = names(ability_map(close_together(count)))
    assert len(places) == count + 1, "the baseline too"
    for number, one in places.iterrows():
        for other in places.iloc[:number].itertuples():
            widths = 5.5 * (len(one["variant"]) + len(other.variant)) / 2
            assert abs(one["x"] - other.x) > widths or abs(one["y"] - other.y) > 10


def test_what_never_learned_lies_in_a_band_beyond_all_ratios() -> None:
    rows = [measured(f"V{number}", task, 1.2) for number in range(3) for task in TASKS]
    rows += [row("Bound", TASKS[0], low=1.1), measured("Bound", TASKS[1], 0.8)]
    rows += [row("Nothing", TASKS[0]), measured("Nothing", TASKS[1], 0.8)]
    figure = ability_map(pd.DataFrame(rows), ["V1"])
    assert figure.finding == (
        "Of 5 architectures beside LA, above chance: 3 on both, 2 on recall alone."
    )
    assert "grey bands" in figure.caption
    assert "triangle" not in figure.caption
    assert "never above chance" in json.dumps(composed(figure))
    (panel,) = figure.panels
    assert (
        "Bound: at least 1.10x on expressions, 0.80x (0.53 to 1.20) on recall" in panel.description
    )
    places = names(figure).set_index("variant")["place_x"]
    assert places[["Bound", "Nothing"]].min() > 1.2 * 1.5, "beyond the ends of all intervals"


def colours(figure: Figure) -> dict[str, str]:
    """The colour of each point."""
    specification = figure.panels[0].specification
    frames = [pd.read_csv(io.StringIO(text)) for text in specification["datasets"].values()]
    (points,) = [frame for frame in frames if "shape" in frame]
    return dict(zip(points["variant"], points["colour"], strict=True))


def test_what_is_marked_has_another_colour() -> None:
    found = colours(ability_map(close_together(5), ["Architecture-1"]))
    marked = [name for name, colour in found.items() if colour == LIGHT["v2"]]
    assert marked == ["Architecture-1"]


def test_the_map_of_a_study_marks_what_the_study_has_trained() -> None:
    rows = close_together(5)
    others = pd.DataFrame({"variant": ["LA", *(f"Architecture-{number}" for number in range(4))]})
    found = colours(where_yours_stand(rows, others))
    assert [name for name, colour in found.items() if colour == LIGHT["v2"]] == ["Architecture-4"]
    assert LIGHT["v2"] not in colours(where_yours_stand(rows, others[:0])).values(), (
        "all are its own"
    )


def test_intervals_in_a_band_have_places_of_their_own() -> None:
    rows = [measured(f"V{number}", task, 1.2) for number in range(3) for task in TASKS]
    for number in range(13):
        rows += [row(f"Never{number}", TASKS[0]), measured(f"Never{number}", TASKS[1], 0.8)]
    places = names(ability_map(pd.DataFrame(rows)))
    in_band = places[places["variant"].str.startswith("Never")]["place_x"]
    assert in_band.is_unique


def test_a_ratio_without_an_interval_is_hollow() -> None:
    rows = [measured(f"V{number}", task, 1.2) for number in range(3) for task in TASKS]
    figure = ability_map(pd.DataFrame([*rows, row("Alone", TASKS[0], ratio=0.5)]))
    assert "hollow" in figure.caption
    frames = [
        pd.read_csv(io.StringIO(text))
        for text in figure.panels[0].specification["datasets"].values()
    ]
    (points,) = [frame for frame in frames if "filled" in frame]
    assert list(points.loc[~points["filled"], "variant"]) == ["Alone"]
    with_intervals = ability_map(pd.DataFrame([*rows, measured("Alone", TASKS[0], 0.5)]))
    assert "hollow" not in with_intervals.caption


def test_no_name_lies_on_the_words_of_a_band() -> None:
    rows = [measured(f"V{number}", task, 1.2) for number in range(3) for task in TASKS]
    # far left in the band of the second task, where its words are
    rows += [row("At-the-left", TASKS[0], high=0.3), row("At-the-left", TASKS[1])]
    figure = ability_map(pd.DataFrame(rows))
    places = names(figure).set_index("variant")
    specification = figure.panels[0].specification
    low, high = specification["layer"][-1]["encoding"]["y"]["scale"]["domain"]
    frames = [pd.read_csv(io.StringIO(text)) for text in specification["datasets"].values()]
    (band,) = [frame for frame in frames if "words" in frame]
    edge = SIDE * np.log(band["y"][0] / low) / np.log(high / low)
    end_of_words = 5.5 * len("never above chance")
    name = places.loc["At-the-left"]
    left = name["x"] - 5.5 * len("At-the-left") / 2
    assert left > end_of_words or name["y"] - 6 > edge + 13


@pytest.mark.parametrize("ratio", [0.1, 9.0])
def test_a_ratio_without_an_interval_beyond_all_intervals_is_on_the_map(ratio: float) -> None:
    rows = [measured(f"V{number}", task, 1.2) for number in range(3) for task in TASKS]
    rows += [row("Far", task, ratio=ratio) for task in TASKS]
    figure = ability_map(pd.DataFrame(rows))
    place = names(figure).set_index("variant").loc["Far"]
    for channel in ("x", "y"):
        encoding = figure.panels[0].specification["layer"][-1]["encoding"][channel]
        low, high = encoding["scale"]["domain"]
        assert low < place[f"place_{channel}"] < high


@pytest.mark.parametrize(
    ("values", "mark"),
    [
        ({"high": 0.7}, "triangle-left"),  # the baseline never rose above chance
        ({"low": 1.5, "near_chance": False}, "triangle-right"),  # above chance, but not far enough
        ({"ratio": 0.9, "low": 0.8, "high": 1.1, "decay_bound": "at most"}, "triangle-left"),
        ({"ratio": 0.9, "low": 0.8, "high": 1.1, "decay_bound": "at least"}, "triangle-right"),
    ],
)
def test_other_bounds_are_triangles_in_their_place(values: dict[str, float], mark: str) -> None:
    rows = [measured(f"V{number}", task, 1.2) for number in range(3) for task in TASKS]
    rows += [row("Bound", TASKS[0], **values), measured("Bound", TASKS[1], 0.8)]
    figure = ability_map(pd.DataFrame(rows))
    text = json.dumps(composed(figure))
    assert mark in text
    assert "never above chance" not in text
    assert "A triangle is a bound" in figure.caption


def test_a_variant_whose_second_task_is_not_evaluated_yet_is_not_on_the_map() -> None:
    missing = [measured("New", TASKS[0], 1.2), row("New", TASKS[1], near_chance=False)]
    rows = pd.concat([close_together(6), pd.DataFrame(missing)], ignore_index=True)
    figure = ability_map(rows)
    assert "New" not in set(names(figure)["variant"])
    assert figure.finding == "Of 6 architectures beside LA, above chance: 6 on both."


def test_a_depth_whose_second_task_is_not_evaluated_yet_has_no_panel() -> None:
    begun = close_together(6).assign(depth=8)
    begun.loc[begun["task"] == TASKS[1], ["ratio", "low", "high"]] = np.nan
    assert ability_map(begun) is None
    figure = ability_map(pd.concat([close_together(6), begun], ignore_index=True))
    assert len(figure.panels) == 1
    assert figure.finding.startswith("Of 6 architectures")


def test_fewer_variants_or_another_number_of_tasks_have_no_map() -> None:
    assert ability_map(close_together(3)) is None
    one_task = close_together(6)
    assert ability_map(one_task[one_task["task"] == TASKS[0]]) is None


def test_a_forest_has_the_lowest_ratio_first_and_lower_bounds_last() -> None:
    rows = pd.DataFrame([measured(name, TASKS[0], at) for name, at in (("B", 2.0), ("A", 0.5))])
    rows.loc[2] = row("Bound", TASKS[0], low=1.5)
    figure = forest(rows, TASKS[0], "accuracy")
    (panel,) = figure.panels
    assert panel.description.startswith("Ratios: A 0.50x (0.33 to 0.75); B 2.00x")
    assert panel.description.endswith("Bound at least 1.50x.")
    assert forest(rows, TASKS[1], "accuracy") is None


def test_a_ratio_without_an_interval_has_no_line_in_a_forest() -> None:
    rows = pd.DataFrame([measured("Measured", TASKS[0], 2.0), row("Alone", TASKS[0], ratio=0.5)])
    rows.loc[2] = row("Bound", TASKS[0], low=1.5)
    figure = forest(rows, TASKS[0], "accuracy")
    frames = [
        pd.read_csv(io.StringIO(text))
        for text in figure.panels[0].specification["datasets"].values()
    ]
    (lines,) = [frame for frame in frames if "least" in frame]
    lengths = (lines["most"] / lines["least"]).set_axis(lines["variant"])
    assert lengths["Alone"] == 1
    assert min(lengths["Measured"], lengths["Bound"]) > 1
    assert "Hollow without a line" in figure.caption


def test_a_forest_without_any_interval_is_drawn() -> None:
    rows = pd.DataFrame([row("Alone", TASKS[0], ratio=0.5), row("Bound", TASKS[0], low=2.5)])
    figure = forest(rows, TASKS[0], "accuracy")
    low, high = figure.panels[0].specification["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 0.5 < 2.5 < high
    assert json.loads(json.dumps(composed(figure), allow_nan=False))


def test_a_ratio_at_scores_below_the_best_of_the_baseline_is_grey() -> None:
    rows = pd.DataFrame([measured("At-best", TASKS[0], 2.0), measured("Below", TASKS[0], 0.5)])
    rows.loc[rows["variant"] == "Below", "score_high"] = 0.6
    figure = forest(rows, TASKS[0], "accuracy")
    frames = [
        pd.read_csv(io.StringIO(text))
        for text in figure.panels[0].specification["datasets"].values()
    ]
    (points,) = [frame for frame in frames if "colour" in frame]
    colours = points.set_index("variant")["colour"]
    assert colours["Below"] == LIGHT["muted"] != colours["At-best"]
    assert "Grey" in figure.caption


@pytest.mark.slow
def test_panels_name_their_depth_where_there_are_several() -> None:
    one_depth = close_together(6)
    two_depths = pd.concat([one_depth, one_depth.assign(depth=8)], ignore_index=True)
    assert titles(ability_map(one_depth)) == titles(forest(one_depth, TASKS[0], "accuracy")) == [""]
    both = ["Depth 4", "Depth 8"]
    assert titles(ability_map(two_depths)) == both
    assert titles(forest(two_depths, TASKS[0], "accuracy")) == both


@pytest.mark.slow
def test_each_depth_has_its_finding() -> None:
    never = [row("Slow", task) for task in TASKS]
    shallow = pd.concat([close_together(6), pd.DataFrame(never)], ignore_index=True)
    deep = close_together(5).assign(depth=8)
    figure = ability_map(pd.concat([shallow, deep], ignore_index=True))
    assert figure.finding == (
        "Depth 4: Of 7 architectures beside LA, above chance: 6 on both, 1 on neither. Depth 8: Of 5"
        " architectures beside LA, above chance: 5 on both."
    )
    assert "grey bands" in figure.caption


def titles(figure: Figure) -> list[str]:
    return [panel.title for panel in figure.panels]
