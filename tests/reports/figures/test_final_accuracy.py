"""The accuracy of each model at its end, in bars with intervals."""

from __future__ import annotations

import pandas as pd
import pytest

from dreamer_study.reports.figures.final_accuracy import final_accuracy
from dreamer_study.reports.figures.rendering import Figure
from dreamer_study.reports.style.theme import styles
from tests.reports.figures.frames import DRAWN, curve, data

TASKS = ["average", *(f"task_{number}" for number in range(9))]


def runs_of(rows: pd.DataFrame, seeds: int) -> pd.DataFrame:
    """Runs whose accuracies lie around the mean, at slightly other tokens."""
    parts = []
    for seed in range(seeds):
        away = 0.01 * (seed - (seeds - 1) / 2)
        own = rows["variant"] + f"-s{seed}"
        parts.append(
            rows.assign(
                run_id=own, tokens=rows["tokens"] + 10 * seed, accuracy=rows["accuracy"] + away
            )
        )
    return pd.concat(parts, ignore_index=True)


def drawn(rows: pd.DataFrame, seeds: int = 4) -> Figure:
    runs = runs_of(rows, seeds)
    made = final_accuracy(rows, runs, runs[["run_id"]], DRAWN)
    assert made is not None
    return made


def rows_of(figure: Figure, panel: int = 0) -> list[list[dict[str, str]]]:
    return [part for part in data(figure.panels[panel].specification) if len(part) > 0]


def layers(figure: Figure) -> list[str]:
    marks = [layer["mark"] for layer in figure.panels[0].specification["layer"]]
    return [mark["type"] for mark in marks]


def test_a_bar_is_the_last_point_of_a_curve_with_the_interval_of_its_mean() -> None:
    figure = drawn(curve(seeds=4, seed_error=0.01, stderr=0.02))
    (bars,) = rows_of(figure)
    ends = {(row["task"], row["variant"]): float(row["accuracy"]) for row in bars}
    assert ends == {
        ("gsm8k", "LA"): 0.4,
        ("gsm8k", "DR"): 0.5,
        ("average", "LA"): 0.4,
        ("average", "DR"): 0.5,
    }
    # Student's 3.182 of 3 degrees of freedom for the seeds, 1.96 for the items
    half = ((3.18245 * 0.01) ** 2 + (1.96 * 0.02) ** 2) ** 0.5
    low, high = (float(bars[0][end]) for end in ("low", "high"))
    assert (low, high) == pytest.approx((0.4 - half, 0.4 + half), rel=1e-5)
    assert layers(figure) == ["bar", "rule", "rule", "point"]
    assert figure.finding == "Average: LA 40.0% and DR 50.0%, each at 16M tokens."
    assert "Whiskers are 95 % intervals of the mean, over seeds and items." in figure.caption


def test_few_seeds_are_thin_lines_at_the_end_of_the_curve() -> None:
    figure = drawn(curve(seeds=2), seeds=2)
    bars, seeds = sorted(rows_of(figure), key=lambda part: "run_id" in part[0])
    assert not any(row["low"] for row in bars)
    of_average = [row for row in seeds if (row["task"], row["variant"]) == ("average", "LA")]
    assert [float(row["accuracy"]) for row in of_average] == [0.395, 0.405]
    assert layers(figure) == ["bar", "rule", "tick", "point"]
    assert "hin lines" in figure.caption
    assert "95 %" not in figure.caption


def test_without_chance_nothing_says_chance() -> None:
    figure = drawn(curve(seeds=4, chance=float("nan")))
    (bars,) = rows_of(figure)
    assert "chance" not in bars[0]
    assert "chance" not in figure.caption
    assert layers(figure) == ["bar", "rule", "point"]


def test_ends_that_differ_are_said() -> None:
    rows = curve(seeds=4)
    assert "not alike" not in drawn(rows).caption
    short = rows[(rows["variant"] == "LA") | (rows["tokens"] < 16e6)]
    assert "The ends are not alike: from 1M to 16M tokens." in drawn(short).caption


def test_of_many_benchmarks_a_menu_shows_one() -> None:
    average = curve(seeds=4)[lambda rows: rows["task"] == "average"]
    many = pd.concat([average.assign(task=task) for task in TASKS])
    figure = drawn(many)
    assert len(figure.panels) == 2
    (menu,) = figure.panels[1].specification["params"]
    assert menu["bind"]["options"] == TASKS[1:]
    assert len(drawn(many[many["task"] != "task_8"]).panels) == 1


def test_bars_of_one_colour_differ_in_strength() -> None:
    names = ["LA", *(f"V{place:02d}" for place in range(11))]
    one = curve(seeds=4)[lambda rows: rows["variant"] == "LA"]
    rows = pd.concat([one.assign(variant=name) for name in names], ignore_index=True)
    runs = runs_of(rows, 4)
    figure = final_accuracy(rows, runs, runs[["run_id"]], styles(names))
    (bars,) = rows_of(figure)
    looks = {(styles(names)[row["variant"]].colour, row["strength"]) for row in bars}
    assert len(looks) == len(names)


def test_every_depth_has_its_panel() -> None:
    both = pd.concat([curve(seeds=4), curve(seeds=4).assign(depth=8)])
    assert [panel.keys["depth"] for panel in drawn(both).panels] == ["4", "8"]


def test_without_accuracies_there_is_no_figure() -> None:
    none = curve().iloc[:0]
    runs = runs_of(none, 1)
    assert final_accuracy(none, runs, runs[["run_id"]], DRAWN) is None
