"""Define colours, marker shapes and the Vega configuration of every figure.

Figures are drawn in the light colours, as papers want them. In the page the colours are CSS
variables (`themed`), so that one drawing serves light, dark and print. The palette stays apart
under the common colour vision deficiencies, and every variant has a marker shape and a dash as
well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

# name: (light, dark). The light values must differ from each other, since `themed` finds a colour
# by its value.
COLOURS = {
    "paper": ("#ffffff", "#15171a"),
    "ink": ("#1c1f23", "#e9e7e2"),
    "muted": ("#5b616a", "#a4a9b0"),
    "rule": ("#b9bcc1", "#4d535b"),
    "grid": ("#e7e8ea", "#2b2f34"),
    "warn": ("#9a5b00", "#e3b26a"),
    "v0": ("#6d737c", "#a9afb8"),
    "v1": ("#1f6fb2", "#62aeea"),
    "v2": ("#d4600c", "#f4994e"),
    "v3": ("#0b8a6a", "#3fc7a0"),
    "v4": ("#a44f8b", "#dc90c4"),
    "v5": ("#7a6a12", "#cdb84f"),
    "v6": ("#5a4fb0", "#a79cf0"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}
# Shapes in the order in which variants get them, as paths in a square of 14 for legends in HTML. No
# shape is a triangle: in a figure of ratios a triangle is a bound.
MARKERS = {
    "circle": "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0",
    "square": "M-4,-4h8v8h-8Z",
    "diamond": "M0,-6L5,0L0,6L-5,0Z",
    "cross": "M-1.7,-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3Z",
    "pentagon": "M0,-5.2L4.9,-1.6L3.1,4.2H-3.1L-4.9,-1.6Z",
    "star": "M0,-6L1.4,-1.9H5.7L2.3,0.7L3.5,4.9L0,2.3L-3.5,4.9L-2.3,0.7L-5.7,-1.9H-1.4Z",
    "hourglass": "M-4.5,-5H4.5L1,0L4.5,5H-4.5L-1,0Z",
}
SHAPES = tuple(MARKERS)
# Vega has the first four by name, and takes paths in a square of 2 for the others.
VEGA_SHAPES = {name: name for name in SHAPES[:4]} | {
    "pentagon": "M0,-1L0.94,-0.31L0.6,0.81H-0.6L-0.94,-0.31Z",
    "star": (
        "M0,-1.2L0.28,-0.38H1.14L0.46,0.14L0.7,0.98L0,0.46L-0.7,0.98L-0.46,0.14L-1.14,-0.38H-0.28Z"
    ),
    "hourglass": "M-0.8,-0.9H0.8L0.18,0L0.8,0.9H-0.8L-0.18,0Z",
}
WHOLE_LINE = (1, 0)
DASHES = (WHOLE_LINE, (6, 3), (2, 2), (8, 2, 2, 2))
# From dark to bright: viridis without its darkest end, which cannot be seen on a dark page. Its
# order is clear on a light page, on a dark page and in grey.
RAMP = ("#6457b8", "#4a73b8", "#348aa5", "#219a8c", "#35b779", "#90d743", "#fde725")
FONT = "Inter, Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")
_VARIABLES = {light: f"var(--{name})" for name, light in LIGHT.items()}


@dataclass(frozen=True)
class Style:
    """How one variant is drawn everywhere in a report: `colour` is a name in `COLOURS`."""

    variant: str
    colour: str
    shape: str
    dash: tuple[int, ...]
    cycle: int = 0  # how often variants before this one have its colour

    @property
    def light(self) -> str:
        return LIGHT[self.colour]

    @property
    def vega_shape(self) -> str:
        """The shape as Vega takes it; a shape of a single figure, as a triangle, by its name."""
        return VEGA_SHAPES.get(self.shape, self.shape)


def styles(variants: Iterable[str]) -> dict[str, Style]:
    """Give each variant a style, the baseline, which is the first one, the grey.

    The colours are those of Okabe and Ito, darkened where white paper would swallow them. With more
    variants than colours each colour comes again, with another dash and another shape; the grey
    stays the baseline's own.
    """
    by_variant = {}
    for number, name in enumerate(variants):
        if number == 0:
            cycle = 0
            colour = 0
            shape = 0
        else:
            others = len(SHAPES) - 1  # 0 is the baseline's own
            cycle, place = divmod(number - 1, others)
            colour = 1 + place
            shape = 1 + (place + cycle) % others
        dash = DASHES[cycle % len(DASHES)]
        by_variant[name] = Style(name, f"v{colour}", SHAPES[shape], dash, cycle)
    return by_variant


def present(styles: Mapping[str, Style], *frames: pd.DataFrame) -> dict[str, Style]:
    """Return the styles of the variants in these rows, in the order of the report."""
    variants = {name for frame in frames for name in frame["variant"]}
    return {name: style for name, style in styles.items() if name in variants}


def ordered(frame: pd.DataFrame, styles: Mapping[str, Style], *keys: str) -> pd.DataFrame:
    """Sort rows by depth of the model, then by variant in the order of the report.

    `keys` are further columns to sort by.
    """
    rank = {name: place for place, name in enumerate(styles)}
    depth = "model_depth" if "model_depth" in frame.columns else "depth"
    place = frame["variant"].map(rank).fillna(len(rank))
    return frame.assign(place=place).sort_values([depth, "place", *keys]).drop(columns="place")


def themed(text: str) -> str:
    """Replace the light colours of a drawing or a specification by the page's CSS variables."""
    return _COLOUR.sub(lambda match: _VARIABLES.get(match[0].lower(), match[0]), text)


def css_variables(dark: bool = False) -> str:
    """Return the declarations of the colours for a style sheet."""
    values = {name: on_dark if dark else light for name, (light, on_dark) in COLOURS.items()}
    return " ".join(f"--{name}: {value};" for name, value in values.items())


def vega_config() -> dict:
    """Return calm axes: horizontal grid only, no frame, muted labels.

    Nothing has a colour outside `COLOURS`.
    """
    axis = {
        "labelColor": LIGHT["muted"],
        "titleColor": LIGHT["muted"],
        "gridColor": LIGHT["grid"],
        "domainColor": LIGHT["rule"],
        "tickColor": LIGHT["rule"],
        "labelFont": FONT,
        "titleFont": FONT,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "labelPadding": 4,
        "ticks": False,
    }
    return {
        "background": LIGHT["paper"],
        "font": FONT,
        "view": {"stroke": None},
        "axis": axis,
        "axisX": {"grid": False, "ticks": True, "tickSize": 4, "titlePadding": 8},
        "axisY": {"domain": False, "titlePadding": 8},
        "title": {
            "color": LIGHT["ink"],
            "font": FONT,
            "fontSize": 13,
            "fontWeight": 600,
            "anchor": "start",
        },
        "text": {"font": FONT, "color": LIGHT["ink"]},
        "aria": False,  # a panel is read out as one description, not as hundreds of marks
    }
