"""Nothing of a figure lies on something else, also on a phone and with many variants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dreamer_study.reports.page.report import write_report
from tests.reports.browser import CHROMIUM, Browser, browser
from tests.reports.small_results import STUDY, whole_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHROMIUM, reason="no Chromium on this machine: install it to test the page in a browser"
    ),
]
BEST = (20, 24, 28, 32, 36)
# Baseline and twelve variants: some end close together, some never reach the baseline's best.
RIGHT = {"LA": (4, 8, 12, 16, 20)}
RIGHT |= {
    f"a-long-name-of-variant-{number:02d}": tuple(
        max(1, count - 10 - number // 2 + 3 * (number % 3)) for count in BEST
    )
    for number in range(12)
}
FIGURES = ("answer", "ratio-map", "token-ratios", "cost-ratios")
TEXTS = "[...figure.querySelectorAll('.live svg text')].filter((one) => one.textContent.trim() && one.checkVisibility({ opacityProperty: true }))"
# Pairs of texts of a figure of which each covers a part of the other; a halo has its text's words.
OVERPRINTED = f"""(() => {{
    const figure = document.querySelector('#figure-NAME');
    const texts = {TEXTS}.map((one) => [one.textContent, one.getBoundingClientRect()]);
    const found = [];
    texts.forEach(([first, one], number) => texts.slice(number + 1).forEach(([second, other]) => {{
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const along = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (first !== second && across > 1 && along > 3) found.push([first, second]);
    }}));
    return found;
}})()"""
CUT = f"""(() => {{
    const figure = document.querySelector('#figure-NAME');
    return {TEXTS}.filter((one) => {{
        const frame = one.closest('svg').getBoundingClientRect();
        const box = one.getBoundingClientRect();
        return box.left < frame.left - 1 || box.right > frame.right + 1;
    }}).map((one) => one.textContent);
}})()"""
# Where "1x" and the title of its axis are, in each plot of a figure: the middles, and the frame.
ONES = """[...document.querySelectorAll('#figure-NAME .live svg')].map((svg) => {
    const middle = ({ left, right }) => (left + right) / 2;
    const texts = [...svg.querySelectorAll('text')].filter((one) => one.checkVisibility({ opacityProperty: true }));
    const one = texts.find((text) => text.textContent === '1x');
    const title = texts.find((text) => text.textContent.includes('1  →'));
    const box = title?.getBoundingClientRect();
    const frame = svg.getBoundingClientRect();
    return title && { one: one && middle(one.getBoundingClientRect()), title: middle(box),
        room: [frame.left + box.width / 2, frame.right - box.width / 2] };
}).filter(Boolean)"""
# Labels of the strip that the line at 1 goes through, or that cover it.
CROSSED = """(() => {
    const svg = document.querySelectorAll('#figure-answer .live svg')[1];
    const line = svg.querySelector('.role-mark.mark-rule line').getBoundingClientRect();
    return [...svg.querySelectorAll('.role-mark.mark-text text')].filter((text) => {
        const box = text.getBoundingClientRect();
        return box.top >= line.top && box.left < line.left && box.right > line.left;
    }).map((text) => text.textContent);
})()"""
# What tells the marks of variants apart in a panel of a forest: colour and outline.
MARKS = """(() => {
    const panel = document.querySelector('#figure-NAME .panel');
    const shapes = [...panel.querySelectorAll('.live .mark-symbol path')];
    return shapes.map((one) => `${one.getAttribute('stroke')} ${one.getAttribute('d')}`);
})()"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a study of twelve variants."""
    place = tmp_path_factory.mktemp("layout")
    database = whole_study(place / "results.duckdb", RIGHT)
    return write_report(database, STUDY, place / "report", papers=False)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module", params=["phone", "desktop"])
def page(chromium: Browser, report: Path, request: pytest.FixtureRequest) -> Browser:
    """The page with its figures drawn, on a phone and on a desktop."""
    is_phone = request.param == "phone"
    chromium.size(*((390, 844) if is_phone else (1280, 800)), phone=is_phone)
    chromium.open(report.as_uri())
    chromium.draw_all()
    return chromium


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_lies_on_another_or_is_cut(page: Browser, name: str) -> None:
    assert page.run(OVERPRINTED.replace("NAME", name)) == []
    assert page.run(CUT.replace("NAME", name)) == []


@pytest.mark.parametrize("name", ["answer", "token-ratios", "cost-ratios"])
def test_the_title_of_ratios_stands_below_1x(page: Browser, name: str) -> None:
    plots = page.run(ONES.replace("NAME", name))
    assert plots
    for plot in plots:
        assert plot["one"] is not None
        low, high = plot["room"]
        # by a few pixels less room, for the title's width is estimated
        nearest = min(max(plot["one"], low), high)
        assert plot["title"] == pytest.approx(nearest, abs=12)


def test_no_label_breaks_the_line_at_1(page: Browser) -> None:
    assert page.run(CROSSED) == []


@pytest.mark.parametrize("name", ["token-ratios", "cost-ratios"])
def test_twelve_variants_have_twelve_marks(page: Browser, name: str) -> None:
    assert len(set(page.run(MARKS.replace("NAME", name)))) >= len(RIGHT) - 1


def test_a_name_away_from_the_end_of_its_curve_has_a_line_to_it(page: Browser) -> None:
    """Of thirteen curves most end closer together than their names are high."""
    lines = page.run("""document.querySelector('#figure-answer .live svg')
        .querySelectorAll('.role-mark.mark-rule line').length""")
    assert lines >= 6, "without them the level of chance alone"


EDGE = """(async () => {
    const picture = await createImageBitmap(await (await fetch('data:image/png;base64,PICTURE')).blob());
    const canvas = new OffscreenCanvas(picture.width, picture.height).getContext('2d');
    canvas.drawImage(picture, 0, 0);
    const pixels = canvas.getImageData(picture.width - 3, 0, 1, picture.height).data;
    const paper = [255, 255, 255];
    let dark = 0;
    for (let place = 0; place < pixels.length; place += 4)
        if (paper.some((value, channel) => value - pixels[place + channel] > 12)) dark += 1;
    return dark / picture.height;
})()"""


def test_a_table_shows_that_it_goes_on_at_its_edge(chromium: Browser, report: Path) -> None:
    chromium.size(390, 844, phone=True)
    chromium.colours("light")
    chromium.open(report.as_uri())
    wide = (
        "[...document.querySelectorAll('#ratios .scroll')].find((one) =>"
        " one.scrollWidth > one.clientWidth + 60 && one.checkVisibility())"
    )
    shares = []
    for place in ("0", f"{wide}.scrollWidth"):
        chromium.run(f"{wide}.scrollTo({{ left: {place}, behavior: 'instant' }})")
        chromium.run(f"{wide}.scrollIntoView({{ behavior: 'instant', block: 'start' }})")
        chromium.settle()
        x, y, width, height = chromium.run(
            f"(({{ x, y, width, height }}) => [x, y + scrollY, width, height])({wide}.getBoundingClientRect())"
        )
        clip = {"x": x, "y": y, "width": width, "height": min(height, 600), "scale": 1}
        shot = chromium.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
        )
        shares.append(chromium.run(EDGE.replace("PICTURE", shot["data"])))
    cut, whole = shares
    assert cut > 0.8
    assert whole < 0.5
