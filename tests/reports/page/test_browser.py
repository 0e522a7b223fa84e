"""The page in a browser: it works by pointer and keys, and saves what it shows."""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dreamer_study
from dreamer_study.reports.page.report import write_report
from dreamer_study.reports.style import theme
from dreamer_study.reports.text.names import short_names
from dreamer_study.sql.results import query
from tests.reports.browser import CHROMIUM, Browser, browser
from tests.reports.small_results import POINTS, RIGHT, STUDY, whole_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHROMIUM, reason="no Chromium on this machine: install it to test the page in a browser"
    ),
]
AXE = Path(__file__).parent / "axe.min.js.gz"
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


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a study of two depths with rows in every table."""
    place = tmp_path_factory.mktemp("browser")
    right = {variant: RIGHT[variant] for variant in ("LA", "DR", "DR+DA")}
    database = whole_study(place / "results.duckdb", right, depths=(2, 4))
    return write_report(database, STUDY, place / "report", papers=False)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def page(chromium: Browser, report: Path) -> Browser:
    """The page, opened anew in a window of 1280 x 800."""
    chromium.size(1280, 800)
    chromium.colours("light")
    chromium.send("Emulation.setEmulatedMedia", media="")
    chromium.open(report.as_uri())
    return chromium


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


def test_every_figure_comes_alive_without_a_word_or_a_request(page: Browser, report: Path) -> None:
    page.draw_all()
    marks = page.run(PLOTS)
    assert len(marks) > 20
    assert all(marks)
    said = [
        event["params"]
        for event in page.events
        if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")
    ]
    called = [
        event["params"] for event in page.events if event["method"] == "Runtime.consoleAPICalled"
    ]
    assert not said
    assert not called, "no warning either"
    asked = [
        e["params"]["request"]["url"]
        for e in page.events
        if e["method"] == "Network.requestWillBeSent"
    ]
    assert {address for address in asked if not address.startswith(("data:", "blob:"))} == {
        report.as_uri()
    }


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


@pytest.mark.parametrize(
    ("menu", "value", "apart"),
    [
        ("DR", "", ("depth-attention",)),
        ("depth", "2", ("accuracy-depth-2",)),
        (
            "task",
            "gsm8k",
            ("answer", "depth-att", "expert-", "training-loss", "perplexity", "other-"),
        ),
        (
            "axis",
            "seconds",
            (
                "answer",
                "token-ratios",
                "cost-ratios",
                "ratio-",
                "depth-attention",
                "expert-",
                "other-",
                "final-accuracy",
                "item-map",
            ),
        ),
        (
            "scale",
            "linear",
            (
                "token-ratios",
                "cost-ratios",
                "ratio-",
                "depth-attention",
                "expert-",
                "other-",
                "perplexity",
                "final-accuracy",
                "item-map",
            ),
        ),
    ],
)
def test_the_toolbar_changes_all_figures_but(
    page: Browser, menu: str, value: str, apart: tuple[str, ...]
) -> None:
    page.draw_all()
    before = page.run(DRAWN)
    choose(page, **{menu: value})
    after = page.run(DRAWN)
    assert [
        name for name in before if before[name] == after[name] and not name.startswith(apart)
    ] == []
    page.run("document.querySelector('.toolbar button').click()")
    page.draw_all()
    again = page.run(DRAWN)
    assert {name: len(GIVEN.sub("", text)) for name, text in again.items()} == {
        name: len(GIVEN.sub("", text)) for name, text in before.items()
    }


def test_an_axis_of_flops_has_what_a_token_costs_times_the_tokens(page: Browser) -> None:
    choose(page, axis="flops")
    curve = page.run("""(() => {
        const view = document.querySelector('#figure-accuracy-depth-4 .plot').view;
        return Object.values(view.getState({ data: () => true, signals: () => false, recurse: true }).data).flat()
            .filter((row) => row.flops !== undefined && row.variant === 'DR').map((row) => [row.tokens, row.flops]);
    })()""")
    assert sorted({tokens for tokens, _ in curve}) == list(POINTS)
    assert all(flops == pytest.approx(3 * 9.389e8 * tokens) for tokens, flops in curve)
    title = "[...document.querySelectorAll('#figure-accuracy-depth-4 .plot text')].map((one) => one.textContent)"
    assert "training FLOPs" in page.run(title)
    assert "training tokens" not in page.run(title)


def slide(page: Browser, share: float) -> str:
    """Put the hero's slider at a share of its way, and return what the hero says."""
    page.run(f"""(() => {{
        const slider = document.querySelector('#figure-answer .slider input');
        slider.value = Number(slider.min) + {share} * (slider.max - slider.min);
        slider.dispatchEvent(new Event('input', {{ bubbles: true }}));
    }})()""")
    page.settle()
    return page.run(HERO)


HERO = (
    "[...document.querySelectorAll('#figure-answer .live')].map((one) => one.textContent).join(' ')"
)


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


def test_a_page_that_loads_again_shows_what_was_chosen_and_the_place(page: Browser) -> None:
    slide(page, 0.5)
    choose(page, task="gsm8k", DR="")
    said = page.run(HERO)
    page.run("document.querySelector('#training').scrollIntoView({behavior: 'instant'})")
    page.settle()
    top = page.run("document.querySelector('#training').getBoundingClientRect().top")
    page.send("Page.reload")
    page.wait("document.readyState === 'complete' && !document.querySelector('.toolbar')?.hidden")
    page.settle()
    assert page.run(
        "document.querySelector('#training').getBoundingClientRect().top"
    ) == pytest.approx(top, abs=30)
    assert page.run("document.querySelector('.toolbar [value=DR]').checked") is False
    assert page.run("document.querySelector('[name=task]').value") == "gsm8k"
    page.draw_all()
    assert page.run(HERO) == said
    page.run("document.querySelector('.toolbar button').click()")
    page.draw_all()
    assert page.run("location.search") == ""
    assert "Training tokens over LA’s" in page.run(HERO)


def test_a_chosen_benchmark_leaves_the_answer(page: Browser) -> None:
    choose(page, task="gsm8k")
    assert page.run(
        "document.querySelector('#figure-answer .panel:not([hidden], .nothing) svg') !== null"
    )
    assert page.run("document.querySelector('#figure-answer .empty').hidden")


def test_the_toolbar_leaves_out_seeds_and_raw_weights_of_any_panel(page: Browser) -> None:
    script = (Path(__file__).parents[3] / "reports" / "style" / "choice.js").read_text()
    left = """Object.assign(choice, { seeds: false, weights: "averaged" });
        const one = { layer: [{ name: "seeds_2" }, { name: "raw_0" }, { name: "seeds" }, { mark: "line" }] };
        keepLayers(one);
        return one.layer.length;"""
    assert page.run(f"(() => {{ {script}\n{left} }})()") == 1


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


def test_examples_are_filtered_by_who_is_right_and_the_address_keeps_the_choice(
    page: Browser,
) -> None:
    left = """[...document.querySelectorAll('#examples tr[data-item]')].filter((row) => row.checkVisibility())
        .map((row) => row.cells[0].textContent)"""
    count = "document.querySelector('.filter output').textContent"
    assert page.run(left) == [], "folded until asked for"
    assert page.run(count) == "6 of 6 shown"
    page.run("""(() => {
        const [better, worse] = ['better', 'worse'].map((name) => document.querySelector(`[name=${name}]`));
        [better.value, worse.value] = ['DR', 'LA'];
        worse.dispatchEvent(new Event('input', { bubbles: true }));
    })()""")
    assert page.run(left) == ["25 + <b>1</b>?"] * 2, "of both depths"
    assert page.run(count) == "2 of 6 shown"
    page.open(page.run("location.href"))
    assert page.run(left) == ["25 + <b>1</b>?"] * 2
    assert page.run("location.search") == "?better=DR&worse=LA"
    page.run("document.querySelector('.toolbar button').click()")
    page.settle()
    assert page.run(count) == "6 of 6 shown"
    assert page.run("location.search") == ""


QUESTIONS = """[...document.querySelectorAll('#examples tr[data-item]')].filter((row) => row.checkVisibility())
    .map((row) => row.dataset.item)"""
SHOWN_ITEM = """(() => {
    const dialog = document.querySelector('dialog.item');
    return dialog.open ? [dialog.querySelector('h3').textContent, dialog.querySelector('.item-content').textContent] : null;
})()"""


def set_filter(page: Browser, **values: str) -> None:
    for name, value in values.items():
        page.run(f"""(() => {{
            const control = document.querySelector('.filter [name={name}]');
            control.value = {json.dumps(value)};
            control.dispatchEvent(new Event('input', {{ bubbles: true }}));
        }})()""")


def press(page: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
        code = {"Enter": 13, "Escape": 27, "ArrowRight": 39, "ArrowLeft": 37}[key]
        page.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)


def test_answers_are_searched_and_put_in_order_and_the_address_keeps_both(page: Browser) -> None:
    set_filter(page, search="25 + <B>1")
    assert page.run(QUESTIONS) == ["2:gsm8k/25", "4:gsm8k/25"]
    set_filter(page, search="", order="most")
    page.run("document.querySelectorAll('#examples details').forEach((one) => { one.open = true })")
    before = page.run(QUESTIONS)
    set_filter(page, order="fewest", search="gsm8k")
    after = page.run(QUESTIONS)
    assert sorted(after) == sorted(before)
    assert after != before
    page.open(page.run("location.href"))
    assert page.run(QUESTIONS) == after
    assert page.run("location.search") == "?order=fewest&search=gsm8k"
    page.run("document.querySelector('.toolbar button').click()")
    page.settle()
    assert page.run("document.querySelector('.filter output').textContent") == "6 of 6 shown"


def test_one_question_opens_by_keys_and_by_its_address(page: Browser) -> None:
    page.run("document.querySelectorAll('#examples details').forEach((one) => { one.open = true })")
    page.run("document.querySelector('#examples button.question').focus()")
    press(page, "Enter")
    heading, content = page.run(SHOWN_ITEM)
    items = page.run(QUESTIONS)
    assert heading == f"GSM8K, question {items[0].split('/')[1]}, depth 2"
    assert all(word in content for word in ("LA", "DR", "DR+DA", "Right answer", "1M", "16M"))
    press(page, "ArrowRight")
    assert page.run(SHOWN_ITEM)[0] == f"GSM8K, question {items[1].split('/')[1]}, depth 2"
    address = page.run("location.href")
    press(page, "Escape")
    assert page.run(SHOWN_ITEM) is None
    page.wait("location.search === ''")  # a dialog tells a moment later that it is closed
    assert page.run("document.activeElement.closest('tr').dataset.item") == items[1]
    page.open(address)
    page.wait(f"{SHOWN_ITEM} !== null")
    assert page.run(SHOWN_ITEM)[0] == f"GSM8K, question {items[1].split('/')[1]}, depth 2"
    page.run(gzip.decompress(AXE.read_bytes()).decode())
    found = page.run("axe.run('dialog.item').then((result) => result.violations.map(({id}) => id))")
    assert found == []
    page.size(390, 844, phone=True)
    assert page.run("document.documentElement.scrollWidth") <= 390


def test_a_table_is_copied_as_markdown_and_as_latex(page: Browser) -> None:
    copied = page.run("""(async () => {
        const taken = [];
        Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => taken.push(text) } });
        const figure = document.querySelector('#table-2').closest('figure');
        for (const button of figure.querySelectorAll('[data-copy]')) await button.click();
        return taken;
    })()""")
    markdown, latex = (text.splitlines() for text in copied)
    assert markdown[0].startswith(
        "| Model | Depth | college PPL ↓ | GSM8K Acc ↑ | GSM8K Tokens ↓ |"
    )
    assert markdown[1] == f"|{' --- |' * 9}"
    assert markdown[3] == "| DR | 2 | 9.50 | 70.0 | 0.25 | 70.0 | 0.25 | 70.0 | 0.25 |"
    assert latex[0] == r"\begin{tabular}{lrrrrrrrr}"
    assert latex[2].startswith(r"Model & Depth & college PPL $\downarrow$ & GSM8K Acc $\uparrow$ &")
    assert latex[2].endswith(r"\\")
    assert r"$\le$\,0.062" in latex[6]
    assert latex[-1] == r"\end{tabular}"


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


# The number of marks in a file of a kind.
IN_FILE = {"svg": "count(new DOMParser().parseFromString(await file.text(), 'image/svg+xml'))"}
IN_FILE["html"] = """await (async () => {
        const frame = document.createElement('iframe');
        frame.srcdoc = await file.text();
        document.body.append(frame);
        while (!frame.contentDocument?.querySelector('#figure svg')) await new Promise((done) => setTimeout(done, 20));
        const marks = count(frame.contentDocument);
        frame.remove();
        return marks;
    })()"""


@pytest.mark.parametrize("kind", IN_FILE)
def test_a_saved_drawing_and_a_saved_page_have_as_many_marks_as_the_page(
    page: Browser, kind: str
) -> None:
    page.draw_all()
    on_page = (
        "[...figure.querySelectorAll('.live svg')].map(count).reduce((one, other) => one + other)"
    )
    # a marker and a name, which the page has in HTML
    legend = "2 * figure.querySelectorAll('.legend li').length"
    counted = of_files(page, kind, f"[{IN_FILE[kind]}, {on_page} + {legend}]")
    assert len(counted) == 17
    assert {name: pair for name, pair in counted.items() if pair[0] != pair[1] or not pair[0]} == {}


def test_a_saved_drawing_has_the_colours_of_paper(page: Browser) -> None:
    page.colours("dark")
    assert not any(of_files(page, "svg", "(await file.text()).includes('var(--')").values())


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
    # a title has a tenth of them
    assert {name: pixels for name, pixels in found.items() if pixels < 10_000} == {}


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text))


def test_saved_tables_have_a_row_for_each_mark(page: Browser) -> None:
    page.draw_all()
    drawn = "figure.querySelectorAll('.live .role-mark:is(.mark-symbol, .mark-rect) > :not([opacity=\"0\"])').length"
    images = "figure.querySelectorAll('.live :is(image, canvas)').length"
    of_figure = "([name]) => /^[.-]/.test(name.replace(figure.dataset.figure, ''))"
    texts = (
        f"await Promise.all(Object.entries(taken).filter({of_figure})"
        ".map(async ([, one]) => (await one).text()))"
    )
    found = of_files(page, "csv", f"[{texts}, {drawn}, {images}]")
    assert len(found) == 17
    for name, (saved, marks, pictures) in found.items():
        rows = 0
        for text in saved:
            numbers = table(text).drop(columns=["panel"]).select_dtypes("number")
            rows += len(numbers.dropna(how="all"))
        # a row of a bar has a mark at each end, or the bar and its mark
        ends = 2 if name in ("answer", "final-accuracy") else 1
        assert (rows >= max(1, marks / ends), pictures) == (True, 0), name


def test_a_saved_map_has_the_shares_of_all_selections(page: Browser, report: Path) -> None:
    files = of_files(page, "csv", "await file.text()")
    counts = query(
        report.parent.parent / "results.duckdb",
        "SELECT u.depth, selections FROM expert_usage u JOIN internal.model_runs USING (run_id) "
        "WHERE variant = 'DR' AND model_runs.depth = 4",
    )
    for name, share_of in (("expert-selections", "expert"), ("expert-of-depths", "depth")):
        rows = table(files[name])
        rows = rows[rows["panel"] == "DR, depth 4"]
        assert len(rows) == len(counts) == 4 * 4
        assert rows.groupby(share_of)["share"].sum().tolist() == pytest.approx([1] * 4, abs=1e-4)
    expected = counts["selections"] / counts.groupby("depth")["selections"].transform("sum")
    assert sorted(rows["share"]) == pytest.approx(sorted(expected), abs=1e-5)


def test_a_saved_curve_has_the_accuracies(page: Browser) -> None:
    rows = table(of_files(page, "csv", "await file.text()")["accuracy-depth-4"])
    assert set(rows["panel"]) == {"Average", "GSM8K", "MMLU (math)"}
    last = rows[(rows["variant"] == "LA") & (rows["tokens"] == 16_000_000) & rows["items"].notna()]
    assert set(last["accuracy"]) == {0.5}


@pytest.mark.parametrize("name", ["accuracy-depth-4", "final-accuracy"])
def test_a_saved_file_has_one_kind_of_row(page: Browser, name: str) -> None:
    saved = page.run(
        f"(() => {{ const name = '{name}';"
        "const files = []; const before = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { files.push(blob); return before(blob); };"
        "document.querySelector(`[data-figure=${name}] [data-file=csv]`).click();"
        "URL.createObjectURL = before; return Promise.all(files.map((file) => file.text())); })()"
    )
    for text in saved:
        rows = table(text)
        assert "data" not in rows
        assert not rows.drop(columns=["low", "high"], errors="ignore").isna().any(axis=None)


def test_a_saved_page_fits_its_window(page: Browser) -> None:
    fits = """await (async () => {
        const frame = document.createElement('iframe');
        frame.style = 'width: 500px; height: 400px';
        frame.srcdoc = await file.text();
        document.body.append(frame);
        while (!frame.contentDocument?.querySelector('#figure svg')) await new Promise((done) => setTimeout(done, 20));
        const { scrollWidth, clientWidth } = frame.contentDocument.documentElement;
        frame.remove();
        return scrollWidth <= clientWidth;
    })()"""
    assert all(of_files(page, "html", fits).values())


def test_no_saved_cell_is_run_by_a_spreadsheet(page: Browser) -> None:
    run, kept = ["=1+1", "+x", "-x", "@x", "\tx", "-1\t"], [-1.5, "+1", "-.5", "-1e-3", "a=1", ""]
    script = Path(theme.__file__).with_name("files.js").read_text()
    saved = page.run(f"(() => {{ {script}; return {json.dumps(run + kept)}.map(quoted); }})()")
    assert saved == [*(f"'{text}" for text in run), *map(str, kept)]


def test_a_chart_in_a_notebook_is_live_without_a_request(
    chromium: Browser, report: Path, tmp_path: Path
) -> None:
    """A notebook puts what a chart says of itself into its page, one cell after another."""
    whole = dreamer_study.results(report.parents[1] / "results.duckdb")
    cells = [
        whole.plot(name)._repr_mimebundle_()["text/html"] for name in ("answer", "token-ratios")
    ]
    page = tmp_path / "notebook.html"
    page.write_text("<!doctype html><meta charset=utf-8>" + "".join(cells))
    chromium.events.clear()
    chromium.send("Page.navigate", url=page.as_uri())
    chromium.wait("document.querySelectorAll('.vega-embed svg').length === 2")
    assert chromium.run("typeof vegaEmbed") == "undefined"  # a notebook may have its own
    requested = [
        event["params"]["request"]["url"]
        for event in chromium.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in requested if url.startswith("http")] == []


# What each figure says, by its name.
SAID = """Object.fromEntries([...document.querySelectorAll('[data-figure]')].map((figure) => [figure.dataset.figure, {
    title: figure.querySelector('.title')?.textContent ?? '',
    finding: figure.querySelector('figcaption .finding').textContent,
    caption: figure.querySelector('figcaption .caption').textContent,
    panels: [...figure.querySelectorAll('.panel:not([hidden], .nothing)')].map((panel) =>
        [panel.querySelector('.panel-title')?.textContent ?? '', panel.querySelector('.plot').getAttribute('aria-label')]),
}]))"""


def test_what_a_figure_says_follows_the_chosen_benchmark(page: Browser) -> None:
    before = page.run(SAID)["accuracy-depth-4"]
    assert before["finding"].startswith("Average, at best: LA 50.0%")
    choose(page, task="gsm8k")
    after = page.run(SAID)
    assert after["accuracy-depth-4"]["finding"].startswith("GSM8K, at best: LA 50.0%")
    assert after["accuracy-depth-4"]["caption"].endswith("Shown: GSM8K.")
    assert after["accuracy-depth-4"]["panels"][0][1].startswith("Shown: GSM8K. Accuracy on GSM8K")
    assert after["ratio-map"]["finding"].startswith("Of the whole figure: Of 8 cells")
    assert "stays the study’s answer" in after["answer"]["caption"]
    others = [said for name, said in after.items() if name.startswith(("accuracy-", "loss-"))]
    assert all("verage" not in f"{said['title']}{said['finding']}" for said in others)


def test_what_a_figure_says_follows_the_chosen_axis(page: Browser) -> None:
    page.draw_all()
    words = ("against training tokens", "against tokens")
    before = json.dumps(page.run(SAID))
    assert any(text in before for text in words)
    choose(page, axis="flops")
    after = page.run(SAID)
    answer = after.pop("answer")
    assert not any(text in json.dumps(after) for text in words)
    assert "against training FLOPs" in after["accuracy-depth-4"]["panels"][0][1]
    assert "against training tokens" in answer["panels"][0][1], "an answer is of tokens"
    headings = page.run(
        "[...document.querySelectorAll('h2, h3, nav a')].map((one) => one.textContent)"
    )
    assert not [heading for heading in headings if "against tokens" in heading.lower()]


def test_what_a_figure_says_follows_models_and_depths(page: Browser) -> None:
    choose(page, DR="", depth="4")
    said = page.run(SAID)
    assert said["accuracy-depth-4"]["finding"].startswith("Of all models: Average, at best: LA")
    assert said["accuracy-depth-4"]["caption"].endswith("Shown: LA and DR+DA.")
    assert said["token-ratios"]["caption"].endswith("Shown: DR+DA; Depth 4.")
    assert "depth 2" not in json.dumps(said["depth-attention"]).lower()


def test_a_caption_says_nothing_of_seeds_and_weights_that_are_not_shown(page: Browser) -> None:
    folder = Path(theme.__file__).parent
    script = "".join((folder / f"{name}.js").read_text() for name in ("choice", "words"))
    caption = (
        "Each marker is a checkpoint. Bands are intervals. Models of fewer than 4 seeds have their"
        " seeds as thin lines. Dotted coloured lines are the raw weights, the others the EMA"
        " weights. The dotted line is chance."
    )
    ask = f"captionOf({{ dataset: {{ figure: 'one' }} }}, {json.dumps(caption)})"
    said = page.run(f"""(() => {{ {script}
        const found = [{ask}];
        for (const chosen of [{{ seeds: false, weights: "averaged" }}, {{ weights: "raw" }}])
            found.push((Object.assign(choice, WHOLE, chosen), {ask}));
        return found;
    }})()""")
    assert said[0] == caption
    assert said[1] == "Each marker is a checkpoint. Bands are intervals. The dotted line is chance."
    assert "seeds as thin lines. Lines are the raw weights. The dotted" in said[2]


def test_a_saved_drawing_says_what_the_page_says(page: Browser) -> None:
    slide(page, 0.5)
    choose(page, task="gsm8k", axis="flops", DR="")
    said = page.run(SAID)
    drawn = of_files(page, "svg", "await file.text()")
    for name, svg in drawn.items():
        texts = [html.unescape(text) for text in re.findall(r">([^<]+)<", svg)]
        saved = " ".join(texts)
        lines = f"{said[name]['finding']} {said[name]['caption']}".split()
        assert [word for word in lines if word not in saved.split()] == [], name
    assert "Tokens to " in drawn["answer"], "as the slider stands"
    assert "training tokens" not in drawn["accuracy-depth-4"]


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


def test_question_and_study_take_little_of_the_first_screen(page: Browser) -> None:
    """They share a line; three sentences and five warnings then have room."""
    assert page.run("document.querySelector('#first header').getBoundingClientRect().height") < 30


def test_long_names_are_shown_apart_everywhere_and_told_whole(
    chromium: Browser, tmp_path: Path
) -> None:
    """Each name differs from the others in its middle."""
    names = [f"transformer-matched-{kind}-rate-searched-averaged" for kind in ("DR", "DA", "tiny")]
    right = dict(zip(["LA", *names], RIGHT.values(), strict=True))
    tables = whole_study(tmp_path / "results.duckdb", right)
    chromium.size(1280, 800)
    chromium.open(write_report(tables, STUDY, tmp_path / "report", papers=False).as_uri())
    chromium.draw_all()
    shown = list(short_names(names).shown.values())
    assert len(set(shown)) == len(names)
    for part in ("table tbody th", ".legend li", ".toolbar label[data-variant]"):
        texts = f"[...document.querySelectorAll('{part}')].map((one) => one.textContent.trim())"
        assert set(chromium.run(texts)) >= set(shown), part
        assert not set(chromium.run(texts)) & set(names), part
    told = "[...document.querySelectorAll('.role-axis-label title')].map((one) => one.textContent)"
    assert set(chromium.run(told)) >= set(names)
    titles = "[...document.querySelectorAll('table tbody th [title]')].map((one) => one.title)"
    assert set(chromium.run(titles)) == set(names)
    # what the page's script writes is as what the template writes
    choose(chromium, **{names[0]: ""})
    caption = "document.querySelector('#figure-accuracy-depth-4 .caption')"
    assert chromium.run(f"{caption}.textContent").endswith(f"Shown: LA, {shown[1]} and {shown[2]}.")
    assert chromium.run(f"{caption}.title").endswith(f"Shown: LA, {names[1]} and {names[2]}.")


def test_names_that_every_object_of_javascript_has_are_drawn(
    chromium: Browser, tmp_path: Path
) -> None:
    """Vega keeps groups by name in plain objects, where such a name has a value already."""
    counts = []
    for number, names in enumerate(
        (["alpha", "beta", "gamma"], ["constructor", "__proto__", "toString"])
    ):
        right = dict(zip(["LA", *names], [RIGHT["LA"], *[RIGHT["DR"]] * 3], strict=True))
        database = whole_study(tmp_path / f"{number}.duckdb", right, depths=(4,))
        page = write_report(database, STUDY, tmp_path / str(number), papers=False)
        chromium.open(page.as_uri())
        chromium.draw_all()
        counts.append(chromium.run(PLOTS))
    assert counts[0] == counts[1]
    assert all(counts[0])


def test_no_table_of_ratios_needs_scrolling_on_a_desktop(page: Browser) -> None:
    page.draw_all()
    too_wide = """[...document.querySelectorAll('#ratios .scroll, .compared .scroll')]
        .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent.slice(0, 80))"""
    assert page.run(too_wide) == []
