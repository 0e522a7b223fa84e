"""Draw dense maps: a cell for each row and column, with a colour scale above."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from reports.figures import chart
from reports.style.theme import LIGHT

# Dark to bright, of evenly rising lightness (viridis): reads the same in light, in dark and in grey.
RAMP = ("#440154", "#443983", "#31688e", "#21918c", "#35b779", "#90d743", "#fde725")
STEP, TALLEST = 24, 260  # pixels of one row, and of all rows
OVERLAP = 0.4  # of a column, under the next one: no seam shows between two cells


def heat_map(values: np.ndarray, depths: Sequence[int], scale_title: str) -> chart.Specification:
    """Draw shares [depth, expert] as colours; the square root of a share sets its colour, so that faint ones show."""
    rows, columns = values.shape
    places = np.indices(values.shape)
    cells = {"depth": np.array(depths)[places[0].ravel()], "expert": places[1].ravel() + 1, "share": values.ravel()}
    ends = {"x": "(datum.expert - 1)", "x2": f"min({columns}, datum.expert + {OVERLAP})"}
    ticks = [depths[tick - 1] for tick in chart.depth_ticks(rows)]
    highest = float(values.max()) or 1.0
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
    drawn = alt.Chart(width=chart.PAGE_WIDTH, height=min(STEP * rows, max(TALLEST, 8 * rows))).mark_rect()
    encoded = drawn.encode(
        x=chart.percent_axis(alt.X, "x", "share of the experts, from those of few depths to those of many"),
        x2=alt.X2("x2:Q"),
        y=alt.Y("depth:O", title="depth", axis=alt.Axis(values=ticks, domain=False), scale=alt.Scale(padding=0)),
        color=alt.Color("share:Q", scale=alt.Scale(type="sqrt", domain=stops, range=list(RAMP)), legend=legend),
        tooltip=chart.tooltip(("depth:O",), ("expert:Q", "", "expert, in this order"), ("share:Q", ".2~p")),
    )
    return chart.layered(
        encoded,
        data=chart.records(pd.DataFrame(cells).round(5), list(cells)),
        transform=[{"calculate": f"{end} / {columns}", "as": name} for name, end in ends.items()],
    )
