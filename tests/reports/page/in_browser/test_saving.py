"""Drawings, pages and tables that are saved hold what the page shows."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest

import dreamer_study
from dreamer_study.reports.style import theme
from dreamer_study.sql.results import query
from tests.reports.browser import Browser
from tests.reports.page.in_browser.helpers import (
    in_browser,
    of_files,
)

pytestmark = in_browser

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
