"""Every source of the table reads rows of the real set's form; entries are checked when they are resolved."""

import csv
import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.errors import InputError
from pipeline.sources.repositories.folders import source_files
from pipeline.sources.sizes import COMPRESSION, size_of
from pipeline.sources.source import notices
from pipeline.sources.stage import read_source
from pipeline.sources.table import SOURCES, resolve_source
from tests.pipeline.documents import read as documents

CASES = yaml.safe_load(Path(__file__).with_name("rows_of_sources.yaml").read_text(encoding="utf-8"))


def write(path, rows):
    """Write rows as a file of the kind that its name says; a row alone as a JSON object."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        names = dict.fromkeys(name for row in rows for name in row)
        pq.write_table(pa.table({name: pa.array([row.get(name) for row in rows]) for name in names}), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text(json.dumps(rows) if path.suffix == ".json" else "\n".join(map(json.dumps, rows)))


def read(entry, folder):
    """Read a source; return the kept and the dropped documents."""
    source = resolve_source(entry)
    read_source(source, source_files(source, folder), folder / "out")
    return documents(folder / "out"), documents(folder / "out", "dropped")


@pytest.mark.parametrize("name", CASES)
def test_rows_of_the_real_form_become_documents(name, tmp_path):
    case = CASES[name]
    for path, rows in case["files"].items():
        write(tmp_path / path, rows)
    kept, dropped = read(case["entry"], tmp_path)
    source = resolve_source(case["entry"]).name
    assert {row["source"] for row in kept} == {source}
    texts = [
        [row["id"].removeprefix(source), *(row[side] for side in ("question", "response", "answer"))] for row in kept
    ]
    assert texts == case["kept"]
    assert sorted([row["row"], row["reason"]] for row in dropped) == case.get("dropped", [])


def test_files_beside_the_study_need_no_repository(tmp_path):
    rows = [{"q": "a", "r": "1"}, {"q": "b", "r": "2"}]
    write(tmp_path / "data" / "part_10.jsonl", rows[1:])
    write(tmp_path / "data" / "part_9.jsonl", rows[:1])
    (tmp_path / "texts" / "deep").mkdir(parents=True)
    (tmp_path / "texts" / "deep" / "a.txt").write_text("One\ndocument.\n")
    (tmp_path / "b.csv").write_text("q;r\n a ;1\n")
    mine = {"name": "mine", "files": ["data/*.jsonl", "b.csv"], "question": "q", "response": "r"}
    kept, _ = read(mine, tmp_path)
    assert [(row["id"], row["question"]) for row in kept] == [("mine/0", "a"), ("mine/1", "b"), ("mine/2", "a")]
    whole, _ = read({"name": "whole", "files": str(tmp_path / "texts" / "**" / "*.txt"), "text": "text"}, tmp_path)
    assert [(row["id"], row["response"]) for row in whole] == [("whole/0", "One\ndocument.")]
    with pytest.raises(InputError, match=r"source 'mine': no file .*/data/\*\.csv"):
        read(mine | {"files": "data/*.csv"}, tmp_path)


def test_every_source_of_the_table_has_rows_of_its_form():
    assert {resolve_source(case["entry"]).name for case in CASES.values()} == SOURCES.keys()


def test_what_a_person_should_know_of_the_papers_sources_is_noted():
    assert len({source.repository for source in SOURCES.values()}) == 15
    for word, name in (("gated", "nemotron-sft-math"), ("non-commercial", "natural-reasoning")):
        assert [s.name for s in SOURCES.values() if any(word in notice for notice in notices(s))] == [name]


def test_every_source_survives_being_stored_as_json():
    for source in SOURCES.values():
        assert resolve_source(json.loads(json.dumps(dataclasses.asdict(source)))) == source


MINE = {"name": "x", "repository": "a/b"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("gsm8", r"no source 'gsm8'; did you mean 'gsm8k'\?"),
        (MINE | {"question": "q", "respones": "r"}, "'respones'; did you mean 'response"),
        ({"repository": "a/b", "question": "q", "response": "r"}, "name must be given"),
        (MINE | {"repository": "ab", "text": "t"}, "of the form owner/name"),
        (MINE | {"repository": "../..", "text": "t"}, "of the form owner/name"),
        (MINE | {"name": "../x", "text": "t"}, "letters, digits"),
        (MINE | {"question": "q"}, "give either text, or question"),
        (MINE | {"text": "t", "question": "q"}, "give either text, or question"),
        (MINE | {"text": "t", "use": "tain"}, "use must be 'train' or 'validation', not 'tain'"),
        (MINE | {"text": "t", "limit": 0}, "limit must be a whole number"),
        (MINE | {"text": "t", "remove_response": "("}, "not a regular expression"),
        (MINE | {"text": "a b c"}, "'a b c' is no SQL expression"),
        (MINE | {"text": "a[*]"}, r"is of earlier versions: write the SQL  unnest\(a\)"),
        (MINE | {"text": "t", "where": {"a": "y*"}}, "where must be SQL, such as"),
        (MINE | {"text": "t", "keep_if": "flag"}, r"keep_if needs a response of elements, such as unnest\("),
        (MINE | {"question": "unnest(t)", "response": "r"}, "unnest gives several texts a row"),
        (MINE | {"files": "a.csv", "text": "t"}, "give either repository or files"),
        ({"name": "x", "files": "a.csv", "text": "t", "delimiter": ";;"}, "delimiter must be one character"),
        ({"name": "gsm8k", "gated": "yes"}, "gated must be true or false"),
        ({"name": "gsm8k", "revision": "main"}, "revision must be a commit .*, not 'main'"),
    ],
)
def test_a_bad_entry_is_refused_in_one_line(entry, message):
    with pytest.raises(InputError, match=message) as error:
        resolve_source(entry)
    assert "\n" not in str(error.value)


def test_an_entry_with_a_name_of_the_table_changes_only_what_it_says():
    changed = resolve_source({"name": "openmathinstruct-2", "split": "train_1M", "limit": 1000})
    assert dataclasses.replace(changed, split="train", limit=None) == SOURCES["openmathinstruct-2"]
    assert resolve_source({"name": "gsm8k", "revision": None, "repository": None}).prefix == "gsm8k"


@pytest.mark.parametrize(("ending", "share"), [("jsonl", 1), ("jsonl.gz", COMPRESSION), ("jsonl.zst", COMPRESSION)])
def test_the_text_of_compressed_files_is_longer(tmp_path, ending, share):
    (tmp_path / f"a.{ending}").write_bytes(b"x" * 1000)
    assert size_of(SOURCES["gsm8k"], [tmp_path / f"a.{ending}"]).text == pytest.approx(1000 * share)
