"""Where the numbers of the tables of two studies come from."""

from __future__ import annotations

import pandas as pd
import pytest

from reports.tables.cells import Cell
from reports.tables.changes import changes
from sql.statistics.comparison import Comparison

MODEL = {"variant": "DR", "depth": 4}


def cells(place: int, **sizes: int) -> list[Cell]:
    """The cells of the only row of the table of accuracies (0) or of losses (1)."""
    accuracy = {
        **MODEL,
        "task": "t",
        "checkpoint": "final",
        "items": 30,
        "items_first": 30,
        "items_second": 30,
        **sizes,
    }
    accuracy |= {
        "first": 0.5,
        "second": 0.6,
        "difference": 0.1,
        "low": 0,
        "high": 0.2,
        "adjusted_p": 0.3,
        "changed": False,
    }
    loss = {**MODEL, "task": "validation", "loss_first": 2.0, "loss_second": 1.5, "difference": -0.5}
    loss |= {"tokens_first": 5, "tokens_second": 5}
    found = Comparison("", pd.DataFrame([accuracy]), pd.DataFrame(), pd.DataFrame([loss]), [])
    accuracies, _, losses = changes(found, ("one", "two"), "1")
    (row,) = (accuracies, losses)[place].rows
    return list(row.cells)


@pytest.mark.parametrize(("second", "in_part"), [(30, [False, False]), (40, [False, True])])
def test_the_query_of_a_study_that_asked_more_items_says_so(second: int, in_part: list[bool]) -> None:
    accuracies = cells(0, items_second=second)[5:7]
    assert ["over all items" in cell.origins[0].note for cell in accuracies] == in_part


def test_a_change_opens_the_numbers_compared_and_names_what_made_its_interval() -> None:
    *_, change, _ = cells(0, items_second=40)
    first, second = (one.note for one in change.origins)
    assert first.startswith("One of the two accuracies compared. The interval is made of the items")
    assert "over all items" in second
    change = cells(1)[-1]
    assert {one.note for one in change.origins} == {"One of the two losses compared."}
