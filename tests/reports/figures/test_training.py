"""Loss curves."""

from __future__ import annotations

import pandas as pd

from reports.figures.training import LOSS_POINTS, loss
from tests.reports.figures.frames import DRAWN, data


def test_loss_curves_are_thinned_to_means() -> None:
    steps = pd.DataFrame({"step": range(1, 5001)})
    steps = steps.assign(tokens=steps["step"] * 1000, loss=3.0, depth=4, variant="LA", run_id="r", status="complete")
    drawn = loss(steps, DRAWN)
    assert drawn is not None
    (rows,) = data(drawn.panels[0].specification)
    assert 50 < len(rows) <= LOSS_POINTS
    assert {row["loss"] for row in rows} == {"3"}
    assert loss(steps.assign(loss=float("nan")), DRAWN) is None
