"""Make Altair charts of figures that a notebook shows without a network.

Altair's own renderer loads Vega from an address. These charts bring it: a drawing that is seen
without any script, as on GitHub, and a script that puts the live chart in its place.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import altair as alt
import vl_convert

from dreamer_study.reports.figures.addresses import check_drawing
from dreamer_study.reports.figures.library import packed, packed_library
from dreamer_study.reports.figures.rendering import Figure, composed

# Vega is unpacked once in a notebook, and leaves no names of its own in the page.
SHOW = """\
(async () => {
  const place = document.getElementById("PLACE");
  if (!place || !("DecompressionStream" in window)) return;
  const unpack = async (packed) => {
    const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  window.dreamerStudyVega ??= unpack("LIBRARY").then((library) => {
    const before = window.vegaEmbed;
    new Function(library)();
    const embed = window.vegaEmbed;
    window.vegaEmbed = before;
    return embed;
  });
  const embed = await window.dreamerStudyVega;
  const chart = JSON.parse(await unpack("CHART"));
  const live = document.createElement("div");
  await embed(live, chart, {renderer: "svg", actions: false});
  place.replaceChildren(live);
})();"""


class _Offline:
    """Shows itself in a notebook as a drawing, and with a script as a live chart."""

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
        chart = self.to_dict()  # type: ignore[attr-defined]
        return {"text/html": _html(chart), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<chart {self.name!r}>"  # type: ignore[attr-defined]


class ConcatFigure(_Offline, alt.ConcatChart):
    """A figure without a legend."""


class VConcatFigure(_Offline, alt.VConcatChart):
    """A figure with a legend above its panels."""


def offline_chart(figure: Figure) -> alt.TopLevelMixin:
    """Make a chart of a figure."""
    specification = {**composed(figure), "name": figure.name}
    kind = VConcatFigure if "vconcat" in specification else ConcatFigure
    return kind.from_dict(specification)


def _html(chart: dict[str, Any]) -> str:
    place = f"figure-{uuid4().hex}"
    script = (
        SHOW.replace("PLACE", place)
        .replace("CHART", packed(json.dumps(chart)))
        .replace("LIBRARY", packed_library())
    )
    check_drawing()
    drawing = vl_convert.vegalite_to_svg(chart)
    return f'<div id="{place}">{drawing}</div>\n<script>{script}</script>'
