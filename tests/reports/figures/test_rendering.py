"""Panels on the page and figures for papers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert

from reports.figures.accuracy import accuracy
from reports.figures.depth_attention import depth_attention
from reports.figures.rendering import complete, composed, export, page_drawing, page_specifications
from reports.style.theme import styles
from tests.reports.figures.frames import COUNTED, DRAWN, FACTORS, MODEL_RUNS, NO_RAW, RUNS, curve


def test_drawings_are_shortened_in_their_tags_only() -> None:
    frame = pd.DataFrame({"query_depth": [1], "key_depth": [1], "score": [1.0]})
    frame = frame.assign(variant="0.12345", depth=1, run_id="s", tokens=5)
    drawn = depth_attention(frame, MODEL_RUNS.assign(variant="0.12345", depth=1), styles(["0.12345"]))
    assert drawn is not None
    titled = replace(drawn.panels[0], specification={**drawn.panels[0].specification, "title": "0.12345"})
    drawing = page_drawing(titled, 1)
    assert ">0.12345<" in drawing
    assert not re.search(r'="[^"]*\d\.\d{3}[^"]*"', drawing)
    assert "font-family" not in drawing


def test_the_same_panels_make_one_chart_for_papers() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert drawn is not None
    drawing = vl_convert.vegalite_to_svg(composed(drawn))
    for words in ("Average", "GSM8K", ">LA<", ">DR<", "LA’s best", "chance"):
        assert words in drawing


def test_every_panel_of_a_chart_for_papers_draws_its_own_seeds() -> None:
    worse = RUNS.assign(accuracy=RUNS["accuracy"] * RUNS["task"].map({"gsm8k": 0.5, "average": 0.9}))
    drawn = accuracy(curve(seeds=2), worse, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert drawn is not None
    lines = [_lines(complete(panel.specification, "")) for panel in drawn.panels]
    assert lines[0] != lines[1]
    assert lines[0] | lines[1] <= _lines(composed(drawn))


def _lines(specification: dict[str, Any]) -> set[str]:
    return set(re.findall(r' d="(M[^"ZA]*L[^"ZA]*)"', vl_convert.vegalite_to_svg(specification)))


def test_drawings_of_one_page_do_not_share_ids() -> None:
    chart = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert chart is not None
    first, second = (page_drawing(chart.panels[0], number) for number in (1, 2))
    assert first.count('id="') == second.count('id="')
    assert 'id="figure-2' not in first


def test_names_are_never_read_as_expressions() -> None:
    names = ["LA", "datum['x'] + 1", 'a.b[0]"']
    frame = curve().assign(variant=[*names, names[2]] * 2)
    drawn = accuracy(frame, RUNS, FACTORS, NO_RAW, COUNTED, styles(names), depth=4)
    assert drawn is not None
    assert "datum['x']" in json.dumps(page_specifications([drawn]))
    assert "<svg" in page_drawing(drawn.panels[0], 1)


def test_a_panel_is_found_by_its_keys() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert drawn is not None
    keys = [{"depth": "4", "task": task, "metric": "accuracy"} for task in ("average", "gsm8k")]
    assert [panel.keys for panel in drawn.panels] == keys


def test_the_page_draws_from_what_papers_show() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert drawn is not None
    packed = page_specifications([drawn])
    (whole,) = packed["figures"].values()
    assert len(whole["vconcat"][1]["concat"]) == len(drawn.panels)
    assert whole["title"]["text"] == "Depth 4"
    used = set(re.findall(r"#[0-9a-f]{6}", json.dumps(whole)))
    assert used <= set(packed["colours"])


def test_a_figure_for_papers_is_drawn_again_only_when_its_specification_or_a_file_has_gone(tmp_path: Path) -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert drawn is not None
    svg, pdf, png = (tmp_path / f"{drawn.name}.{ending}" for ending in ("svg", "pdf", "png"))
    export(drawn, tmp_path)
    assert svg.read_text().startswith("<svg")
    png.write_bytes(b"old")
    export(drawn, tmp_path)
    assert png.read_bytes() == b"old"
    pdf.unlink()
    export(drawn, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    png.write_bytes(b"old")
    export(replace(drawn, title="Another"), tmp_path)
    assert png.read_bytes() != b"old"
    assert "Another" in svg.read_text()


def test_a_finding_is_told_with_the_figure() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    assert drawn is not None
    assert drawn.finding == "Average, at best: LA 40.0% and DR 50.0%, each at 16M tokens."
