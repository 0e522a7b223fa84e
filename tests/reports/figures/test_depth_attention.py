"""Maps of depth attention."""

from __future__ import annotations

import pytest

from reports.figures.depth_attention import depth_attention
from reports.figures.rendering import page_drawing
from tests.reports.figures.frames import DRAWN, MODEL_RUNS, SCORES, data


def test_every_row_of_a_depth_attention_map_is_scaled_by_its_strongest() -> None:
    drawn = depth_attention(SCORES, MODEL_RUNS, DRAWN)
    assert drawn.finding == (
        "DR, depth 2: of 1 depth after the first, most attention goes to the depth itself in 1, to the depth before "
        "in 0."
    )
    (rows,) = data(drawn.panels[0].specification)
    assert [float(row["strength"]) for row in rows] == pytest.approx([1, 3 / 7, 1], rel=1e-4)
    drawing = page_drawing(drawn.panels[0], 1)
    assert all(f">{label}</text>" in drawing for label in ("100", "30", "70"))
    assert "1 to 1 (100%) and 2 to 2 (70%)" in drawn.panels[0].description
