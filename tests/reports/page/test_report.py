"""The report: whole, honest, readable without script, and safe whatever the data are called."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import altair as alt
import pytest

from pipeline.errors import InputError
from reports.data import read_study
from reports.page import report as page_of_study
from reports.page.packing import unpacked
from reports.page.report import write_data, write_report
from sql.results import connect
from tests.reports.small_results import (
    POINTS,
    RIGHT,
    STUDY,
    checkpoints,
    curation,
    entered,
    evaluations,
    model_row,
    run_row,
    study,
    whole_study,
)

VOID = {"meta", "link", "img", "br", "input"}


@dataclass
class Page(HTMLParser):
    """A parsed page: its elements, its text outside script and style, and the content of its scripts."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    scripts: list[tuple[str | None, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs).get("type"), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def packed(self) -> dict:
        """What the page's script draws figures from."""
        _, library, content = (unpacked(text) for kind, text in self.scripts if kind == "text/plain")
        assert "vegaEmbed" in library
        return json.loads(content)

    @property
    def specifications(self) -> list[dict]:
        return list(self.packed["figures"].values())


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text())
    page.close()
    assert not page.open
    return page


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
    return read(write_report(entered(tmp_path / "results.duckdb", tables), STUDY, tmp_path / "report", papers=False))


def test_the_answer_comes_first_in_words_and_numbers(page: Page) -> None:
    text = page.text
    answer = text[: text.index("The factors")]
    assert "At depth 4, for equal average accuracy, DR needed 2.52 times fewer training tokens than LA" in answer
    assert "One seed: nothing says what another would give for DR and tiny." in answer
    assert "Limited evaluation: the first 40 items of each task." in answer
    assert "Few items, so wide errors: GSM8K (40) and MMLU (math) (40)." in answer
    assert "DR+DA had LA’s best average accuracy (50.0%) by its first checkpoint" in answer, "no mean factor there"
    assert "at least 16.0 times fewer training tokens (95% interval at least" in answer
    assert "and tiny" in answer


def test_several_seeds_give_intervals_and_say_what_one_more_would_gain(tmp_path: Path) -> None:
    tables: dict = {"studies": [study()], "models": [], "runs": [], "evaluations": [], "items": []}
    right = {"LA": (4, 8, 12, 16, 20), "DR": (8, 13, 16, 22, 24)}
    for variant, counts in right.items():
        tables["models"].append(model_row(variant, variant, 4))
        for seed in range(3):
            run = f"{variant}-s{seed}"
            tables["runs"].append(run_row(run, variant))
            for name, rows in evaluations(run, [count + seed for count in counts]).items():
                tables[name] += rows
    text = read(
        write_report(
            entered(tmp_path / "results.duckdb", tables, replicates=50), STUDY, tmp_path / "report", papers=False
        )
    ).text
    assert "At depth 4, for equal average accuracy, DR needed" in text
    assert "times fewer training tokens than LA (95% interval" in text
    assert "3 seeds of each" in text
    assert "By average accuracy, with 3 seeds of each model, a study like this tells a mean factor of" in text
    assert "Intervals of mean factors are 95% t-intervals" in text


def test_the_papers_rule_is_said_below(page: Page) -> None:
    rule = page.text[page.text.index("By the paper’s rule") : page.text.index("By every rule on every benchmark")]
    assert "DR reached LA’s best average accuracy (50.0%) with 4.0 times fewer training tokens (95% interval" in rule
    assert "tiny did not reach LA’s best average accuracy (50.0%) within 16M tokens; its own best is 25.0%." in rule
    assert "Average 1.0 50.0% at 16M 4.0" in rule
    assert "at least 16.0" in rule
    assert "at most 1.0" in rule


def test_every_section_is_there(page: Page) -> None:
    headings = (
        "Accuracy and loss against tokens",
        "Results",
        "Other depths at test time",
        "Resources",
        "Training",
        "Of 1,000 documents",
        "Inside the models",
        "Run it again",
    )
    positions = [page.text.rindex(heading) for heading in headings]
    assert positions == sorted(positions)
    assert "Evaluation was limited to the first 40 items of each task" in page.text
    assert "1.1708" in page.text  # Table 1's unit is billions
    assert "too short 100" in page.text
    assert "Gini" in page.text
    assert "git checkout 0123456789ab dreamer run study.yaml" in page.text
    assert "duckdb 2.0.0, torch 2.13.0" in page.text


def test_the_file_needs_nothing_from_outside(page: Page, place: Path) -> None:
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object")
        assert "src" not in attributes
        address = attributes.get("href") or "#"
        assert address.startswith("#") or (place / address).is_file()
    style = (place / "index.html").read_text().split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_figures_for_papers_lie_beside_it(place: Path) -> None:
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg"}
    for kind, start in starts.items():
        files = list((place / "figures").glob(f"*.{kind}"))
        assert len(files) == 16
        assert all(file.read_bytes().startswith(start) for file in files)
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
    named = {
        attributes["href"][1:] for _, attributes in page.elements if (attributes.get("href") or "").startswith("#")
    }
    assert named <= set(ids)


def test_the_answer_is_drawn_without_script_in_colours_of_the_page(place: Path, page: Page) -> None:
    text = (place / "index.html").read_text()
    drawings = [part.split("</svg>")[0] for part in text.split('<div class="plot"')[1:] if "<svg" in part[:1000]]
    panels = sum(len(grid(specification)["concat"]) for specification in page.specifications)
    assert panels > 8
    assert len(drawings) == 1
    assert "var(--" in drawings[0]
    assert 'fill="#' not in drawings[0]
    assert 'stroke="#' not in drawings[0]
    assert "All figures lie beside the page" in text.split("<noscript>")[1].split("</noscript>")[0]


def test_two_writers_of_one_page_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_study(entered(tmp_path / "results.duckdb", {"studies": [study()], "curation": curation()}), STUDY)
    whole, within = write_data(data, tmp_path / "report", papers=False).read_text(), []

    def other_writer(page: Path, names: set[str]) -> None:
        monkeypatch.undo()
        within.append(write_data(data, page.parent, papers=False).read_text())

    monkeypatch.setattr(page_of_study, "_remove_old_figures", other_writer)
    page = write_data(data, tmp_path / "report", papers=False)
    assert [*within, page.read_text()] == [whole, whole]
    assert not list(page.parent.glob(".*"))


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    left, at_work = folder / ".index.html.partial", folder / ".index.html.0123.partial"
    for file, age in ((left, 7200), (at_work, 10)):
        file.write_text("half a page")
        os.utime(file, (time.time() - age,) * 2)
    report(tmp_path, {"studies": [study()], "curation": curation()})
    assert [*folder.glob(".*")] == [at_work]


def test_every_figure_says_what_it_shows(place: Path, page: Page) -> None:
    captions = re.findall(r"<figcaption>(.*?)<span class=", (place / "index.html").read_text(), re.DOTALL)
    assert len(captions) == len(page.specifications)
    answer, *others = captions
    assert "<strong>" not in answer  # the sentences beside it say it
    assert all(caption.startswith("<strong>") for caption in others)


def grid(specification: dict) -> dict:
    """The panels of a figure, without the legend."""
    return specification["vconcat"][1] if "vconcat" in specification else specification


def test_specifications_are_vega_lite(page: Page) -> None:
    for specification in page.specifications:
        assert specification["description"]
        for panel in grid(specification)["concat"]:
            alt.Chart.from_dict(panel, validate=True)


def test_the_factor_is_given_by_two_rules_with_its_bounds(page: Page) -> None:
    text = page.text
    rules = text[text.index("The factor on the average by two rules") : text.index("By every rule on every benchmark")]
    assert "Model Depth First crossing Interpolated DR 4 4.0" in rules
    assert "DR+DA 4 at least 16.0" in rules
    assert "tiny 4 at most 1.0" in rules


def test_the_inside_of_the_models_is_shown(page: Page) -> None:
    inside = page.text[page.text.rindex("Inside the models") : page.text.rindex("How far to trust this")]
    assert "The paper reports a Gini coefficient of 0.075" in inside
    assert (
        "At depth 4, the experts that carry 90% of a depth’s selections are 1.0 times as many in DR, 1.0 times"
        in inside
    )
    titles = ("Depth attention", "Balance of the experts", "Depth 4: Gini coefficient", "Depths of each expert")
    positions = [inside.index(title) for title in titles]
    assert positions == sorted(positions)


def test_epochs_and_streams_are_told_from_the_checkpoints(page: Page) -> None:
    assert "the longest run ended after 2.5 epochs (16M tokens of training, 9M in the data)" in page.text
    assert "From the checkpoint at 8M tokens on, models had seen all documents before." in page.text
    assert "From 8M tokens on the models had seen all documents before." in page.text
    assert "All models read the same tokens in the same order (checked at 5 checkpoints)." in page.text


def test_models_that_read_other_data_are_warned_of_at_once(tmp_path: Path) -> None:
    tables: dict = {"models": [], "runs": [], "evaluations": [], "checkpoints": []}
    for variant, stream in (("LA", "aa"), ("DR", "bb")):
        tables["models"].append(model_row(variant, variant, 4))
        tables["runs"].append(run_row(variant, variant))
        tables["evaluations"] += evaluations(variant, RIGHT[variant])["evaluations"]
        tables["checkpoints"] += checkpoints(variant, stream=stream)
    text = report(tmp_path, tables).text
    warning = "The models did not all read the same tokens: the hashes of what they had read differ for seed 0 at 1M"
    assert "The models did not all read the same tokens." in text[: text.index("The factors")]
    assert "tokens (DR, LA); seed 0 at 2M" in text
    assert "and at 2 further checkpoints." in text
    assert text.count(warning) == 3  # in the answer, with the runs, among the doubts


def test_other_seeds_have_other_orders(tmp_path: Path) -> None:
    tables: dict = {"models": [], "runs": [], "checkpoints": []}
    for variant, seed, status in (("LA", 0, "complete"), ("DR", 0, "screened"), ("DR", 1, "complete")):
        run = f"{variant}{seed}"
        tables["models"].append(model_row(variant, variant, 4))
        tables["runs"].append({**run_row(run, variant, status=status), "seed": seed})
        tables["checkpoints"] += checkpoints(run, stream=str(seed))
    text = report(tmp_path, tables).text
    assert "Runs of one seed read the same tokens in the same order (checked at 5 checkpoints)." in text
    assert "of different seeds (DR 1 and LA 0), so they read the same data in different orders." in text


def test_versions_are_one_short_table(page: Page) -> None:
    versions = page.text[page.text.index("What made the numbers on this page") :]
    for words in (
        "Study code 0.1.0 (0123456789ab)",
        "Evaluation code 0.1.0 (fedcba987654)",
        "Harness lm-eval 0.4.13",
        "Data: GSM8K 0a1b2c3d",
        "Evaluation packages lm-eval 0.4.13, torch 2.13.0",
    ):
        assert versions.count(words) == 1


def test_rows_that_must_not_be_are_said(tmp_path: Path) -> None:
    database = entered(tmp_path / "results.duckdb", {"studies": [study()], "runs": [run_row("r", "LA")]})
    connection = connect(database)
    connection.execute("insert into steps (run_id, step, tokens) values ('r', 1, 20), ('r', 2, 10)")
    connection.execute("insert into expert_usage values ('r', 5, 1, 0, 7), ('r', 5, 1, 0, 7)")
    connection.close()
    text = read(write_report(database, STUDY, tmp_path / "report", papers=False)).text
    assert "The results of r hold steps at which their tokens go back" in text
    assert "expert counts that were entered twice" in text


@pytest.mark.slow
def test_figures_of_an_earlier_report_go_and_nothing_else(tmp_path: Path) -> None:
    usage = [{"run_id": "r", "tokens": 5, "depth": 1, "expert": e, "selections": 9} for e in range(4)]
    tables = {"models": [model_row("LA-4", "LA", 4)], "runs": [run_row("r", "LA-4")], "curation": curation()}
    database = entered(tmp_path / "results.duckdb", {**tables, "expert_usage": usage})
    assert "lie beside" not in write_report(database, STUDY, tmp_path / "report", papers=False).read_text()
    figures = write_report(database, STUDY, tmp_path / "report").parent / "figures"
    (figures / "mine.svg").write_text("<svg/>")
    (figures / "expert-use.txt").write_text("notes")
    assert (figures / "expert-use.svg").exists()
    connection = connect(database)
    connection.execute("delete from expert_usage")
    connection.close()
    assert "lie beside" in write_report(database, STUDY, tmp_path / "report", papers=False).read_text()
    page = read(write_report(database, STUDY, tmp_path / "report"))
    assert "lie beside" in page.text
    assert not list(figures.glob("expert-*.svg"))
    assert (figures / "mine.svg").exists()
    assert (figures / "expert-use.txt").exists()
    shown = {a["data-figure"] for _, a in page.elements if "data-figure" in a}
    assert shown == {path.stem for path in figures.iterdir()} - {"mine", "expert-use"}


HOSTILE = "<script>alert(1)</script>"
IMAGE = '"></script><img src=x onerror=alert(2)>'


def test_names_from_the_data_are_text_and_nothing_else(tmp_path: Path) -> None:
    tables = {
        "studies": [{**study({"study": {"name": IMAGE}, "packages": {HOSTILE: IMAGE}}), "code_version": IMAGE}],
        "models": [model_row("a", "LA", 4), model_row("b", HOSTILE, 4)],
        "runs": [{**run_row("ra", "a"), "device": IMAGE}, run_row(IMAGE, "b", status=HOSTILE)],
        "curation": [{**row, "source": IMAGE, "reason": row["reason"].replace("too", HOSTILE)} for row in curation()],
        "steps": [
            {"run_id": IMAGE, "step": 1, "tokens": 10, "loss": 1.0},
            {"run_id": IMAGE, "step": 2, "tokens": 20, "loss": 1.0},
        ],
        "evaluations": [],
    }
    for run, right in (("ra", RIGHT["LA"]), (IMAGE, RIGHT["DR"])):
        tables["evaluations"] += evaluations(run, right, tasks=("gsm8k", HOSTILE))["evaluations"]
    page = report(tmp_path, tables)
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    plain = [kind for kind, _ in page.scripts if kind is None]
    assert len(plain) == 1  # ours
    assert HOSTILE in page.text
    assert IMAGE in page.text
    assert any(HOSTILE in json.dumps(specification) for specification in page.specifications)
    for file in (tmp_path / "report" / "figures").glob("*.svg"):
        assert "<script" not in file.read_text()


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        ((), "no accuracy has been measured"),
        (("LA",), "only the baseline LA, and no model to compare with it"),
        (("DR", "mine"), "LA, the baseline that the other models are compared with, has no accuracy"),
    ],
)
def test_a_study_without_an_answer_says_why(tmp_path: Path, variants: tuple[str, ...], said: str) -> None:
    tables: dict = {"studies": [study()], "models": [], "runs": [], "evaluations": []}
    for variant in variants:
        tables["models"].append(model_row(variant, variant, 4))
        tables["runs"].append(run_row(variant, variant))
        tables["evaluations"] += evaluations(variant, RIGHT["LA"])["evaluations"]
    page = report(tmp_path, tables)
    assert said in page.text
    assert "Inside the models" not in page.text
    assert ("Training loss" in page.text) is False


def test_one_checkpoint_and_no_intervals(tmp_path: Path) -> None:
    tables: dict = {"studies": [study()], "models": [], "runs": [], "evaluations": []}
    for variant, right in (("LA", 10), ("DR", 12), ("mine", 8)):
        tables["models"].append(model_row(variant, variant, 4))
        tables["runs"].append(run_row(variant, variant))
        tables["evaluations"] += evaluations(variant, [right], points=[1_000_000])["evaluations"]
    page = report(tmp_path, tables)
    assert "There is one checkpoint only" in page.text
    assert "No interval has been computed for this factor." in page.text
    assert "The checkpoints are too far apart to say which was first." in page.text


def test_results_from_elsewhere_may_lack_almost_everything(tmp_path: Path) -> None:
    bare = [{"run_id": run, "study_id": STUDY, "model_id": run} for run in ("LA", "other")]
    rows = [
        {"run_id": run, "tokens": tokens, "task": "riddles", "metric": "acc", "filter": "none", "value": value}
        for run, values in (("LA", (0.2, 0.4)), ("other", (0.4, None)))
        for tokens, value in zip(POINTS, values, strict=False)
    ]
    page = report(tmp_path, {"studies": [{"study_id": STUDY}], "runs": bare, "evaluations": rows})
    assert "other had LA’s best accuracy on riddles (40.0%) by its first checkpoint" in page.text
    assert "The results hold neither the configuration nor the code version" in page.text


def test_a_study_may_be_known_by_its_runs_only(tmp_path: Path) -> None:
    page = report(tmp_path, {"models": [model_row("LA-4", "LA", 4)], "runs": [run_row("r", "LA-4")]})
    assert STUDY in page.text


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (20_000_000, "No document was seen twice: the longest run read 80% of the packed data"),
        (5_000_000, "3.2 epochs"),
    ],
)
def test_going_over_the_data_more_than_once_is_said(tmp_path: Path, packed: int, said: str) -> None:
    tables = {"models": [model_row("LA-4", "LA", 4)], "runs": [run_row("r", "LA-4")], "curation": curation(packed)}
    assert said in report(tmp_path, tables).text


def test_doubts_are_said(tmp_path: Path) -> None:
    tables: dict = {"studies": [study()], "models": [], "runs": [], "evaluations": []}
    for variant, stream in (("LA", "aa"), ("DR", "bb"), ("late", "aa")):
        tables["models"].append(model_row(variant, variant, 4))
        tables["runs"].append({**run_row(variant, variant), "stream_hash": stream})
    tables["runs"][2]["status"] = "killed"
    for row in evaluations("LA", (11, 10, 10, 9, 9), tasks=("mmlu_math",))["evaluations"]:
        tables["evaluations"].append({**row, "chance": 0.25})
    tables["evaluations"] += evaluations("DR", (2, 4, 6, 8, 14), tasks=("mmlu_math",))["evaluations"]
    text = report(tmp_path, tables).text
    assert "LA itself is within two standard errors of chance here: the factor says little." in text
    assert "LA was best at its very first checkpoint" in text
    assert "DR needed 16.0 times as many training tokens" in text
    assert "their stream hashes differ" in text
    assert "Not complete: late (killed)." in text
    assert "late at depth 4 was not evaluated on anything." in text
    assert "Few items, so wide errors: MMLU (math) (40)." in text


def test_a_file_without_a_table_is_reported_on_and_the_gap_said(tmp_path: Path) -> None:
    database = entered(tmp_path / "results.duckdb", {"studies": [study()], "runs": [run_row("r", "LA")]})
    connection = connect(database)
    connection.execute("drop table depth_attention")
    connection.close()
    text = read(write_report(database, STUDY, tmp_path / "report", papers=False)).text
    assert "The results file lacks what these parts of the report are made from: attention and entered_twice." in text


def test_what_cannot_be_reported_on_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such results file"):
        write_report(tmp_path / "nothing.duckdb", STUDY, tmp_path / "report", papers=False)
    database = entered(tmp_path / "results.duckdb", {"studies": [study()]})
    with pytest.raises(InputError, match=f"no study 'other'; it has {STUDY}"):
        write_report(database, "other", tmp_path / "report")
    assert not (tmp_path / "report").exists()
