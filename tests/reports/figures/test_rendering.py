"""Panels on the page and figures for papers."""

from __future__ import annotations

import json
import re
from typing import Any

import vl_convert

from reports.figures.accuracy import accuracy
from reports.figures.rendering import complete, composed, page_drawing, page_specifications
from reports.style.theme import styles
from tests.reports.figures.frames import COUNTED, DRAWN, FACTORS, NO_RAW, RUNS, curve


def test_the_same_panels_make_one_chart_for_papers() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    drawing = vl_convert.vegalite_to_svg(composed(drawn))
    for words in ("Average", "GSM8K", ">LA<", ">DR<", "LA’s best", "chance"):
        assert words in drawing


def test_every_panel_of_a_chart_for_papers_draws_its_own_seeds() -> None:
    worse = RUNS.assign(accuracy=RUNS["accuracy"] * RUNS["task"].map({"gsm8k": 0.5, "average": 0.9}))
    drawn = accuracy(curve(seeds=2), worse, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    lines = [_lines(complete(panel.specification, "")) for panel in drawn.panels]
    assert lines[0] != lines[1]
    assert lines[0] | lines[1] <= _lines(composed(drawn))


def _lines(specification: dict[str, Any]) -> set[str]:
    return set(re.findall(r' d="(M[^"ZA]*L[^"ZA]*)"', vl_convert.vegalite_to_svg(specification)))


def test_drawings_of_one_page_do_not_share_ids() -> None:
    chart = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    first, second = (page_drawing(chart.panels[0], number) for number in (1, 2))
    assert first.count('id="') == second.count('id="')
    assert 'id="figure-2' not in first


def test_names_are_never_read_as_expressions() -> None:
    names = ["LA", "datum['x'] + 1", 'a.b[0]"']
    frame = curve().assign(variant=[*names, names[2]] * 2)
    drawn = accuracy(frame, RUNS, FACTORS, NO_RAW, COUNTED, styles(names), depth=4)
    assert "datum['x']" in json.dumps(page_specifications([drawn]))
    assert "<svg" in page_drawing(drawn.panels[0], 1)


def test_a_panel_is_found_by_its_keys() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    keys = [{"depth": "4", "task": task, "metric": "accuracy"} for task in ("average", "gsm8k")]
    assert [panel.keys for panel in drawn.panels] == keys


def test_the_page_draws_from_what_papers_show() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    packed = page_specifications([drawn])
    (whole,) = packed["figures"].values()
    assert len(whole["vconcat"][1]["concat"]) == len(drawn.panels)
    assert whole["title"]["text"] == "Depth 4"
    used = set(re.findall(r"#[0-9a-f]{6}", json.dumps(whole)))
    assert used <= set(packed["colours"])
