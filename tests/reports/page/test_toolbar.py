"""The toolbar offers what some figure can show in two ways."""

from __future__ import annotations

from reports.figures.accuracy import accuracy
from reports.page.toolbar import toolbar
from tests.reports.figures.frames import COUNTED, DRAWN, FACTORS, NO_RAW, RUNS, curve


def test_a_menu_needs_two_things_to_choose_from() -> None:
    figure = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    made = toolbar([figure], DRAWN)
    assert [style.variant for style in made.variants] == ["LA", "DR"]
    assert [menu.name for menu in made.menus] == ["task", "scale"]
    assert made.menus[0].options == (("", "all benchmarks"), ("average", "Average"), ("gsm8k", "GSM8K"))
    assert not made.seeds


def test_seeds_and_raw_weights_are_offered_where_they_are_drawn() -> None:
    raw = curve()[["depth", "variant", "task", "tokens", "accuracy"]]
    figure = accuracy(curve(seeds=2), RUNS, FACTORS, raw, COUNTED, DRAWN, depth=4)
    made = toolbar([figure], DRAWN)
    assert made.seeds
    assert "weights" in [menu.name for menu in made.menus]
