"""Which items each model gets right, in a map."""

from __future__ import annotations

import pandas as pd
import pytest

from dreamer_study.reports.figures.item_map import MOST_CELLS, item_map
from dreamer_study.reports.style.theme import styles
from tests.reports.figures.frames import DRAWN, data


def answered(items: int, tasks: tuple[str, ...] = ("t",)) -> pd.DataFrame:
    """LA gets every item right but the last third, DR every other one of LA's."""
    rows = [
        {
            "depth": 4,
            "variant": variant,
            "task": task,
            "item_id": f"{task}/{item:04d}",
            "share": float(item < 2 * items / 3 and (variant == "LA" or item % 2 == 0)),
        }
        for task in tasks
        for variant in ("DR", "LA")
        for item in range(items)
    ]
    return pd.DataFrame(rows)


def test_items_stand_from_easy_to_hard_with_a_row_for_each_variant() -> None:
    figure = item_map(answered(6), DRAWN)
    (panel,) = figure.panels
    (cells,) = data(panel.specification)
    rows = {
        variant: [(row["item"], float(row["right"])) for row in cells if row["variant"] == variant]
        for variant in ("LA", "DR")
    }
    order = ["0000", "0002", "0001", "0003", "0004", "0005"]
    assert rows["LA"] == list(zip(order, [1, 1, 1, 1, 0, 0], strict=True))
    assert rows["DR"] == list(zip(order, [1, 1, 0, 0, 0, 0], strict=True))
    assert figure.finding == (
        "t, depth 4: of 6 items all models get 2 right with every seed, and 2 with none."
    )
    assert panel.keys == {"depth": "4", "task": "t", "metric": "accuracy"}
    assert "Benchmarks of more than" not in figure.caption


def test_the_order_does_not_depend_on_that_of_the_rows() -> None:
    rows = answered(9)
    mixed = rows.sample(frac=1, random_state=3)
    drawn = [item_map(frame, DRAWN).panels[0].specification for frame in (rows, mixed)]
    assert data(drawn[0]) == data(drawn[1])


def test_of_many_items_a_column_is_the_mean_of_several() -> None:
    figure = item_map(answered(1000), DRAWN)
    (cells,) = data(figure.panels[0].specification)
    assert len(cells) == 2 * 200
    assert {row["item"] for row in cells} == {"5 items"}
    assert sum(int(row["items"]) for row in cells) == 2000
    shares = [float(row["right"]) for row in cells if row["variant"] == "LA"]
    assert sum(shares) / len(shares) == pytest.approx(0.667, abs=0.001)
    assert "more than 200 items have columns of up to 5 items" in figure.caption


@pytest.mark.slow
def test_many_benchmarks_have_one_panel_with_fewer_columns() -> None:
    tasks = tuple(f"task_{number:02d}" for number in range(40))
    names = ["LA", "DR", *(f"V{number}" for number in range(10))]
    one = answered(100, tasks)
    many = pd.concat(
        [one[one["variant"] == "DR"].assign(variant=name) for name in names], ignore_index=True
    )
    figure = item_map(many, styles(names))
    (panel,) = figure.panels
    (cells,) = data(panel.specification)
    assert len(cells) <= MOST_CELLS
    assert panel.specification["params"][0]["bind"]["options"] == list(tasks)
    assert "more than 20 items have columns of up to 5 items" in figure.caption


def test_without_scores_of_items_there_is_no_map() -> None:
    assert item_map(answered(2).iloc[:0], DRAWN) is None
