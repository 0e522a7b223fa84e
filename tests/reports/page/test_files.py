"""Every figure is saved from inside the page as it is drawn there: as PNG, as SVG, and its values as CSV."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reports.style import theme
from sql.results import query
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
    assert len(counted) == 15
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
    assert len(found) == 15
    assert {name: pixels for name, pixels in found.items() if pixels < 10_000} == {}  # a title has a tenth of them


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text))


def test_a_saved_table_has_a_row_for_each_mark(page: Browser) -> None:
    page.draw_all()
    drawn = "figure.querySelectorAll('.live .role-mark:is(.mark-symbol, .mark-rect) > :not([opacity=\"0\"])').length"
    images = "figure.querySelectorAll('.live :is(image, canvas)').length"
    found = of_files(page, "csv", f"[await file.text(), {drawn}, {images}]")
    assert len(found) == 15
    for name, (text, marks, pictures) in found.items():
        values = table(text).drop(columns=["panel", "data"]).select_dtypes("number").dropna(how="all")
        ends = 2 if name == "answer" else 1  # a row of a bar has a mark at each end
        assert (len(values) >= max(1, marks / ends), pictures) == (True, 0), name


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


def test_no_saved_cell_is_run_by_a_spreadsheet(page: Browser) -> None:
    run, kept = ["=1+1", "+x", "-x", "@x", "\tx", "-1\t"], [-1.5, "+1", "-.5", "-1e-3", "a=1", ""]
    script = Path(theme.__file__).with_name("files.js").read_text()
    saved = page.run(f"(() => {{ {script}; return {json.dumps(run + kept)}.map(quoted); }})()")
    assert saved == [*(f"'{text}" for text in run), *map(str, kept)]
