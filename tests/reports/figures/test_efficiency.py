"""The figure of the factors."""

from __future__ import annotations

from reports.figures.efficiency import factors
from reports.figures.rendering import composed
from tests.reports.figures.frames import DRAWN, FACTORS, data


def test_factors_keep_open_intervals_on_the_axis() -> None:
    drawn = factors(FACTORS, DRAWN)
    assert drawn is not None
    rows = next(rows for rows in data(drawn.panels[0].specification) if "start" in rows[0])
    assert [row["variant"] for row in rows] == ["DR", "DR"]
    assert [row["label"] for row in rows] == ["≤ 1.0×", "≥ 2.0×"]
    assert 0 < float(rows[0]["start"]) < 1
    assert 2 < float(rows[1]["stop"]) < 100
    assert {style.shape for style in drawn.marks} == {"circle"}


def test_factors_that_are_missing_or_all_the_baseline_give_no_figure() -> None:
    assert factors(FACTORS[FACTORS["variant"] == "LA"], DRAWN) is None
    assert factors(FACTORS.assign(factor=float("nan")), DRAWN) is None


def test_bounds_keep_their_shapes_beside_the_legend() -> None:
    drawn = factors(FACTORS, DRAWN)
    assert drawn is not None
    resolved = composed(drawn)
    assert resolved["resolve"]["scale"]["shape"] == resolved["vconcat"][1]["resolve"]["scale"]["shape"] == "independent"
