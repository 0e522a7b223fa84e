"""Figures of names that somebody else chose."""

from __future__ import annotations

import pytest

from dreamer_study.reports.figures.rendering import page_drawing, panel


@pytest.mark.parametrize(
    "name", ["a\x1b[31mb", "a\x07b", "a\0b", "a\\\x1bb", "a\\\\\x08b", "a\ud800b", "a\x9bb"]
)
def test_a_name_with_control_characters_is_drawn_with_a_sign_for_them(name: str) -> None:
    specification = {
        "data": {"values": [{"variant": name, "ratio": 1.5}]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "ratio", "type": "quantitative"},
            "y": {"field": "variant", "type": "nominal"},
        },
    }
    drawing = page_drawing(panel("Ratios", "Ratios", specification), 1)
    assert "\ufffd" in drawing
    assert not any(character in drawing for character in "\0\x07\x08\x1b\x9b\ud800")
