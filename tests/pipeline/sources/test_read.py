"""Sources: the table of those that are known, and their rows as documents."""

import csv
import dataclasses
import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.read import check_rows, read_source
from dreamer_study.pipeline.sources.repositories.folders import source_files
from dreamer_study.pipeline.sources.repositories.splits import find_split
from dreamer_study.pipeline.sources.sizes import COMPRESSION, size_of
from dreamer_study.pipeline.sources.source import notices
from dreamer_study.pipeline.sources.table import SOURCES, resolve_source
from dreamer_study.pipeline.storage.parallel import workers
from tests.mirror import MIRROR, needs_mirror
from tests.pipeline.documents import lines
from tests.pipeline.documents import read as documents

CASES = yaml.safe_load(Path(__file__).with_name("rows_of_sources.yaml").read_text(encoding="utf-8"))


def write(path, rows):
    """Write rows as a file of the kind that its name says; a row alone as a JSON object."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        names = dict.fromkeys(name for row in rows for name in row)
        pq.write_table(
            pa.table({name: pa.array([row.get(name) for row in rows]) for name in names}), path
        )
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text(
            json.dumps(rows) if path.suffix == ".json" else "\n".join(map(json.dumps, rows))
        )


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
        [
            row["id"].removeprefix(source),
            *(row[side] for side in ("question", "response", "answer")),
        ]
        for row in kept
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
    assert [(row["id"], row["question"]) for row in kept] == [
        ("mine/0", "a"),
        ("mine/1", "b"),
        ("mine/2", "a"),
    ]
    whole, _ = read(
        {"name": "whole", "files": str(tmp_path / "texts" / "**" / "*.txt"), "text": "text"},
        tmp_path,
    )
    assert [(row["id"], row["response"]) for row in whole] == [("whole/0", "One\ndocument.")]
    with pytest.raises(InputError, match=r"source 'mine': no file .*/data/\*\.csv"):
        read(mine | {"files": "data/*.csv"}, tmp_path)


def test_patterns_that_overlap_read_a_file_once_and_a_name_may_have_brackets(tmp_path):
    write(tmp_path / "a[1].jsonl", [{"t": "one"}])
    kept, _ = read({"name": "mine", "files": ["a[1].jsonl", "*.jsonl"], "text": "t"}, tmp_path)
    assert [row["id"] for row in kept] == ["mine/0"]


def test_a_missing_value_as_pandas_writes_it_is_an_empty_text(tmp_path):
    nan = float("nan")
    rows = [{"q": "Who?", "r": nan}, {"q": nan, "r": "x"}, {"q": "[NaN, NaN]", "r": "y", "a": nan}]
    write(tmp_path / "a.jsonl", rows)
    write(tmp_path / "b.parquet", [{"q": "Why?", "r": "z", "a": nan}])
    entry = {
        "name": "n",
        "files": ["a.jsonl", "b.parquet"],
        "question": "q",
        "response": "r",
        "answer": "a",
    }
    kept, dropped = read(entry, tmp_path)
    assert [(row["question"], row["answer"]) for row in kept] == [("[NaN, NaN]", ""), ("Why?", "")]
    assert {row["row"]: row["reason"] for row in dropped} == {
        0: "empty response",
        1: "empty question",
    }


def test_every_source_of_the_table_has_rows_of_its_form():
    assert {resolve_source(case["entry"]).name for case in CASES.values()} == SOURCES.keys()


def test_what_a_person_should_know_of_the_papers_sources_is_noted():
    assert len({source.repository for source in SOURCES.values()}) == 15
    for word, name in (("gated", "nemotron-sft-math"), ("non-commercial", "natural-reasoning")):
        assert [
            s.name for s in SOURCES.values() if any(word in notice for notice in notices(s))
        ] == [name]


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
        (
            MINE | {"text": "t", "use": "tain"},
            "use is 'tain', but it must be 'train' or 'validation'",
        ),
        (MINE | {"text": "t", "limit": 0}, "limit is 0, but it must be a whole number"),
        (MINE | {"text": "t", "remove_response": "("}, "not a regular expression"),
        (MINE | {"text": "a b c"}, "'a b c' is no SQL expression"),
        (MINE | {"text": "t", "where": {"a": "y*"}}, "but it must be SQL, such as"),
        (
            MINE | {"text": "t", "keep_if": "flag"},
            r"keep_if needs a response of elements, such as unnest\(",
        ),
        (MINE | {"question": "unnest(t)", "response": "r"}, "unnest gives several texts a row"),
        ({"name": "x", "files": [], "text": "t"}, "repository must be given"),
        (
            {"name": "x", "files": "a.csv", "text": "t", "delimiter": ";;"},
            "delimiter is ';;', but it must be one character",
        ),
        ({"name": "gsm8k", "gated": "yes"}, "gated is 'yes', but it must be true or false"),
        ({"name": "gsm8k", "revision": "main"}, "revision is 'main', but it must be a commit"),
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


@pytest.mark.parametrize(
    ("ending", "share"), [("jsonl", 1), ("jsonl.gz", COMPRESSION), ("jsonl.zst", COMPRESSION)]
)
def test_the_text_of_compressed_files_is_longer(tmp_path, ending, share):
    (tmp_path / f"a.{ending}").write_bytes(b"x" * 1000)
    assert size_of(SOURCES["gsm8k"], [tmp_path / f"a.{ending}"]).text == pytest.approx(1000 * share)


PLAIN = {"name": "plain", "repository": "a/b", "question": "q", "response": "r"}


def reasons(result):
    return {count["reason"]: count["documents"] for count in result["counts"]}


def test_every_row_is_accounted_for_and_numbered_over_all_files(tmp_path):
    files = [
        lines(tmp_path / "1.jsonl", [{"q": " a ", "r": "1\n"}, {"q": "", "r": "2"}, {"q": "c"}]),
        tmp_path / "2.jsonl",
        lines(tmp_path / "3.jsonl", [{"q": "f", "r": "6"}]),
    ]
    files[1].write_text('{"q": "d", "r": "4"}\n{"q": "e", "r": \n')
    result = read_source(resolve_source(PLAIN), files, tmp_path / "out")
    kept = {
        d["id"]: (d["row"], d["question"], d["response"], d["answer"])
        for d in documents(tmp_path / "out")
    }
    assert kept == {
        "plain/0": (0, "a", "1", ""),
        "plain/3": (3, "d", "4", ""),
        "plain/5": (5, "f", "6", ""),
    }
    dropped = {
        d["id"]: (d["reason"], d["response"]) for d in documents(tmp_path / "out", "dropped")
    }
    assert dropped == {
        "plain/1": ("empty question", "2"),
        "plain/2": ("empty response", ""),
        "plain/4": ("malformed row", '{"q": "e", "r": '),
    }
    assert reasons(result) == {
        "kept": 3,
        "empty question": 1,
        "empty response": 1,
        "malformed row": 1,
    }
    assert result["rows"] == 6


def test_a_missing_column_names_what_is_wanted_and_what_is_there(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"question": "a", "r": "b"}])
    with pytest.raises(
        InputError,
        match=r'plain.*a\.jsonl: q: .*column "q" not found.*; its columns are question, r$',
    ):
        read_source(resolve_source(PLAIN), [path], tmp_path / "out")
    row, by_place = (
        {"q": "a", "turns": [{"who": "u"}]},
        {"response": "list_extract(turns, 1).value"},
    )
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "b.parquet")
    for nested in (lines(tmp_path / "b.jsonl", [row]), tmp_path / "b.parquet"):
        with pytest.raises(InputError, match='find key "value" in struct'):
            read_source(resolve_source(PLAIN | by_place), [nested], tmp_path / "out")


def test_a_source_without_rows_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    pq.write_table(
        pa.table({"q": pa.array([], pa.string()), "r": pa.array([], pa.string())}),
        tmp_path / "a.parquet",
    )
    for name in ("a.jsonl", "a.parquet"):
        with pytest.raises(InputError, match="source 'plain' has no rows"):
            read_source(resolve_source(PLAIN), [tmp_path / name], tmp_path / "out")
    with pytest.raises(InputError, match="source 'plain' has no rows in no files"):
        read_source(resolve_source(PLAIN), [], tmp_path / "out")


def test_conditions_keep_the_rows_for_which_all_are_true(tmp_path):
    rows = [
        {"q": str(i), "r": "x", "topic": topic}
        for i, topic in enumerate(["a/1", "a_2", "b%", "c", None])
    ]
    path = lines(tmp_path / "a.jsonl", rows)
    for conditions, kept in (
        ("topic like 'a/%'", ["0"]),
        ("topic in ('a_2', 'c')", ["1", "3"]),
        (["topic >= 'b'", "q::int < 3"], ["2"]),
    ):
        read_source(resolve_source(PLAIN | {"where": conditions}), [path], tmp_path / f"out-{kept}")
        assert [d["question"] for d in documents(tmp_path / f"out-{kept}")] == kept
    reasons = {d["id"]: d["reason"] for d in documents(tmp_path / "out-['2']", "dropped")}
    assert (reasons["plain/0"], reasons["plain/3"]) == (
        "filtered by topic >= 'b'",
        "filtered by q::int < 3",
    )


def test_a_response_is_never_what_the_user_said(tmp_path):
    said = (("user", "q"), ("assistant", "a"), ("user", "more"))
    turns = [{"role": role, "content": text} for role, text in said]
    path = lines(tmp_path / "a.jsonl", [{"q": "1", "turns": turns}, {"q": "2", "turns": turns[:1]}])
    for by_place in ("turns[-1].content", "list_extract(turns, 2).content"):
        with pytest.raises(
            InputError,
            match=r"may be the user's; .*list_filter\(turns, lambda m: m.\"role\" = 'assi",
        ):
            read_source(resolve_source(PLAIN | {"response": by_place}), [path], tmp_path / "out")
    by_role = "list_filter(turns, lambda m: m.role = 'assistant')[-1].content"
    read_source(resolve_source(PLAIN | {"response": by_role}), [path], tmp_path / "out")
    assert [d["response"] for d in documents(tmp_path / "out")] == ["a"]
    assert [d["reason"] for d in documents(tmp_path / "out", "dropped")] == ["empty response"]


def test_a_value_that_cannot_be_cast_names_file_and_reason(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"q": "1", "r": "x"}])
    for read in (
        lambda source: check_rows(source, [path]),
        lambda source: read_source(source, [path], tmp_path / "o"),
    ):
        with pytest.raises(
            InputError, match=r"source 'plain': .*a\.jsonl: Could not convert string 'x' to INT32"
        ):
            read(resolve_source(PLAIN | {"where": "r::int > 1"}))


@pytest.mark.slow
def test_a_limit_is_spread_over_parquet_files_and_takes_the_head_of_others(tmp_path):
    for number in range(3):
        table = pa.table({"q": [f"{number}-{i}" for i in range(100)], "r": ["x"] * 100})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=10)
        lines(tmp_path / f"{number}.jsonl", table.to_pylist())
    read_source(resolve_source(PLAIN), sorted(tmp_path.glob("*.parquet")), tmp_path / "a", limit=60)
    rows = [d["row"] for d in documents(tmp_path / "a")]
    assert len(rows) == 60
    assert {row // 10 for row in rows} == set(range(30))
    assert all(
        d["question"] == f"{d['row'] // 100}-{d['row'] % 100}" for d in documents(tmp_path / "a")
    )
    source = resolve_source(PLAIN | {"limit": 150})
    assert read_source(source, [tmp_path / "0.parquet"], tmp_path / "whole")["rows"] == 100
    read_source(source, sorted(tmp_path.glob("*.jsonl")), tmp_path / "b")
    assert [d["row"] for d in documents(tmp_path / "b")] == list(range(150))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("limit", [None, 100])
def test_files_read_at_once_give_the_documents_of_files_read_in_turn(tmp_path, kind, limit):
    files = [tmp_path / f"{number}.{kind}" for number in range(3)]
    for path in files:
        write(path, [{"q": f"{path.stem} {i}", "r": "r" if i % 9 else ""} for i in range(70)])
    source = resolve_source(PLAIN)
    alone = read_source(source, files, tmp_path / "alone", limit=limit)
    with workers(2) as run:
        together = read_source(source, files, tmp_path / "together", limit=limit, run=run)
    assert alone == together
    for part in ("documents", "dropped"):
        here, there = (
            {path.name: path.read_bytes() for path in (tmp_path / name / part).iterdir()}
            for name in ("alone", "together")
        )
        assert here == there


def test_progress_ends_at_one(tmp_path):
    said = []
    files = [lines(tmp_path / f"{i}.jsonl", [{"q": "a", "r": "b"}] * 10) for i in range(3)]
    read_source(
        resolve_source(PLAIN),
        files,
        tmp_path / "out",
        progress=lambda done, words: said.append((done, words)),
    )
    assert said[-1] == (1.0, "plain: 30 rows")
    assert [done for done, _ in said] == sorted(done for done, _ in said)


def plain(name, repository, **changed):
    columns = {"question": "question", "response": "answer", "answer": "answer"}
    return {"name": name, "repository": repository} | columns | changed


@pytest.mark.slow
@needs_mirror
@pytest.mark.parametrize(
    ("entry", "rows", "digest"),
    [
        ("gsm8k", 7473, "2c4d1138ff7e9585"),
        (
            plain(
                "svamp",
                "svamp/svamp",
                question="concat(Body, ' ', Question)",
                response="Answer",
                answer="Answer",
            ),
            1000,
            "e4f0401b2ff9f31b",
        ),
        (plain("dm", "deepmind/mathematics"), 18105, "22928e8b0c371e36"),
        (plain("rg", "reasoning-gym/think", response="response"), 11699, "dd2ad99b00e4dd85"),
        (
            {
                "name": "openstax",
                "repository": "openstax/algebra",
                "split": "validation",
                "text": "text",
            },
            138,
            "c2b5176efe8ef3b9",
        ),
    ],
)
def test_real_rows_become_the_documents_of_all_earlier_versions(tmp_path, entry, rows, digest):
    source = resolve_source(entry)
    folder = MIRROR / source.repository
    result = read_source(source, source_files(source, folder), tmp_path / "out")
    assert (result["rows"], reasons(result)) == (rows, {"kept": rows})
    written = "".join(map(json.dumps, documents(tmp_path / "out")))
    assert hashlib.sha256(written.encode()).hexdigest().startswith(digest)
    assert find_split(folder, source.configurations[0], source.split) == source_files(
        source, folder
    )
