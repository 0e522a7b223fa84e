"""Draw dense maps as one inline PNG at full resolution, a pixel for each cell, with axes and a colour scale in Vega."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import altair as alt
import numpy as np

from reports.figures.chart import Specification, layered
from reports.style.theme import LIGHT

# Dark to bright, of evenly rising lightness (viridis): reads the same in light, in dark and in grey.
RAMP = ("#440154", "#443983", "#31688e", "#21918c", "#35b779", "#90d743", "#fde725")
LEVELS = 32  # colours of the image
STEP, TALLEST = 24, 260  # pixels of one row, and of all rows


def heat_map(
    values: np.ndarray, x: alt.X, rows: Sequence[int], y_title: str, scale_title: str, width: int
) -> Specification:
    """Draw shares [row, column] as colours; the square root of a share sets its colour, so that faint ones show.

    `x` is the axis of the field `x` from 0 to 1 over the columns; `rows` are the whole numbers that name the rows, from
    the top.
    """
    highest = float(values.max()) or 1.0
    image = indexed_png(np.minimum(np.sqrt(values / highest) * LEVELS, LEVELS - 1).astype(np.uint8))
    place = {"x": 0, "x2": 1, "y": 0.5, "y2": len(rows) + 0.5}
    every = max(1, len(rows) // 8)
    ticks = [number for number in range(1, len(rows) + 1) if number % every == 0 or number == 1]
    y = alt.Y(
        "y:Q",
        title=y_title,
        scale=alt.Scale(domain=[0.5, len(rows) + 0.5], nice=False, reverse=True),
        axis=alt.Axis(values=ticks, labelExpr=f"{list(rows)}[datum.value - 1]", grid=False, domain=False),
    )
    source = "data:image/png;base64," + base64.b64encode(image).decode()
    base = alt.Chart(width=width, height=min(STEP * len(rows), max(TALLEST, 8 * len(rows)))).encode(x=x, y=y)
    drawn = base.mark_image(url=source, aspect=False, smooth=False).encode(x2=alt.X2("x2:Q"), y2=alt.Y2("y2:Q"))
    # The colour scale belongs to two points that cannot be seen.
    stops = [highest * (place / (len(RAMP) - 1)) ** 2 for place in range(len(RAMP))]
    legend = alt.Legend(
        title=scale_title,
        titleOrient="left",
        titleLimit=400,
        orient="top",
        direction="horizontal",
        gradientLength=180,
        gradientThickness=8,
        gradientStrokeColor=LIGHT["rule"],
        format=".2~p",
        tickCount=4,
        **dict.fromkeys(("labelColor", "titleColor"), LIGHT["muted"]),
        titleFontWeight="normal",
    )
    colour = alt.Color("share:Q", scale=alt.Scale(type="sqrt", domain=stops, range=list(RAMP)), legend=legend)
    ends = alt.InlineData(values=[{"x": 0, "y": 1, "share": share} for share in (0, highest)])
    unseen = alt.Chart(ends).mark_point(opacity=0).encode(x=x, y=y, color=colour)
    return layered(unseen, drawn, data=alt.InlineData(values=[place]))


def indexed_png(levels: np.ndarray) -> bytes:
    """Write levels [row, column] from 0 to LEVELS - 1 as a PNG with the colours of RAMP.

    The format is three chunks of a few bytes around a compressed text, so that no imaging library is needed.
    """
    height, width = levels.shape
    anchors = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in RAMP])
    places = np.linspace(0, len(RAMP) - 1, LEVELS)
    palette = np.stack([np.interp(places, np.arange(len(RAMP)), anchors[:, i]) for i in range(3)], axis=1)
    lines = np.hstack([np.zeros((height, 1), np.uint8), levels])  # every line begins with its filter: none
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),  # 8 bits that index a palette
        b"PLTE": palette.round().astype(np.uint8).tobytes(),
        b"IDAT": zlib.compress(lines.tobytes(), 9),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks.items()
    )
