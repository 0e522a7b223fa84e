"""The page is read on any screen, in the dark, on paper and by assistive programs."""

from __future__ import annotations

import base64
import gzip
import re
import zlib
from pathlib import Path

import pytest

from tests.reports.browser import Browser
from tests.reports.page.in_browser.helpers import (
    AXE,
    CUT,
    HERO,
    in_browser,
)

pytestmark = in_browser


@pytest.mark.parametrize(("width", "height", "phone"), [(1280, 800, False), (390, 844, True)])
def test_the_answer_is_on_the_first_screen(
    page: Browser, width: int, height: int, phone: bool
) -> None:
    page.size(width, height, phone=phone)
    page.settle()
    for part in (".study", "h1", ".lead", ".warnings", "#figure-answer .plot"):
        assert (
            page.run(
                f"document.querySelector('#first {part}, #first{part}').getBoundingClientRect().bottom"
            )
            <= height
        )
    assert "Training tokens over LA’s" in page.run(HERO)


def test_question_and_study_take_little_of_the_first_screen(page: Browser) -> None:
    """They share a line; three sentences and five warnings then have room."""
    assert page.run("document.querySelector('#first header').getBoundingClientRect().height") < 30


def test_the_dark_is_dark(page: Browser) -> None:
    ink = "getComputedStyle(document.querySelector('#figure-answer .live .role-axis-label text')).fill"
    light = page.run(ink)
    page.colours("dark")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
    assert page.run(ink) != light


def test_a_ranked_table_stands_above_the_figure_on_a_phone(page: Browser) -> None:
    """The table has a column of its own on a desktop, for which a phone has no room."""
    page.run("document.querySelector('.said').append(document.createElement('table'))")
    columns = (
        "getComputedStyle(document.querySelector('#first')).gridTemplateColumns.split(' ').length"
    )
    is_above = """document.querySelector('.said').getBoundingClientRect().bottom
        <= document.querySelector('#figure-answer').getBoundingClientRect().top"""
    assert page.run(columns) == 2
    assert not page.run(is_above)
    page.size(390, 844, phone=True)
    assert page.run(columns) == 1
    assert page.run(is_above)


def test_a_phone_needs_no_scrolling_to_the_side(page: Browser) -> None:
    page.size(360, 740, phone=True)
    page.draw_all()
    assert page.run("document.documentElement.scrollWidth") <= 360


def test_no_table_of_ratios_needs_scrolling_on_a_desktop(page: Browser) -> None:
    page.draw_all()
    too_wide = """[...document.querySelectorAll('#ratios .scroll, .compared .scroll')]
        .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent.slice(0, 80))"""
    assert page.run(too_wide) == []


def test_print_cuts_nothing(page: Browser) -> None:
    page.size(680, 900)  # A4 within its margins
    page.draw_all()
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.run(CUT) == []
    assert page.run(
        "[...document.querySelectorAll('main details:not(.toolbar, .query)')].every((part) => part.open)"
    )


def printed(page: Browser) -> bytes:
    """The content of a printed PDF, without compression."""
    pdf = base64.b64decode(
        page.send("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.7)[
            "data"
        ]
    )
    streams = re.findall(rb"stream\r?\n(.*?)\nendstream", pdf, re.DOTALL)
    return b"".join(zlib.decompress(stream) for stream in streams if stream.startswith(b"x"))


def test_a_print_in_the_first_moment_has_every_figure(page: Browser, report: Path) -> None:
    page.draw_all()
    whole = len(printed(page))
    page.send("Page.navigate", url="about:blank")
    page.send("Page.navigate", url=report.as_uri())
    page.wait("document.readyState === 'complete' && location.protocol === 'file:'")
    assert len(printed(page)) == pytest.approx(whole, rel=0.02)


def test_a_print_has_no_controls_and_breaks_tables_between_rows(page: Browser) -> None:
    page.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    page.send("Emulation.setEmulatedMedia", media="print")
    controls = "main :is(button, input, select, dialog), .slider"
    shown = f"[...document.querySelectorAll('{controls}')].filter((one) => one.checkVisibility())"
    assert page.run(f"{shown}.filter((one) => !one.closest('th')).length") == 0
    breaks = "getComputedStyle(document.querySelector('{}')).breakInside"
    assert page.run(breaks.format("#figure-ratio-map")) == "avoid"
    assert page.run(breaks.format("figure.table")) == "auto"
    assert page.run(breaks.format("tbody tr")) == "avoid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Browser, scheme: str) -> None:
    page.colours(scheme)
    page.draw_all()
    page.run(gzip.decompress(AXE.read_bytes()).decode())
    found = page.run(
        "axe.run({resultTypes: ['violations']}).then((result) => result.violations.map(({id, impact, nodes}) =>"
        "[impact, id, nodes.length, nodes[0].html.slice(0, 200)]))"
    )
    assert [one for one in found if one[0] in ("serious", "critical")] == []
