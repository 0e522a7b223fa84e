"""Figures hold what their frames hold."""

from __future__ import annotations

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
from dreamer_study.reports.figures.efficiency import mean_factors
from dreamer_study.reports.figures.experts import experts_of_depths, order_of_experts, selections
from dreamer_study.reports.figures.rendering import Panel, page_drawing
from dreamer_study.reports.figures.targets import by_target
from dreamer_study.reports.figures.training import loss, rates
from dreamer_study.reports.style.theme import styles
from dreamer_study.reports.tables.results import other_depths
from dreamer_study.sql.results import connect
from tests.reports.figures.frames import COUNTED, DRAWN, FACTORS, NO_RAW, RUNS, SCORES, curve, data
from tests.reports.small_results import RIGHT, STUDY, whole_study

CURVES, NO_LOSSES = curve(), curve().iloc[:0].rename(columns={"accuracy": "value"})
CHOSEN = pd.DataFrame(
    {"variant": ["DR"], "depth": 4, "task": "average", "metric": "accuracy", "factor": [2.0]}
)
CHOSEN = CHOSEN.assign(within_noise=False, bounded=False, baseline="LA")
TARGETS = pd.DataFrame({"target": np.linspace(0.3, 0.4, 25), "factor": np.linspace(1.5, 2.6, 25)})
TARGETS = TARGETS.assign(
    variant="DR", depth=4, task="average", metric="accuracy", variant_tokens=2e6
)
TARGETS = TARGETS.assign(baseline_tokens=TARGETS["variant_tokens"] * TARGETS["factor"])


def arrows(chosen: pd.DataFrame, targets: pd.DataFrame, mean: bool = True) -> list[dict[str, str]]:
    """The arrows of the only panel: those of the means, or those of the values that the slider may
    be at."""
    drawn = answer(chosen, CURVES, NO_LOSSES, targets, STYLES)
    rows = [
        row for rows in data(drawn.panels[0].specification) if "label" in rows[0] for row in rows
    ]
    return [row for row in rows if (row["start"] == "") == mean and row["value"]]


def span(arrow: dict[str, str]) -> float:
    return float(arrow["tokens"]) / float(arrow["baseline_tokens"])


STYLES = styles(["LA", "DR", "DR+DA"])
# Factors by target as curves of a study have them: far from the mean nearly everywhere, and through
# the mean in a jump.
JUMP = np.repeat([0.75, 0.95], [10, 15])
COURSES = {
    "even": np.linspace(1.5, 2.6, 25),
    "a jump": JUMP,
    "two jumps": np.repeat([3, 1.2, 3], [5, 15, 5]),
    "flat": np.full(25, 1.7),
    "falling": np.linspace(0.9, 0.5, 25),
}


@pytest.mark.parametrize("course", COURSES)
def test_an_arrow_leads_from_the_baseline_as_far_as_its_label_says(course: str) -> None:
    factors = COURSES[course]
    mean = float(np.exp(np.log(factors).mean()))
    targets = TARGETS.assign(factor=factors, baseline_tokens=TARGETS["variant_tokens"] * factors)
    chosen = CHOSEN.assign(factor=mean, low=mean / 1.2, high=mean * 1.2)
    (arrow,) = arrows(chosen, targets)
    assert float(arrow["label"].split()[1]) == pytest.approx(1 / mean, rel=0.02)
    assert span(arrow) == pytest.approx(1 / mean, rel=0.03)
    assert 0.3 <= float(arrow["value"]) <= 0.4
    assert arrow["label"].endswith(f"({1 / mean / 1.2:.2f} to {1.2 / mean:.2f})"), (
        "its interval beside it"
    )


def test_a_mean_that_no_height_has_is_not_drawn() -> None:
    assert arrows(CHOSEN.assign(factor=3.0), TARGETS) == []


def test_wherever_the_slider_is_within_the_range_each_variant_has_one_arrow() -> None:
    drawn = answer(CHOSEN, CURVES, NO_LOSSES, TARGETS, STYLES)
    (slider,) = drawn.panels[0].specification["params"]
    found = arrows(CHOSEN, TARGETS, mean=False)
    for place in np.linspace(slider["bind"]["min"], slider["bind"]["max"], 101)[1:-1]:
        (arrow,) = [one for one in found if float(one["start"]) <= place < float(one["end"])]
        assert float(arrow["value"]) == pytest.approx(place, abs=0.0022)
        assert span(arrow) == pytest.approx(
            1 / np.interp(place, TARGETS["target"], TARGETS["factor"]), rel=0.05
        )


def test_two_arrows_of_nearly_one_height_are_drawn_apart_and_keep_their_spans() -> None:
    both = pd.concat([CHOSEN.assign(factor=0.85), CHOSEN.assign(variant="DR+DA", factor=0.8)])
    targets = TARGETS.assign(factor=JUMP, baseline_tokens=TARGETS["variant_tokens"] * JUMP)
    first, second = sorted(
        arrows(both, pd.concat([targets, targets.assign(variant="DR+DA")])), key=span
    )
    assert span(first) == pytest.approx(1 / 0.85, rel=0.03)
    assert span(second) == pytest.approx(1 / 0.8, rel=0.03)
    assert abs(float(first["value"]) - float(second["value"])) > 0.02


def test_a_curve_that_stops_has_a_line_to_what_it_never_reached_and_no_arrow() -> None:
    stops = CHOSEN.assign(bounded=True, factor=0.8, bound=0.8, bound_low=None, bound_high=None)
    stops = stops.assign(missed_low=0.5, missed_high=0.75)
    drawn = answer(stops, CURVES, NO_LOSSES, TARGETS, STYLES)
    lines = [
        row for rows in data(drawn.panels[0].specification) for row in rows if "missed_low" in row
    ]
    last = CURVES[CURVES["variant"] == "DR"]["tokens"].max()
    assert [(float(row["tokens"]), row["missed_low"], row["missed_high"]) for row in lines] == [
        (last, "0.5", "0.75")
    ]
    assert "LA reached 75.0%, DR 50.0%" in drawn.panels[0].description
    assert arrows(stops, TARGETS) == []


def test_no_headline_no_figure() -> None:
    assert answer(CHOSEN.iloc[:0], CURVES, NO_LOSSES, TARGETS, STYLES) is None


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


MEANS = pd.DataFrame(
    {
        "depth": 4,
        "variant": "DR",
        "task": ["average", "gsm8k", "average"],
        "metric": ["accuracy", "accuracy", "loss"],
    }
    | {
        "baseline": "LA",
        "factor": [1.24, 1.1, 1.3],
        "low": [1.1, np.nan, 0.9],
        "high": [1.4, np.nan, 1.8],
    }
    | {"within_noise": [False, True, False], "bounded": [False, True, False]}
)


def test_mean_factors_show_the_averages_first_and_both_measures() -> None:
    drawn = mean_factors(MEANS, DRAWN)
    assert drawn.finding == "Decided: 1 of 3 ratios, 1 with fewer tokens and 0 with more."
    undecided = MEANS.assign(low=1.1, within_noise=[True, False, True], bounded=[False, True, True])
    assert mean_factors(undecided, DRAWN).finding == "Decided: 0 of 3 ratios."
    rows = next(rows for rows in data(drawn.panels[0].specification) if "label" in rows[0])
    assert [(row["name"], row["label"]) for row in rows] == [
        ("Average accuracy", "0.81× (0.71 to 0.91)"),
        ("Average loss", "0.77× (0.56 to 1.11)"),
        ("GSM8K", "≥\u202f0.91×"),
    ]
    assert [float(row["ratio"]) for row in rows] == pytest.approx(
        [1 / 1.24, 1 / 1.3, 1 / 1.1], rel=1e-4
    )
    titles = {
        layer["encoding"]["x"]["title"] for layer in drawn.panels[0].specification["layer"][:3]
    }
    assert titles == {"fewer tokens than LA  ←  1  →  more tokens"}
    assert mean_factors(MEANS.assign(factor=np.nan), DRAWN) is None


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


def test_factors_by_target_have_a_panel_for_each_measure() -> None:
    rows = pd.concat(
        pd.DataFrame(
            {"depth": 4, "variant": "DR", "task": "average", "metric": metric, "target": [0.2, 0.8]}
        ).assign(factor=[1.0, 1.5], low=[0.8, 0.01], high=[1.25, None], baseline="LA")
        for metric in ("accuracy", "loss")
    )
    drawn = by_target(rows, DRAWN)
    assert drawn.finding == (
        "Average accuracy, depth 4, from the easiest to the hardest value: DR from 1.00 to 0.67."
    )
    assert [one.title for one in drawn.panels] == [
        "Average accuracy, depth 4",
        "Average loss, depth 4",
    ]
    assert "DR from 1.00 to 0.67" in drawn.panels[0].description
    (band,) = (rows for rows in data(drawn.panels[0].specification) if "low" in rows[0])
    # to the edge, or none
    assert [(row["low"], row["high"]) for row in band] == [("0.8", "1.25"), ("", "1.625")]
    assert by_target(rows.iloc[:0], DRAWN) is None


RUN_CURVES = pd.DataFrame(
    {"tokens": [1e6, 4e6, 8e6], "loss": [5.0, 3.0, 2.9], "losses_not_finite": 0}
)
RUN_CURVES = RUN_CURVES.assign(depth=4, variant="LA", run_id="r", seed=0, status="complete")


def test_the_later_half_has_a_panel_of_its_own() -> None:
    drawn = loss(RUN_CURVES, DRAWN)
    assert drawn.finding == "Depth 4, at the end, mean over the runs: LA 2.900."
    assert [one.title for one in drawn.panels] == ["Depth 4", "Depth 4, later half"]
    (whole,), (late,) = (data(one.specification) for one in drawn.panels)
    assert [row["loss"] for row in whole] == ["5", "3", "2.9"]
    assert [row["loss"] for row in late] == ["3", "2.9"]
    assert loss(RUN_CURVES.assign(loss=float("nan")), DRAWN) is None


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
        drawn = loss(pd.concat([RUN_CURVES, other]), DRAWN)
        assert drawn is not None
        assert drawn.finding == f"Depth 4, at the end, mean over the runs: LA {mean}."


def test_losses_that_are_no_numbers_are_said() -> None:
    drawn = loss(RUN_CURVES.assign(losses_not_finite=[0, 0, 7]), DRAWN)
    assert "The loss was not a finite number in r (7 steps)" in drawn.caption


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


def test_the_band_of_one_seed_is_of_the_items_within_what_is_possible() -> None:
    low, high = zip(*bands(stderr=[0.2, 0.05, 0.02, 0.4]), strict=True)
    assert low == pytest.approx([0, 0.302, 0.2608, 0])
    assert high == pytest.approx([0.592, 0.498, 0.3392, 1])


def test_the_band_of_seeds_is_the_t_interval_of_their_mean() -> None:
    seeds = np.array([0.38, 0.43, 0.39])
    error = seeds.std(ddof=1) / np.sqrt(3)
    expected = ttest_1samp(seeds, 0).confidence_interval(0.95)
    assert bands(seeds=3, seed_error=error)[1] == pytest.approx(tuple(expected), rel=1e-5)


def test_the_caption_says_what_the_bands_are_of() -> None:
    captions = [
        accuracy(curve(seeds=seeds), RUNS, FACTORS, NO_RAW, COUNTED, DRAWN, depth=4).caption
        for seeds in (1, 3, [3, 3, 1, 1])
    ]
    assert ["Bands are 95% t-intervals" in words for words in captions] == [False, True, True]
    assert ["says nothing of other seeds" in words for words in captions] == [True, False, True]
    assert ["Faint lines are the seeds" in words for words in captions] == [False, True, True]


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
    assert [cell.text for cell in row.cells[2:]] == ["20.0% ± 10.0", "50.0% ± 10.0", "30.0% ± 10.0"]


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
    assert cells == ["DR", "GSM8K", "10.0% ± 10.0", "40.0% ± 10.0", "30.0% ± 10.0"]
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
    assert [(row["learning_rate"], row["loss"]) for row in line] == [
        ("0.001", "3.1"),
        ("0.002", "2.1"),
    ], "none failed"
    assert [row["learning_rate"] for row in ring] == ["0.002"]
    assert drawn.finding == "Depth 4, chosen: LA 0.002 (the highest tried)."
    assert rates(rows[:0], DRAWN) is None
