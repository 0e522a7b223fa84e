"""What it takes to reach each accuracy or loss."""

from __future__ import annotations

import pandas as pd

from reports.figures.targets import by_target
from tests.reports.figures.frames import DRAWN


def test_factors_by_target_have_a_panel_for_each_measure() -> None:
    rows = pd.concat(
        pd.DataFrame({"depth": 4, "variant": "DR", "task": "average", "metric": metric, "target": [0.2, 0.8]}).assign(
            factor=[1.0, 1.5], baseline="LA"
        )
        for metric in ("accuracy", "loss")
    )
    drawn = by_target(rows, DRAWN)
    assert drawn.finding == (
        "Average accuracy, depth 4, by best estimate from the easiest to the hardest value: DR from 1.00 to 1.50."
    )
    assert [one.title for one in drawn.panels] == ["Average accuracy, depth 4", "Average loss, depth 4"]
    assert "DR from 1.00 to 1.50" in drawn.panels[0].description
    assert by_target(rows.iloc[:0], DRAWN) is None
