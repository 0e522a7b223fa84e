"""Figures and tables answer to the pointer: the slider, zoom, marks and headers."""

from __future__ import annotations

import json
import re

from tests.reports.browser import Browser
from tests.reports.page.in_browser.helpers import (
    HERO,
    choose,
    in_browser,
    slide,
)

pytestmark = in_browser


def test_the_slider_moves_arrow_tokens_ratio_and_height(page: Browser) -> None:
    page.settle()
    arrow = "[...document.querySelectorAll('#figure-answer .mark-rule line')].map((one) => one.outerHTML).join()"
    said, drawn = [page.run(HERO)], [page.run(arrow)]
    for share in (0.2, 0.4):
        said.append(slide(page, share))
        drawn.append(page.run(arrow))
    assert "Training tokens over LA’s" in said[0]
    assert re.search(r"DR 0\.\d\dx", said[0])
    assert all("x LA’s" in words and "Tokens to " in words for words in said[1:])
    assert len(set(said)) == len(set(drawn)) == 3


def test_at_each_end_of_the_slider_every_model_has_a_line(page: Browser) -> None:
    """The right end is the best score of all, which DR+DA alone has."""
    page.settle()
    easiest = slide(page, 1 / 101)
    assert all(f"{name} " in easiest for name in ("LA", "DR", "DR+DA"))
    assert "never" not in easiest
    hardest = slide(page, 1)
    assert "Tokens to 90.0 %" in hardest
    assert "LA: never (best 50.0 %)" in hardest
    assert "DR: never (best 70.0 %)" in hardest
    assert "DR+DA 16M" in hardest


def test_zoom_moves_an_axis(page: Browser) -> None:
    choose(page, zoom="1")
    page.run("document.querySelector('#figure-answer').scrollIntoView({behavior: 'instant'})")
    page.settle()
    labels = "[...document.querySelectorAll('#figure-answer .role-axis-label text')].map((label) => label.textContent)"
    before = page.run(labels)
    x, y = page.run("""(({x, y, width, height}) => [x + width / 2, y + height / 2])(
        document.querySelector('#figure-answer .live').getBoundingClientRect())""")
    for kind in ("mouseMoved", "mouseWheel"):
        page.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, deltaX=0, deltaY=-300)
    page.wait(
        f"JSON.stringify({labels}) !== {json.dumps(json.dumps(before, separators=(',', ':'), ensure_ascii=False))}"
    )


def test_a_mark_tells_its_numbers(page: Browser) -> None:
    page.draw_all()  # or figures above would move the marks
    for figure in ("accuracy-depth-4", "training-loss"):
        page.run(
            f"document.querySelector('#figure-{figure}').scrollIntoView({{behavior: 'instant', block: 'center'}})"
        )
        page.settle()
        places = page.run(
            f"[...document.querySelectorAll('#figure-{figure} .live :is(.mark-symbol, .mark-rect) path')].slice(-40)"
            ".map((mark) => mark.getBoundingClientRect())"
            ".map(({x, y, width, height}) => [x + width / 2, y + height / 2])"
        )
        assert any(_told(page, x, y) for x, y in reversed(places)), figure


def _told(page: Browser, x: float, y: float) -> bool:
    """Tell whether numbers appear where the mouse is; a ring and a line of levels have none."""
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    page.settle()
    return page.run(
        "(document.querySelector('#vg-tooltip-element.visible')?.textContent.length ?? 0) > 5"
    )


def test_pointing_at_a_model_makes_the_others_faint_everywhere(page: Browser) -> None:
    page.draw_all()
    faint = """[[...document.querySelectorAll('main .faint')].map((one) => one.dataset.variant),
        document.querySelectorAll('[data-figure] .live svg:has([opacity="0.12"])').length]"""
    assert page.run(faint) == [[], 0]
    point = "document.querySelector('{}').dispatchEvent(new PointerEvent('pointerover', {{ bubbles: true }}))"
    page.run(point.format('.legend [data-variant="DR"]'))
    page.settle()
    others, figures = page.run(faint)
    assert set(others) == {"LA", "DR+DA"}
    assert figures > 10
    page.run(point.format("h1"))
    page.settle()
    assert page.run(faint) == [[], 0]


def test_tables_sort(page: Browser) -> None:
    column = "[...document.querySelectorAll('#table-1')].map((head) => head.closest('figure').querySelector('table'))[0]"
    names = f"[...{column}.tBodies[0].rows].map((row) => row.cells[0].textContent.trim() + row.cells[1].textContent)"
    click = f"{column}.tHead.rows[0].cells[1].querySelector('button').click()"
    before = page.run(names)
    page.run(click)
    down = page.run(names)
    page.run(click)
    up = page.run(names)
    page.run(click)
    assert [name[-1] for name in down] == sorted((name[-1] for name in before), reverse=True)
    assert [name[-1] for name in up] == sorted(name[-1] for name in before)
    assert page.run(names) == before
