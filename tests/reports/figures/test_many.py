"""Figures of many variants and many benchmarks stay of one size."""

from __future__ import annotations

import pandas as pd
import pytest

from dreamer_study.reports.figures.accuracy import accuracy, task_loss
from dreamer_study.reports.figures.efficiency import cost_ratios, token_ratios
from dreamer_study.reports.figures.ratio_map import ratio_map
from dreamer_study.reports.figures.rendering import Figure, composed
from dreamer_study.reports.page.toolbar import toolbar
from dreamer_study.reports.style.theme import styles
from tests.reports.figures.frames import COUNTED, FACTORS, NO_RAW, RUNS, curve, data, ratios

TASKS = [f"task_{number:02d}" for number in range(12)]
VARIANTS = [f"V{number:02d}" for number in range(12)]
STYLES = styles(["LA", *VARIANTS])
NO_GOALS = FACTORS.iloc[:0]


def many_ratios(tasks: list[str] = TASKS) -> pd.DataFrame:
    """A ratio for each task and variant: the later a variant the smaller; V11's exclude 1."""
    parts = []
    for place, variant in enumerate(VARIANTS):
        ratio = 1.3 - 0.06 * place
        half = 1.1 if variant == "V11" else 2.0
        row = {"ratio": ratio, "low": ratio / half, "high": ratio * half, "variant": variant}
        parts += [ratios(task=task, significant=None, **row) for task in tasks]
        parts.append(ratios(**row))
    return pd.concat(parts, ignore_index=True).assign(detectable=0.8)


def params(figure: Figure) -> list[dict]:
    return [
        parameter for panel in figure.panels for parameter in panel.specification.get("params", [])
    ]


@pytest.mark.slow
def test_the_averages_have_a_panel_and_a_menu_shows_one_of_many_benchmarks() -> None:
    drawn = token_ratios(many_ratios(), STYLES)
    average, single = drawn.panels
    (rows,) = (part for part in data(average.specification) if len(part) > 1)
    assert {row["task"] for row in rows} == {"average"}
    (menu,) = params(drawn)
    assert menu["bind"]["options"] == TASKS
    (rows,) = (part for part in data(single.specification) if len(part) > 1)
    assert len(rows) == len(TASKS) * len(VARIANTS)
    heights = [panel.specification["height"] for panel in drawn.panels]
    assert max(heights) == 22 * len(VARIANTS)


@pytest.mark.slow
def test_few_benchmarks_are_in_one_panel() -> None:
    (panel,) = token_ratios(many_ratios(TASKS[:8]), STYLES).panels
    assert "params" not in panel.specification


@pytest.mark.slow
def test_rows_are_in_the_order_of_the_effect() -> None:
    average, _ = token_ratios(many_ratios(), STYLES).panels
    orders = [
        layer["encoding"]["y"]["sort"]
        for layer in average.specification["layer"]
        if "sort" in layer["encoding"].get("y", {})
    ]
    assert orders
    assert all(order == VARIANTS[::-1] for order in orders)


@pytest.mark.slow
def test_a_map_is_coloured_where_an_interval_excludes_one() -> None:
    drawn = ratio_map(many_ratios(), STYLES)
    (panel,) = drawn.panels
    (cells,) = data(panel.specification)
    assert len(cells) == len(TASKS) * len(VARIANTS)
    coloured = {row["variant"] for row in cells if float(row["strength"]) > 0}
    assert coloured == {"V11"}
    assert {row["side"] for row in cells if row["variant"] == "V11"} == {"fewer"}
    assert drawn.finding == "Of 144 cells 12 show fewer tokens and 0 more."
    assert "without correction for the 144 comparisons" in drawn.caption
    assert "above 1.25 or below 0.80" in drawn.caption


@pytest.mark.slow
def test_a_map_has_no_colour_where_models_are_less_than_a_checkpoint_apart() -> None:
    rows = many_ratios()
    is_near = (rows["variant"] == "V11") & rows["task"].isin(TASKS[:5])
    drawn = ratio_map(rows.assign(within_checkpoint=rows["within_checkpoint"] | is_near), STYLES)
    assert drawn.finding == "Of 144 cells 7 show fewer tokens and 0 more."


def test_one_benchmark_has_no_map() -> None:
    assert ratio_map(many_ratios(TASKS[:1]), STYLES) is None


@pytest.mark.slow
@pytest.mark.parametrize(("count", "panels"), [(8, 9), (9, 2)])
def test_many_benchmarks_have_one_panel_of_curves(count: int, panels: int) -> None:
    one = curve(seeds=2)
    average = one[one["task"] == "average"]
    tasks = TASKS[:count]
    rows = pd.concat([average, *(average.assign(task=task) for task in tasks)])
    runs = pd.concat([RUNS.assign(task=task) for task in tasks])
    drawn = accuracy(rows, runs, NO_GOALS, NO_RAW, COUNTED, STYLES | styles(["LA", "DR"]), 4)
    assert len(drawn.panels) == panels
    losses = rows.rename(columns={"accuracy": "value"})
    run_losses = runs.rename(columns={"accuracy": "loss"})
    assert len(task_loss(losses, run_losses, COUNTED, styles(["LA", "DR"]), 4).panels) == panels
    menus = toolbar([drawn], styles(["LA", "DR"]), pd.DataFrame()).menus
    (benchmarks,) = (menu for menu in menus if menu.name == "task")
    assert len(benchmarks.options) == count + 2


def test_a_ratio_in_flops_is_that_in_tokens_times_the_costs_of_a_token() -> None:
    costs = pd.DataFrame(
        {
            "depth": 4,
            "variant": ["LA", "DR"],
            "flops": [2e9, 3e9],
            "seconds": [2.0, None],
            "spread": [1.5, 1.1],
        }
    )
    looks = styles(["LA", "DR"])
    (panel,) = cost_ratios(ratios(), costs, looks).panels
    rows = {row["name"]: row for part in data(panel.specification) for row in part if "name" in row}
    assert set(rows) == {"tokens", "FLOPs"}, "nobody knows the seconds of DR"
    assert float(rows["FLOPs"]["shown"]) == pytest.approx(1.5 * 1.7)
    assert float(rows["FLOPs"]["least"]) == pytest.approx(1.5 * 1.4)
    assert rows["FLOPs"]["label"] == "2.55x (2.10 to 3.00)"
    assert cost_ratios(ratios(), costs.iloc[:0], looks) is None


@pytest.mark.parametrize(("spread", "said"), [([1.5, 3.04], True), ([1.1, 1.2], False)])
def test_seconds_of_a_busy_machine_are_said_to_be_noisy(spread: list[float], said: bool) -> None:
    known = {"depth": 4, "variant": ["LA", "DR"], "flops": [2e9, 3e9], "seconds": [2.0, 3.0]}
    drawn = cost_ratios(ratios(), pd.DataFrame({**known, "spread": spread}), styles(["LA", "DR"]))
    assert ("fastest run of DR was 3.0 times as fast" in drawn.caption) == said


def test_what_no_test_has_seen_is_hollow_beside_what_one_has() -> None:
    known = {"depth": 4, "variant": ["LA", "DR"], "flops": [2e9, 3e9], "seconds": None}
    drawn = cost_ratios(
        ratios(significant=True), pd.DataFrame({**known, "spread": 1.0}), styles(["LA", "DR"])
    )
    rows = [row for part in data(drawn.panels[0].specification) for row in part if "name" in row]
    assert {row["name"]: row["hollow"] for row in rows} == {"tokens": "false", "FLOPs": "true"}
    assert "was not tested" in drawn.caption


@pytest.mark.slow
def test_a_saved_panel_of_one_benchmark_names_the_benchmark() -> None:
    drawn = composed(token_ratios(many_ratios(), STYLES))
    titles = [panel["title"] for panel in drawn["vconcat"][1]["concat"]]
    assert titles == ["Depth 4, average accuracy", "Depth 4, task_00"]
