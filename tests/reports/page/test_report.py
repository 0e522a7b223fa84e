"""The report: whole, readable without script, traceable to queries, and safe whatever the data are
called.

python -m tests.reports.page.test_report    # writes the text that was reviewed anew, to be reviewed again
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from dataclasses import dataclass, field
from gzip import decompress
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

import altair as alt
import pyarrow as pa
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.data import QUERIES, read_study
from dreamer_study.reports.figures.rendering import put
from dreamer_study.reports.page import report as page_of_study
from dreamer_study.reports.page.report import write_data, write_report
from dreamer_study.sql.materialised import keep_views
from dreamer_study.sql.results import connect, ingest
from tests.reports.small_results import (
    RIGHT,
    STUDY,
    curation,
    entered,
    evaluations,
    model_row,
    run_row,
    study,
    whole_study,
)

pytestmark = pytest.mark.slow

VOID = {"meta", "link", "img", "br", "input"}
PARTS = {
    "p",
    "h1",
    "h2",
    "h3",
    "li",
    "tr",
    "figcaption",
    "summary",
    "dt",
    "label",
    "option",
    "figure",
    "button",
    "pre",
}


@dataclass
class Page(HTMLParser):
    """A parsed page: its elements, its lines of words, and the content of its scripts by type."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    scripts: list[tuple[str | None, str]] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=lambda: [[]])
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in PARTS:
            self.lines.append([])
        if tag == "script":
            self.scripts.append((dict(attrs).get("type"), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif not {"style", "svg"} & set(self.open):
            self.lines[-1].append(data)

    @property
    def text(self) -> str:
        joined = (" ".join(" ".join(words).split()) for words in self.lines)
        return "\n".join(filter(None, joined))

    @property
    def content(self) -> dict[str, dict]:
        """What the page's script draws from."""
        library, content, *_ = (
            decompress(b64decode(text)).decode()
            for kind, text in self.scripts
            if kind == "text/plain"
        )
        assert "vegaEmbed" in library
        return json.loads(content)

    @property
    def figures(self) -> dict[str, dict]:
        """The specifications from which the page's script draws, by the names of the figures."""
        return self.content["figures"]


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text())
    page.close()
    assert not page.open
    return page


REVIEWED = Path(__file__).with_name("small_report.txt")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report on a study with rows in every table."""
    place = tmp_path_factory.mktemp("report")
    database = whole_study(place / "results.duckdb", depths=(4,))
    assert write_report(database, STUDY, place / "report") == place / "report" / "index.html"
    return place / "report"


@pytest.fixture(scope="module")
def page(place: Path) -> Page:
    return read(place / "index.html")


def report(tmp_path: Path, tables: dict) -> Page:
    return read(
        write_report(
            entered(tmp_path / "results.duckdb", tables), STUDY, tmp_path / "report", papers=False
        )
    )


def test_the_text_is_the_reviewed_one(page: Page) -> None:
    assert page.text.splitlines() == REVIEWED.read_text().splitlines()


def test_every_query_gives_the_rows_of_its_frame(page: Page, place: Path) -> None:
    text = (place / "index.html").read_text()
    shown = [
        unescape(part.split("</code>")[0]) for part in text.split('<pre tabindex="0"><code>')[1:]
    ]
    asked = {one for part in shown for one in part.split("\n\n") if f"'{STUDY}'" in one}
    data = read_study(place.parent / "results.duckdb", STUDY)
    connection = connect(place.parent / "results.duckdb", read_only=True)
    keep_views(connection, STUDY)
    frames = {sql.replace("?", f"'{STUDY}'"): data.frames[name] for name, sql in QUERIES.items()}
    assert len(asked) > 15
    for one in asked:
        assert len(connection.execute(one).fetchall()) == len(frames[one]), one
    connection.close()
    boxes = Counter(tag for tag, attributes in page.elements if attributes.get("class") == "query")
    assert boxes["details"] == sum(tag == "figure" for tag, _ in page.elements)


def test_the_file_needs_nothing_from_outside(page: Page, place: Path) -> None:
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object")
        assert "src" not in attributes
        address = attributes.get("href") or "#"
        assert address.startswith("#") or (place / address).is_file()
    style = (place / "index.html").read_text().split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_figures_for_papers_lie_beside_it(place: Path, page: Page) -> None:
    for kind, start in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg"}.items():
        files = {file.stem: file.read_bytes() for file in (place / "figures").glob(f"*.{kind}")}
        assert files.keys() == page.figures.keys()
        assert all(content.startswith(start) for content in files.values())
    assert "var(--" not in (place / "figures" / "accuracy-depth-4.svg").read_text()
    assert (place / "study.yaml").read_text().startswith("name: small\n")


def test_it_reads_well_to_a_screen_reader(page: Page) -> None:
    count = Counter(tag for tag, _ in page.elements)
    assert count["h1"] == count["main"] == count["title"] == 1
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        if tag == "th":
            assert attributes["scope"] in ("col", "row", "colgroup")
        if attributes.get("class") == "plot":
            assert attributes["role"] == "img"
            assert len(attributes["aria-label"] or "") > 20
        for name in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name, ids[0]) in ids
        address = attributes.get("href") or ""
        assert not address.startswith("#") or address[1:] in ids


def test_the_answer_is_drawn_without_script_in_colours_of_the_page(place: Path) -> None:
    text = (place / "index.html").read_text()
    curves, strip = [
        part.split("</svg>")[0]
        for part in text.split('<div class="plot"')[1:]
        if "<svg" in part[:1000]
    ]
    for drawing in (curves, strip):
        assert "var(--" in drawing
        assert 'fill="#' not in drawing
        assert 'stroke="#' not in drawing


def test_specifications_are_vega_lite(page: Page) -> None:
    texts = page.content["texts"]
    for name, figure in page.figures.items():
        panels = (figure["vconcat"][1] if "vconcat" in figure else figure)["concat"]
        descriptions = [panel["description"] for panel in texts[name]["panels"]]
        assert len(descriptions) == len(panels)
        assert all(descriptions)
        for panel in panels:
            alt.Chart.from_dict(panel, validate=True)


def test_two_writers_of_one_page_do_not_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = read_study(
        entered(tmp_path / "results.duckdb", {"studies": [study()], "curation": curation()}), STUDY
    )
    whole, within = write_data(data, tmp_path / "report", papers=False).read_text(), []

    def other_writer(page: Path, names: set[str]) -> None:
        monkeypatch.undo()
        within.append(write_data(data, page.parent, papers=False).read_text())

    monkeypatch.setattr(page_of_study, "_remove_old_figures", other_writer)
    page = write_data(data, tmp_path / "report", papers=False)
    assert [*within, page.read_text()] == [whole, whole]
    assert not list(page.parent.glob(".*"))


def test_figures_of_an_earlier_report_go_and_nothing_else(tmp_path: Path) -> None:
    usage = [
        {"run_id": "r", "tokens": 5, "depth": 1, "expert": e, "selections": 9} for e in range(4)
    ]
    tables = {
        "models": [model_row("LA-4", "LA", 4)],
        "runs": [run_row("r", "LA-4")],
        "curation": curation(),
    }
    steps = [{"run_id": "r", "step": step, "tokens": 10 * step, "loss": 1.0} for step in (1, 2)]
    database = entered(
        tmp_path / "results.duckdb", {**tables, "expert_usage": usage, "steps": steps}
    )
    figures = write_report(database, STUDY, tmp_path / "report").parent / "figures"
    (figures / "mine.svg").write_text("<svg/>")
    (figures / "expert-use.txt").write_text("notes")
    assert (figures / "expert-use.svg").exists()
    connection = connect(database)
    connection.execute("delete from expert_usage")
    connection.close()
    page = read(write_report(database, STUDY, tmp_path / "report"))
    assert {path.stem for path in figures.iterdir()} == page.figures.keys() | {"mine", "expert-use"}
    assert not (figures / "expert-use.svg").exists()


HOSTILE = "<script>alert(1)</script>"
IMAGE = '"></script><img src=x onerror=alert(2)>'


def test_names_from_the_data_are_text_and_nothing_else(tmp_path: Path) -> None:
    tables = {
        "studies": [
            {
                **study({"study": {"name": IMAGE}, "packages": {HOSTILE: IMAGE}}),
                "code_version": IMAGE,
            }
        ],
        "models": [model_row("a", "LA", 4), model_row("b", HOSTILE, 4)],
        "runs": [{**run_row("ra", "a"), "device": IMAGE}, run_row(IMAGE, "b", status=HOSTILE)],
        "curation": [
            {**row, "source": IMAGE, "reason": row["reason"].replace("too", HOSTILE)}
            for row in curation()
        ],
        "steps": [
            {"run_id": IMAGE, "step": step, "tokens": 10 * step, "loss": 1.0} for step in (1, 2)
        ],
        "evaluations": [],
    }
    for run, right in (("ra", RIGHT["LA"]), (IMAGE, RIGHT["DR"])):
        tables["evaluations"] += evaluations(run, right, tasks=("gsm8k", HOSTILE))["evaluations"]
    page = report(tmp_path, tables)
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert not [
        name for _, attributes in page.elements for name in attributes if name.startswith("on")
    ]
    assert [kind for kind, _ in page.scripts].count(None) == 1  # ours
    assert HOSTILE in page.text
    assert IMAGE in page.text
    assert HOSTILE in json.dumps(page.figures)


def test_a_file_from_before_there_were_facts_about_items_has_its_report(tmp_path: Path) -> None:
    database = whole_study(tmp_path / "results.duckdb", {"LA": RIGHT["LA"], "DR": RIGHT["DR"]})
    connection = connect(database)
    connection.execute("drop table item_facts")
    connection.execute("update schema_version set digest = 'older'")
    connection.close()
    page = read(write_report(database, STUDY, tmp_path / "report", papers=False))
    assert "final-accuracy" in page.figures
    assert "accuracy-by-steps" not in page.figures


def test_steps_of_items_have_their_figure(tmp_path: Path) -> None:
    database = whole_study(tmp_path / "results.duckdb", {"LA": RIGHT["LA"], "DR": RIGHT["DR"]})
    facts = [
        {"study_id": STUDY, "task": "gsm8k", "item_id": str(item), "fact": "steps", "value": steps}
        for item, steps in ((0, 1), (1, 1), (39, 2))
    ]
    ingest(database, {"item_facts": pa.Table.from_pylist(facts)})
    page = read(write_report(database, STUDY, tmp_path / "report", papers=False))
    assert "accuracy-by-steps" in page.figures
    assert "GSM8K, depth 4: LA from 100.0% at 1 to 0.0% at 2" in page.text


def test_what_cannot_be_reported_on_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such results file"):
        write_report(tmp_path / "nothing.duckdb", STUDY, tmp_path / "report", papers=False)
    database = entered(tmp_path / "results.duckdb", {"studies": [study()]})
    with pytest.raises(InputError, match=f"no study 'other'; it has {STUDY}"):
        write_report(database, "other", tmp_path / "report")
    assert not (tmp_path / "report").exists()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        database = whole_study(Path(folder) / "results.duckdb", depths=(4,))
        REVIEWED.write_text(
            read(write_report(database, STUDY, Path(folder) / "report")).text + "\n"
        )


def test_links_in_a_folder_of_a_strangers_lead_no_write_elsewhere(tmp_path: Path) -> None:
    mine, there = tmp_path / "mine", tmp_path / "there"
    mine.write_text("mine")
    there.mkdir()
    for name in ("index.html", "study.yaml", "answer.svg"):
        (there / name).symlink_to(mine)
    tables = {"studies": [study({"study": {"name": "s"}})], "models": [model_row("a", "LA", 4)]}
    write_report(
        entered(tmp_path / "results.duckdb", tables | {"runs": [run_row("ra", "a")]}),
        STUDY,
        there,
        papers=False,
    )
    put(there / "answer.svg", b"<svg/>")  # as every file of a figure is written
    assert mine.read_text() == "mine"
    assert (there / "study.yaml").read_text() == "name: s\n"
    assert (there / "answer.svg").read_text() == "<svg/>"
