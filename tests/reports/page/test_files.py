"""Every figure is saved from inside the page as it is drawn there: as PNG, as SVG, and its values as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from tests.reports.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: install it to test the page in a browser"),
]
# Every figure's file of a kind, taken before it is downloaded: without a hand a browser downloads ten.
FILES = """const taken = {};
    HTMLAnchorElement.prototype.click = function () {
        taken[this.download] = fetch(this.href).then((file) => file.blob());
    };
    const figures = [...document.querySelectorAll('[data-figure]')];
    for (const figure of figures) {
        const name = `${figure.dataset.figure}.${kind}`;
        figure.querySelector(`[data-file=${kind}]`).click();
        while (!(name in taken)) await new Promise((done) => setTimeout(done, 10));
        files[figure.dataset.figure] = await taken[name];
    }"""
# Marks that can be seen.
COUNT = """const count = (drawing) => [...drawing.querySelectorAll('.role-mark:not(.mark-group) > *')]
    .filter((mark) => mark.getAttribute('opacity') !== '0').length;"""


def of_files(page: Browser, kind: str, value: str) -> dict[str, Any]:
    """Save every figure, and evaluate JavaScript for each `figure` and its `file`."""
    return page.run(f"""(async () => {{
        const kind = '{kind}', files = {{}}, found = {{}};
        {FILES} {COUNT}
        for (const figure of figures) {{
            const file = files[figure.dataset.figure];
            found[figure.dataset.figure] = {value};
        }}
        return found;
    }})()""")


def test_a_saved_drawing_has_as_many_marks_as_the_page(page: Browser) -> None:
    page.draw_all()
    on_page = "[...figure.querySelectorAll('.live svg')].map(count).reduce((one, other) => one + other)"
    legend = "2 * figure.querySelectorAll('.legend li').length"  # a marker and a name, which the page has in HTML
    in_file = "count(new DOMParser().parseFromString(await file.text(), 'image/svg+xml'))"
    counted = of_files(page, "svg", f"[{in_file}, {on_page} + {legend}]")
    assert len(counted) == 17
    assert {name: pair for name, pair in counted.items() if pair[0] != pair[1] or not pair[0]} == {}


def test_a_saved_drawing_has_the_colours_of_paper(page: Browser) -> None:
    page.colours("dark")
    assert not any(of_files(page, "svg", "(await file.text()).includes('var(--')").values())


def test_a_saved_picture_is_not_blank(page: Browser) -> None:
    inked = """await (async () => {
        const picture = await createImageBitmap(file);
        const canvas = new OffscreenCanvas(picture.width, picture.height).getContext('2d');
        canvas.drawImage(picture, 0, 0);
        const pixels = new Uint32Array(canvas.getImageData(0, 0, picture.width, picture.height).data.buffer);
        return pixels.filter((pixel) => pixel !== 0xffffffff).length;
    })()"""
    found = of_files(page, "png", inked)
    assert len(found) == 17
    assert {name: pixels for name, pixels in found.items() if pixels < 10_000} == {}  # a title has a tenth of them


def test_a_saved_table_has_the_values_drawn(page: Browser) -> None:
    for name, text in of_files(page, "csv", "await file.text()").items():
        rows = list(csv.DictReader(io.StringIO(text)))
        assert rows, name
