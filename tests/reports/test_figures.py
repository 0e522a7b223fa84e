"""Figures: what is drawn where, with the rules that keep it readable at the edges."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
import vl_convert
from hypothesis import given, settings
from hypothesis import strategies as st

from reports import depths, figures, funnel, insides
from reports.drawing import composed, page_drawing, page_specification, records, script_json, token_axis
from reports.theme import COLOURS, MARKERS, SHAPES, styles

DRAWN = styles(["LA", "DR"])


def curve(**columns: Any) -> pd.DataFrame:
    """Rows of `accuracy_curve` on two tasks."""
    rows = pd.DataFrame(
        {"variant": ["LA", "LA", "DR", "DR"], "tokens": [1e6, 16e6] * 2, "accuracy": [0.2, 0.4, 0.3, 0.5]}
    )
    rows = rows.assign(depth=4, stderr=0.02, chance=0.1, items=100, seeds=1).assign(**columns)
    return pd.concat([rows.assign(task=task) for task in ("gsm8k", "average")])


NO_FITS = curve().iloc[:0]
RUNS = curve().assign(run_id="r", status="complete")
FACTORS = pd.DataFrame(
    {
        "depth": 4,
        "variant": ["LA", "DR"] * 2,
        "task": ["gsm8k"] * 2 + ["average"] * 2,
        "baseline_accuracy": 0.4,
        "variant_tokens": [16e6] * 4,
        "factor": [1.0, 1.0, 1.0, 2.0],
        "bound": ["exact", "at most", "exact", "at least"],
        "near_chance": [False, True, False, False],
        "low": [1.0, 0.0, 1.0, 1.5],
        "high": [1.0, 1.2, 1.0, math.inf],
    }
)


def data(specification: dict) -> list[list[dict[str, str]]]:
    """The data of a specification as rows of text."""
    texts = [value for value in specification["datasets"].values() if isinstance(value, str)]
    return [list(csv.DictReader(io.StringIO(text))) for text in texts]


def test_the_average_is_the_first_panel() -> None:
    drawn = figures.accuracy(curve(), RUNS, FACTORS, NO_FITS, DRAWN, depth=4)
    assert drawn is not None
    assert [one.title for one in drawn.panels] == ["Average", "GSM8K"]
    assert "DR at best 50.0%, at 16M tokens" in drawn.panels[0].description
    assert figures.accuracy(curve(), RUNS, FACTORS, NO_FITS, DRAWN, depth=8) is None


def test_bands_are_two_standard_errors_within_what_is_possible() -> None:
    drawn = figures.accuracy(curve(stderr=[0.2, 0.05, 0.02, 0.4]), RUNS, FACTORS, NO_FITS, DRAWN, depth=4)
    assert drawn is not None
    rows = next(rows for rows in data(drawn.panels[0].specification) if "low" in rows[0])
    assert [float(row["low"]) for row in rows] == pytest.approx([0, 0.302, 0.2608, 0])
    assert [float(row["high"]) for row in rows] == pytest.approx([0.592, 0.498, 0.3392, 1])


def test_seeds_are_drawn_only_when_there_are_several() -> None:
    alone, several = (figures.accuracy(curve(seeds=n), RUNS, FACTORS, NO_FITS, DRAWN, depth=4) for n in (1, 3))
    assert alone is not None
    assert several is not None
    assert "seeds" not in alone.caption
    assert "Faint lines are the seeds" in several.caption


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


@given(st.floats(1, 1e12), st.floats(8, 1e9))
def test_logarithmic_ticks_are_few_and_round(low: float, ratio: float) -> None:
    high = low * ratio
    ticks = token_axis(pd.Series([low, high])).to_dict(validate=False)["axis"]["values"]
    assert 1 <= len(ticks) <= 7
    assert all(low <= tick <= high for tick in ticks)


def test_factors_keep_open_intervals_on_the_axis() -> None:
    drawn = figures.factors(FACTORS, DRAWN)
    assert drawn is not None
    rows = next(rows for rows in data(drawn.panels[0].specification) if "start" in rows[0])
    assert [row["variant"] for row in rows] == ["DR", "DR"]
    assert [row["label"] for row in rows] == ["≤ 1.0×", "≥ 2.0×"]
    assert 0 < float(rows[0]["start"]) < 1
    assert 2 < float(rows[1]["stop"]) < 100
    assert {style.shape for style in drawn.marks} == {"circle"}


def test_factors_that_are_missing_or_all_the_baseline_give_no_figure() -> None:
    assert figures.factors(FACTORS[FACTORS["variant"] == "LA"], DRAWN) is None
    assert figures.factors(FACTORS.assign(factor=float("nan")), DRAWN) is None


def test_loss_curves_are_thinned_to_means() -> None:
    steps = pd.DataFrame({"step": range(1, 5001)})
    steps = steps.assign(tokens=steps["step"] * 1000, loss=3.0, depth=4, variant="LA", run_id="r", status="complete")
    drawn = figures.loss(steps, DRAWN)
    assert drawn is not None
    (rows,) = data(drawn.panels[0].specification)
    assert 50 < len(rows) <= figures.LOSS_POINTS
    assert {row["loss"] for row in rows} == {"3"}
    assert figures.loss(steps.assign(loss=float("nan")), DRAWN) is None


def test_a_fitted_curve_is_drawn_where_there_is_one() -> None:
    fitted = pd.DataFrame({"depth": 4, "variant": "DR", "task": "gsm8k", "tokens": [1e6, 16e6], "accuracy": 0.3})
    drawn = figures.accuracy(curve(), RUNS, FACTORS, fitted, DRAWN, depth=4)
    assert drawn is not None
    average, gsm8k = (data(one.specification) for one in drawn.panels)
    line = [{"variant": "DR", "tokens": tokens, "accuracy": "0.3"} for tokens in ("1e+06", "1.6e+07")]
    assert line in gsm8k
    assert line not in average
    assert "Smooth lines are the fitted curves." in drawn.caption


def test_documents_seen_before_are_said_with_the_curves() -> None:
    said = [
        figures.accuracy(curve(), RUNS, FACTORS, NO_FITS, DRAWN, 4, seen_twice_from=beyond).caption  # type: ignore[union-attr]
        for beyond in (None, 2e6, 17e6)
    ]
    assert ["From 2M tokens on the models had seen documents before." in words for words in said] == [
        False,
        True,
        False,
    ]


MODEL_RUNS = pd.DataFrame(
    {"run_id": ["r", "s", "t"], "variant": "DR", "depth": 2, "seed": [0, 1, 2]}
    | {"status": ["screened", "complete", "complete"]}
)
SCORES = pd.DataFrame({"query_depth": [1, 2, 2], "key_depth": [1, 1, 2], "score": [1.0, 0.3, 0.7]})
SCORES = SCORES.assign(variant="DR", depth=2, run_id="s", tokens=5)


def test_every_row_of_a_depth_attention_map_is_scaled_by_its_strongest() -> None:
    drawn = insides.attention(SCORES, MODEL_RUNS, DRAWN)
    assert drawn is not None
    (rows,) = data(drawn.panels[0].specification)
    assert [float(row["strength"]) for row in rows] == pytest.approx([1, 3 / 7, 1], rel=1e-4)
    drawing = page_drawing(drawn.panels[0], 1)
    assert all(f">{label}</text>" in drawing for label in ("100", "30", "70"))
    assert "1 to 1 (100%) and 2 to 2 (70%)" in drawn.panels[0].description


def test_one_run_of_several_stands_for_its_model() -> None:
    every = pd.concat([SCORES.assign(run_id=run) for run in ("r", "s", "t")])
    ((title, rows),) = insides.drawn_runs(every, MODEL_RUNS, DRAWN)
    assert title == "DR, depth 2"
    assert set(rows["run_id"]) == {"s"}
    assert insides.drawn_runs(every, MODEL_RUNS.assign(variant="unknown"), DRAWN) == []


def test_experts_are_ordered_from_those_of_few_depths_to_those_of_many() -> None:
    counts = {(1, 0): 50, (2, 0): 50, (1, 1): 0, (2, 1): 100, (1, 2): 100, (2, 2): 0, (1, 3): 0, (2, 3): 0}
    rows = [{"depth": d, "expert": e, "selections": n} for (d, e), n in counts.items()]
    frame = pd.DataFrame(rows).assign(variant="DR", model_depth=2, run_id="s", tokens=5)
    drawn = insides.selections(frame, MODEL_RUNS, DRAWN)
    assert drawn is not None
    (cells,) = data(drawn.panels[0].specification)
    places = [(row["depth"], round(3 * float(row["start"])), float(row["share"])) for row in cells]
    assert places == [("1", 0, 1), ("2", 1, 1), ("1", 2, 0.5), ("2", 2, 0.5)]  # an expert never selected has no column
    assert "each of 3 experts" in drawn.panels[0].description
    assert insides.selections(frame.assign(variant="LA"), MODEL_RUNS.assign(variant="LA"), DRAWN) is None


def test_a_map_of_many_experts_has_a_bounded_number_of_cells() -> None:
    rows = [{"depth": d, "expert": e, "selections": 1 + (d * e) % 5} for d in range(1, 33) for e in range(1000)]
    frame = pd.DataFrame(rows).assign(variant="DR", model_depth=32, run_id="s", tokens=5)
    drawn = insides.selections(frame, MODEL_RUNS.assign(depth=32), DRAWN)
    assert drawn is not None
    (cells,) = data(drawn.panels[0].specification)
    assert 700 < len(cells) <= insides.CELLS
    assert len(page_drawing(drawn.panels[0], 1)) < 80_000


def test_balance_shows_the_whole_model_over_training_and_each_depth_against_the_baseline() -> None:
    gini = pd.DataFrame({"depth": [None, None, 1], "tokens": [1e6, 2e6, 2e6], "gini": [0.2, 0.1, 0.5]})
    gini = gini.assign(variant="DR", model_depth=2, run_id="s")
    ratios = pd.DataFrame({"variant": ["LA", "DR", "DR"], "depth": [1, 1, 2], "ratio": [1, 2.5, 11]})
    ratios = ratios.assign(model_depth=2, experts_for_90=5.0, baseline_experts_for_90=2.0)
    drawn = insides.balance(gini, ratios, DRAWN)
    assert drawn is not None
    assert [one.title for one in drawn.panels] == ["Depth 2: Gini coefficient", "Depth 2: experts used, against LA"]
    assert "at the end DR 0.100" in drawn.panels[0].description
    assert "experts used, against LA’s: DR 2.5 to 11 times" in drawn.panels[1].description
    assert insides.balance(gini.iloc[2:], ratios.iloc[:1], DRAWN) is None


OTHER_DEPTHS = pd.DataFrame({"depth": [1, 2, 3], "accuracy": [0.1, 0.4, 0.3]})
OTHER_DEPTHS = OTHER_DEPTHS.assign(variant="DR", model_depth=2, run_id="s", task="gsm8k", stderr=0.1, chance=0, items=9)


def test_accuracy_at_other_depths_marks_the_trained_one() -> None:
    drawn = depths.figure(OTHER_DEPTHS, DRAWN)
    assert drawn is not None
    rings = next(rows for rows in data(drawn.panels[0].specification) if {*rows[0]} == {"variant", "depth", "accuracy"})
    assert [row["depth"] for row in rings] == ["2"]
    assert drawn.panels[0].description.endswith("DR at best 40.0%, at depth 2.")
    cells = [cell.text for cell in depths.table(OTHER_DEPTHS, DRAWN).rows[0].cells]
    assert cells == ["DR", "GSM8K", "10.0% ± 10.0", "40.0% ± 10.0", "30.0% ± 10.0"]
    assert depths.figure(OTHER_DEPTHS[OTHER_DEPTHS["depth"] == 2], DRAWN) is None


FUNNEL = pd.DataFrame(
    {"stage": ["clean", "tokens"], "documents": [10, 6], "kept": [6, 6], "share_kept": [0.6, 1.0]}
    | {"characters_kept": [600, 600], "tokens_kept": [None, 150]}
).astype({"tokens_kept": float})
CURATION = pd.DataFrame(
    {"source": ["a", "b", "a"], "stage": "clean", "reason": ["too_short", "too_short", "kept"]}
    | {"documents": [1, 3, 6], "characters": [10, 30, 600], "tokens": [None, None, None]}
).astype({"tokens": float})


def test_the_funnel_is_told_in_documents_and_in_text() -> None:
    drawn = funnel.stages(FUNNEL, CURATION)
    assert drawn is not None
    assert [one.title for one in drawn.panels] == ["Documents by stage", "Characters by stage"]
    assert "Clean kept 600 and dropped 40" in drawn.panels[1].description
    counted = FUNNEL.assign(tokens_kept=[200.0, 150.0])
    assert funnel.stages(counted, CURATION).panels[1].title == "Tokens by stage"  # type: ignore[union-attr]
    rows = [[cell.text for cell in row.cells] for row in funnel.table(FUNNEL, CURATION).rows]
    assert rows == [
        ["Clean", "6", "60.0%", "600", "–"],
        ["− too short", "4", "40.0%", "40", "–"],
        ["Tokenise and pack", "6", "100.0%", "600", "150"],
    ]
    assert funnel.reasons(FUNNEL, CURATION.iloc[2:]) is None


def test_drawings_are_shortened_in_their_tags_only() -> None:
    frame = pd.DataFrame({"query_depth": [1], "key_depth": [1], "score": [1.0]})
    frame = frame.assign(variant="0.12345", depth=1, run_id="s", tokens=5)
    drawn = insides.attention(frame, MODEL_RUNS.assign(variant="0.12345", depth=1), styles(["0.12345"]))
    assert drawn is not None
    titled = replace(drawn.panels[0], specification={**drawn.panels[0].specification, "title": "0.12345"})
    drawing = page_drawing(titled, 1)
    assert ">0.12345<" in drawing
    assert not re.search(r'="[^"]*\d\.\d{3}[^"]*"', drawing)
    assert "font-family" not in drawing


def test_the_same_panels_make_one_chart_for_papers() -> None:
    drawn = figures.accuracy(curve(), RUNS, FACTORS, NO_FITS, DRAWN, depth=4)
    assert drawn is not None
    drawing = vl_convert.vegalite_to_svg(composed(drawn))
    for words in ("Average", "GSM8K", ">LA<", ">DR<", "LA’s best", "chance"):
        assert words in drawing


def test_bounds_keep_their_shapes_beside_the_legend() -> None:
    drawn = figures.factors(FACTORS, DRAWN)
    assert drawn is not None
    resolved = composed(drawn)
    assert resolved["resolve"]["scale"]["shape"] == resolved["vconcat"][1]["resolve"]["scale"]["shape"] == "independent"


def test_drawings_of_one_page_do_not_share_ids() -> None:
    chart = figures.accuracy(curve(), RUNS, FACTORS, NO_FITS, DRAWN, depth=4)
    assert chart is not None
    first, second = (page_drawing(chart.panels[0], number) for number in (1, 2))
    assert first.count('id="') == second.count('id="')
    assert 'id="figure-2' not in first


@settings(max_examples=30)
@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=True))))
def test_data_survive_on_their_way_into_a_chart(rows: list[tuple[str, float]]) -> None:
    frame = pd.DataFrame(rows, columns=["variant", "value"]).astype({"variant": object})
    given_data = records(frame, ["variant", "value"]).to_dict()
    read = list(csv.reader(io.StringIO(given_data["values"], newline="")))
    assert read[0] == ["variant", "value"]
    for (name, value), (text, number) in zip(rows, read[1:], strict=True):
        assert text == name
        assert (number == "") == (not math.isfinite(value))
        assert number == "" or math.isclose(float(number), value, rel_tol=1e-5)


@given(st.text())
def test_json_in_a_script_element_cannot_end_it(text: str) -> None:
    safe = script_json(json.dumps({"name": text}))
    assert not set("<>&\u2028\u2029") & set(safe)
    assert json.loads(safe) == {"name": text}


def test_names_are_never_read_as_expressions() -> None:
    names = ["LA", "datum['x'] + 1", 'a.b[0]"']
    frame = curve().assign(variant=[*names, names[2]] * 2)
    drawn = figures.accuracy(frame, RUNS, FACTORS, NO_FITS, styles(names), depth=4)
    assert drawn is not None
    assert "datum['x']" in page_specification(drawn.panels[0])
    assert "<svg" in page_drawing(drawn.panels[0], 1)


@given(st.sets(st.text(min_size=1), max_size=20))
def test_variants_look_different(names: set[str]) -> None:
    drawn = styles(names | {"LA", "DR", "DR+DA"})
    assert [drawn[name].colour for name in ("LA", "DR", "DR+DA")] == ["v0", "v1", "v2"]
    looks = {(style.colour, style.shape, style.dash) for style in drawn.values()}
    assert len(looks) == len(drawn)
    assert sum(style.colour == "v0" for style in drawn.values()) == 1
    assert {style.shape for style in drawn.values()} <= set(SHAPES) == set(MARKERS)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_contrast_is_enough_to_read(mode: int) -> None:
    paper = luminance(COLOURS["paper"][mode])
    for name, colours in COLOURS.items():
        one = luminance(colours[mode])
        contrast = (max(one, paper) + 0.05) / (min(one, paper) + 0.05)
        if name in ("ink", "muted", "warn"):
            assert contrast >= 4.5  # WCAG 1.4.3, text
        elif name.startswith("v"):
            assert contrast >= 3  # WCAG 1.4.11, graphics
    lights = [light for light, _ in COLOURS.values()]
    assert len(set(lights)) == len(lights)
