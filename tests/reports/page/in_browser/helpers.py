"""What tests of the page in a browser ask, choose and save."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.reports.browser import CHROMIUM, Browser

in_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHROMIUM, reason="no Chromium on this machine: install it to test the page in a browser"
    ),
]

MARKS = (
    "plot.querySelectorAll('.live svg g[class*=mark-] :is(path, rect, text, image, line)').length"
)

PLOTS = f"[...document.querySelectorAll('.plot')].filter((plot) => plot.offsetParent).map((plot) => {MARKS})"

# What a figure draws, as text: another choice gives another text.
DRAWN = """Object.fromEntries([...document.querySelectorAll('[data-figure]')].map((figure) => [figure.dataset.figure,
    [...figure.querySelectorAll('.panel')].map((panel) => panel.matches('[hidden], .nothing') ? ''
    : panel.querySelector('svg').innerHTML)
    .join()]))"""

GIVEN = re.compile(r"(gradient|clip)_?\d+")  # names that Vega counts up at each drawing

CUT = """[...document.querySelectorAll('main *')].filter((element) => element.offsetParent && !element.closest('.plot'))
    .filter((element) => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map((element) => element.outerHTML.slice(0, 120))"""

HERO = (
    "[...document.querySelectorAll('#figure-answer .live')].map((one) => one.textContent).join(' ')"
)

AXE = Path(__file__).parent / "axe.min.js.gz"

# Every figure's file of a kind, taken before it is downloaded: without a hand a browser downloads
# ten.
FILES = """const taken = {};
    HTMLAnchorElement.prototype.click = function () {
        taken[this.download] = fetch(this.href).then((file) => file.blob());
    };
    const figures = [...document.querySelectorAll('[data-figure]:not(:has(.files[hidden]))')];
    for (const figure of figures) {
        const name = `${figure.dataset.figure}.${kind}`;
        figure.querySelector(`[data-file=${kind}]`).click();
        while (!(name in taken)) await new Promise((done) => setTimeout(done, 10));
        files[figure.dataset.figure] = await taken[name];
    }"""

# Marks that can be seen.
COUNT = """const count = (drawing) => [...drawing.querySelectorAll('.role-mark:not(.mark-group) > *')]
    .filter((mark) => mark.getAttribute('opacity') !== '0').length;"""


def choose(page: Browser, **menus: str) -> None:
    """Choose in the toolbar; a box is ticked by "1" and unticked by the empty text."""
    for name, value in menus.items():
        page.run(f"""(() => {{
            const control = document.querySelector('.toolbar :is([name={name}], [value="{name}"])');
            if (control.type === 'checkbox') control.checked = {json.dumps(bool(value))};
            else control.value = {json.dumps(value)};
            control.dispatchEvent(new Event('change', {{ bubbles: true }}));
        }})()""")
    page.draw_all()


def slide(page: Browser, share: float) -> str:
    """Put the hero's slider at a share of its way, and return what the hero says."""
    page.run(f"""(() => {{
        const slider = document.querySelector('#figure-answer .slider input');
        slider.value = Number(slider.min) + {share} * (slider.max - slider.min);
        slider.dispatchEvent(new Event('input', {{ bubbles: true }}));
    }})()""")
    page.settle()
    return page.run(HERO)


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
