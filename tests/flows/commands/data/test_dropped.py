"""`dreamer dropped` and `dreamer preview`: what a person sees of a prepared study's data, and of
one without any."""

import io
import json
import re
from itertools import combinations
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.data_plan import DataPlan
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import curation_counts, prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.storage.documents import KEPT
from dreamer_study.reports.audit.removals import VIEWS, read_removals
from tests.flows.small_study import TINY
from tests.pipeline.documents import read

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("study")
    plan = Plan(load_study(str(TINY), root=root))
    prepare_data(plan, Steps())
    rows = list(curation_counts(plan.data))
    assert all(row["tokens"] > 0 for row in rows)
    stages = list(dict.fromkeys(row["stage"] for row in rows))
    assert stages == ["documents", "traces", "clean", "deduplicate", "decontaminate", "tokens"]
    # the first two change texts
    for amount, places in (("documents", stages), ("tokens", stages[2:])):
        before = None
        for stage in places:  # each takes in what the one before it kept
            counts = [row for row in rows if row["stage"] == stage]
            assert before in (None, sum(row[amount] for row in counts))
            before = sum(row[amount] for row in counts if row["reason"] == KEPT)
    assert before == plan.data.packed.results["tokens"]
    return root


def data(root: Path) -> DataPlan:
    return Plan(load_study(str(TINY), root=root)).data


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    output = capsys.readouterr()
    return status, output.out, output.err


def test_every_reason_is_listed_with_an_example_beside_its_cause(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = said(capsys, "dropped", str(TINY), "--root", str(root))
    assert status == 0
    for row in (row for row in curation_counts(data(root)) if row["reason"] != KEPT):
        assert out.count(f": {row['reason']}\n") == 1
    assert "because         world" in out
    assert "\ncause question  " in out


def test_a_sample_is_drawn_by_its_seed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = (
        "--reason",
        "near_duplicate",
        "--stage",
        "deduplicate",
        "--source",
        "world",
        "--format",
        "jsonl",
    )

    def drawn(*further: str) -> list[dict]:
        status, out, _ = said(capsys, "dropped", str(TINY), "--root", str(root), *asked, *further)
        assert status == 0
        return [json.loads(line) for line in out.splitlines()]

    rows = drawn("--sample", "10")
    assert len(rows) == 10
    assert rows == drawn("--sample", "10", "--seed", "0")
    assert {row["id"] for row in rows} != {
        row["id"] for row in drawn("--sample", "10", "--seed", "1")
    }
    assert all(row["reason"] == "near_duplicate" and 0.5 < row["score"] <= 1 for row in rows)
    documents = {row["id"]: row for row in read(data(root).sources[0].clean.path)}
    assert all(row["cause_question"] == documents[row["because"]]["question"] for row in rows)
    assert all(row["question"] == documents[row["id"]]["question"] for row in rows)
    assert drawn("--id", rows[0]["id"]) == rows[:1]


def test_findings_of_a_grade_stand_beside_their_item(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--grade", "exact", "--sample", "100", "--format", "csv")
    status, out, _ = said(capsys, "dropped", str(TINY), "--root", str(root), *asked)
    assert status == 0
    rows = pd.read_csv(io.StringIO(out))
    (counts,) = [row for row in curation_counts(data(root)) if "contaminated" in row["reason"]]
    assert len(rows) == counts["documents"]
    assert set(rows["grade"]) == {"exact"}
    assert rows["cause_question"].notna().all()


def test_a_page_to_judge_them_is_written(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "audit.html"
    status, out, _ = said(
        capsys, "dropped", str(TINY), "--root", str(root), "--sample", "7", "--html", str(page)
    )
    assert status == 0
    assert str(page) in out
    assert page.read_text().count("<article") == 7


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            ("--reason", "exact_duplicat"),
            "nothing was dropped by reason 'exact_duplicat'; there is ",
        ),
        (("--stage", "cleaning"), "documents, traces"),
        (("--source", "gsm8k"), "there is world"),
        (
            ("--stage", "traces", "--reason", "exact_duplicate"),
            "nothing was dropped by stage 'traces' and reason",
        ),
        (("--grade", "near"), "must be one of exact, overlap"),
        (("--id", "world/nothing"), "nothing was dropped by id 'world/nothing'"),
        (("--sample", "0"), "at least 1"),
    ],
)
def test_unknown_names_are_told_what_there_is(
    root: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], words: str
) -> None:
    status, _, error = said(capsys, "dropped", str(TINY), "--root", str(root), *asked)
    assert status == 2
    assert words in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("remove", [["exact"], []])
def test_stages_that_are_switched_off_have_dropped_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], near: bool, remove: list[str]
) -> None:
    content = yaml.safe_load(TINY.read_text())
    content["data"]["world"] |= {"documents": 300}
    content["data"] |= {"deduplicate": {"near": near}, "decontaminate": {"remove": remove}}
    study = tmp_path / "off.yaml"
    study.write_text(yaml.safe_dump(content))
    prepare_data(Plan(load_study(str(study), root=tmp_path)), Steps())
    for further in ((), ("--sample", "3"), ("--grade", "exact"), ("--stage", "deduplicate")):
        status, out, error = said(capsys, "dropped", str(study), "--root", str(tmp_path), *further)
        assert status == 0, error
        assert ("near_duplicate" in out and "similarity" in out) or near is False or further


@pytest.mark.parametrize("size", range(len(VIEWS)))
def test_files_of_any_stages_may_be_absent(tmp_path: Path, size: int) -> None:
    folder = tmp_path / "deduplicate" / "key" / "dropped"
    folder.mkdir(parents=True)
    names = VIEWS["dropped"].split()[:-1]
    pq.write_table(pa.table({name: ["text"] for name in names}), folder / "00000.parquet")
    files = {"dropped": [folder / "00000.parquet"]}
    types = {"similarity": pa.float64(), "coverage": pa.float64()}
    for view in VIEWS.keys() - files.keys():
        columns = {name: types.get(name, pa.string()) for name in VIEWS[view].split()}
        files[view] = [tmp_path / f"{view}.parquet"]
        pq.write_table(pa.schema(columns).empty_table(), files[view][0])
    asked = dict.fromkeys(("stage", "source", "reason", "grade", "id"))
    for absent in combinations([view for view in VIEWS if view != "dropped"], size):
        there = {view: paths for view, paths in files.items() if view not in absent}
        rows = read_removals(there, sample=9, seed=0, each=False, **asked)
        assert rows["question"].tolist() == ["text"]
        assert rows["score"].isna().all()


def test_a_preview_shows_rows_with_what_carries_loss(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = said(capsys, "preview", str(TINY), "--root", str(root), "--rows", "2")
    assert status == 0
    assert out.count("── row") == 2
    documents = [line for line in out.splitlines() if line.startswith("[")]
    assert documents
    kept = {row["id"]: row for row in read(data(root).curated.path)}
    for line, answer in zip(documents, out.split("Answer:")[1:], strict=True):
        document = kept[re.match(r"\[\d+ tokens, (\S+) of world\] ", line)[1]]
        assert document["question"] in line.replace("«", "").replace("»", "")
        assert f"{document['response']}<|end|>" in answer.replace("«", "").replace("»", "")
    assert out.count("<|end|>»") == len(documents)
    if load_study(TINY).training.loss_on == "all":
        assert "tokens] Q«uestion:" in out
    else:
        assert "Answer:« " in out
    again = said(capsys, "preview", str(TINY), "--root", str(root), "--rows", "2", "--seed", "1")
    assert again[1] != out


def test_a_preview_of_a_seed_that_the_study_has_not(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, error = said(capsys, "preview", str(TINY), "--root", str(root), "--seed", "9")
    assert (status, error.count("\n")) == (2, 1)
    assert "the seeds 0, 1" in error
