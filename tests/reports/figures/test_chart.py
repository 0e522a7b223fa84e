"""Charts: axes, ticks, lines; the same for the page and for papers."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
from typing import Any

import altair as alt
import pandas as pd
import pytest
import vl_convert
from hypothesis import given, settings
from hypothesis import strategies as st

from dreamer_study.reports.figures.accuracy import accuracy
from dreamer_study.reports.figures.chart import (
    name_axis,
    records,
    seed_lines,
    token_axis,
    y_axis,
)
from dreamer_study.reports.figures.rendering import (
    complete,
    composed,
    page_drawing,
    page_specifications,
    panel,
)
from dreamer_study.reports.style.theme import styles
from dreamer_study.reports.text.names import LONGEST, shortest
from tests.reports.figures.frames import COUNTED, DRAWN, FACTORS, NO_RAW, RUNS, curve

NO_COSTS = pd.DataFrame(columns=["depth", "variant", "flops", "seconds"])


@pytest.mark.parametrize(
    ("values", "kind", "domain"),
    [
        ([1e6, 16e6], "log", [1e6, 16e6]),
        ([1e6, 4e6], None, [0, 4e6]),
        ([5e6], "log", [2.5e6, 1e7]),
        ([0, 1e6, 4e6], "symlog", [0, 4e6]),
        ([0], None, [0, 1]),
    ],
)
def test_the_token_axis(values: list[float], kind: str | None, domain: list[float]) -> None:
    scale = token_axis(pd.Series(values)).to_dict(validate=False)["scale"]
    assert scale.get("type") == kind
    assert scale["domain"] == domain


@pytest.mark.slow
@given(st.floats(1, 1e12), st.floats(8, 1e9))
def test_logarithmic_ticks_are_few_and_round(low: float, ratio: float) -> None:
    high = low * ratio
    ticks = token_axis(pd.Series([low, high])).to_dict(validate=False)["axis"]["values"]
    assert 1 <= len(ticks) <= 7
    assert all(low <= tick <= high for tick in ticks)


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=True))
    )
)
def test_data_survive_on_their_way_into_a_chart(rows: list[tuple[str, float]]) -> None:
    frame = pd.DataFrame(rows, columns=["variant", "value"]).astype({"variant": object})
    given_data = records(frame, ["variant", "value"]).to_dict()
    read = list(csv.reader(io.StringIO(given_data["values"], newline="")))
    assert read[0] == ["variant", "value"]
    for (name, value), (text, number) in zip(rows, read[1:], strict=True):
        assert text == name
        assert (number == "") == (not math.isfinite(value))
        assert number == "" or math.isclose(float(number), value, rel_tol=1e-5)


def test_the_lines_of_many_seeds_are_fainter_than_those_of_few() -> None:
    def opacity(runs: int) -> float:
        names = [str(run) for run in range(runs)]
        rows = pd.DataFrame({"variant": "LA", "run_id": names, "tokens": 1e6, "accuracy": 0.5})
        drawn = seed_lines(rows, token_axis(rows["tokens"]), y_axis("accuracy"), DRAWN)
        return drawn.to_dict(validate=False)["mark"]["strokeOpacity"]

    assert opacity(30) < opacity(3)


@pytest.mark.slow
def test_the_same_panels_make_one_chart_for_papers() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    drawing = vl_convert.vegalite_to_svg(composed(drawn))
    for words in ("Average", "GSM8K", ">LA<", ">DR<", "LA’s best", "chance"):
        assert words in drawing


@pytest.mark.slow
def test_every_panel_of_a_chart_for_papers_draws_its_own_seeds() -> None:
    worse = RUNS.assign(
        accuracy=RUNS["accuracy"] * RUNS["task"].map({"gsm8k": 0.5, "average": 0.9})
    )
    drawn = accuracy(curve(seeds=2), worse, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    lines = [_lines(complete(panel.specification, "")) for panel in drawn.panels]
    assert lines[0] != lines[1]
    assert lines[0] | lines[1] <= _lines(composed(drawn))


def _lines(specification: dict[str, Any]) -> set[str]:
    return set(re.findall(r' d="(M[^"ZA]*L[^"ZA]*)"', vl_convert.vegalite_to_svg(specification)))


@pytest.mark.slow
def test_drawings_of_one_page_do_not_share_ids() -> None:
    chart = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    first, second = (page_drawing(chart.panels[0], number) for number in (1, 2))
    assert first.count('id="') == second.count('id="')
    assert 'id="figure-2' not in first


@pytest.mark.slow
def test_names_are_never_read_as_expressions() -> None:
    names = ["LA", "datum['x'] + 1", 'a.b[0]"']
    frame = curve().assign(variant=[*names, names[2]] * 2)
    drawn = accuracy(frame, RUNS, FACTORS, NO_RAW, COUNTED, styles(names), depth=4)
    assert "datum['x']" in json.dumps(page_specifications([drawn], NO_COSTS, {}))
    assert "<svg" in page_drawing(drawn.panels[0], 1)


@pytest.mark.slow
def test_long_names_of_an_axis_are_texts_that_differ_and_no_expressions() -> None:
    names = [f"{'a' * 40}', datum['x'] + \"{end}\u2028{'b' * 40}" for end in "12"]
    rows = pd.DataFrame({"name": names, "value": 1})
    data = records(rows, ["name", "value"])
    axis = alt.X("name:N", axis=name_axis(rows["name"]))
    bars = alt.Chart(data, width=900).mark_bar().encode(x=axis, y="value:Q")
    drawing = page_drawing(panel("", "", bars), 1)
    shown = shortest(rows["name"], LONGEST)
    assert len(set(shown.values())) == 2
    labels = html.unescape(drawing)
    assert all(f">{text}</text>" in labels for text in shown.values())
    assert max(map(len, shown.values())) <= LONGEST


def test_a_panel_is_found_by_its_keys() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    keys = [{"depth": "4", "task": task, "metric": "accuracy"} for task in ("average", "gsm8k")]
    assert [panel.keys for panel in drawn.panels] == keys


def test_the_page_draws_from_what_papers_show() -> None:
    drawn = accuracy(curve(), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4)
    packed = page_specifications([drawn], NO_COSTS, {})
    (whole,) = packed["figures"].values()
    assert len(whole["vconcat"][1]["concat"]) == len(drawn.panels)
    (texts,) = packed["texts"].values()
    assert texts["title"] == "Depth 4"
    assert [panel["title"] for panel in texts["panels"]] == [panel.title for panel in drawn.panels]
    used = set(re.findall(r"#[0-9a-f]{6}", json.dumps(whole)))
    assert used <= set(packed["colours"])
