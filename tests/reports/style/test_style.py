"""Styles of variants and of tables."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.reports.page.report import STYLE
from dreamer_study.reports.style.theme import COLOURS, MARKERS, RAMP, styles
from dreamer_study.reports.text.numbers import TIMES


def test_every_unit_of_time_has_its_size() -> None:
    (listed,) = re.findall(
        r"^const SIZES = {(.*)};", (STYLE / "tables.js").read_text(), re.MULTILINE
    )
    sizes = dict(part.strip().split(": ") for part in listed.split(","))
    assert {unit: float(sizes[unit]) for unit in ("s", *TIMES)} == {"s": 1, **TIMES}


@pytest.mark.slow
@given(st.lists(st.text(min_size=1), min_size=1, max_size=20, unique=True))
def test_variants_look_different(names: list[str]) -> None:
    drawn = styles(names)
    assert [drawn[name].colour for name in names[:3]] == ["v0", "v1", "v2"][: len(names)]
    looks = {(style.colour, style.shape, style.dash) for style in drawn.values()}
    assert len(looks) == len(drawn)
    assert sum(style.colour == "v0" for style in drawn.values()) == 1
    assert {style.shape for style in drawn.values()} <= set(MARKERS)


def test_twelve_variants_differ_in_line_and_in_marker() -> None:
    drawn = styles([f"variant {number}" for number in range(13)]).values()
    assert len({(style.colour, style.dash) for style in drawn}) == 13
    assert len({(style.colour, style.shape) for style in drawn}) == 13
    assert not any("triangle" in style.shape for style in drawn), "a triangle is a bound"


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
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


def test_the_first_of_many_depths_is_seen_in_the_dark() -> None:
    lightness = [luminance(colour) for colour in RAMP]
    assert lightness == sorted(lightness)
    assert (lightness[0] + 0.05) / (luminance(COLOURS["paper"][1]) + 0.05) >= 3
