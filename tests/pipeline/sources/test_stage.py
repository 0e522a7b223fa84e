"""Rows to documents: ids, counts, what is dropped and why, limits, and sources that cannot be read."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.sources.repositories.folders import source_files
from pipeline.sources.repositories.splits import find_split
from pipeline.sources.stage import check_rows, read_source
from pipeline.sources.table import resolve_source
from pipeline.storage.parallel import workers
from tests.mirror import MIRROR, needs_mirror
from tests.pipeline.documents import read as documents

PLAIN = {"name": "plain", "repository": "a/b", "question": "q", "response": "r"}


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


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
    kept = {d["id"]: (d["row"], d["question"], d["response"], d["answer"]) for d in documents(tmp_path / "out")}
    assert kept == {"plain/0": (0, "a", "1", ""), "plain/3": (3, "d", "4", ""), "plain/5": (5, "f", "6", "")}
    dropped = {d["id"]: (d["reason"], d["response"]) for d in documents(tmp_path / "out", "dropped")}
    assert dropped == {
        "plain/1": ("empty question", "2"),
        "plain/2": ("empty response", ""),
        "plain/4": ("malformed row", '{"q": "e", "r": '),
    }
    assert reasons(result) == {"kept": 3, "empty question": 1, "empty response": 1, "malformed row": 1}
    assert result["rows"] == 6


def test_a_missing_column_names_what_is_wanted_and_what_is_there(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"question": "a", "r": "b"}])
    with pytest.raises(InputError, match=r'plain.*a\.jsonl: q: .*column "q" not found.*; its columns are question, r$'):
        read_source(resolve_source(PLAIN), [path], tmp_path / "out")
    row, by_place = {"q": "a", "turns": [{"who": "u"}]}, {"response": "list_extract(turns, 1).value"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "b.parquet")
    for nested in (lines(tmp_path / "b.jsonl", [row]), tmp_path / "b.parquet"):
        with pytest.raises(InputError, match='find key "value" in struct'):
            read_source(resolve_source(PLAIN | by_place), [nested], tmp_path / "out")


def test_a_source_without_rows_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    pq.write_table(pa.table({"q": pa.array([], pa.string()), "r": pa.array([], pa.string())}), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        with pytest.raises(InputError, match="source 'plain' has no rows"):
            read_source(resolve_source(PLAIN), [tmp_path / name], tmp_path / "out")
    with pytest.raises(InputError, match="source 'plain' has no rows in no files"):
        read_source(resolve_source(PLAIN), [], tmp_path / "out")


def test_conditions_keep_the_rows_for_which_all_are_true(tmp_path):
    rows = [{"q": str(i), "r": "x", "topic": topic} for i, topic in enumerate(["a/1", "a_2", "b%", "c", None])]
    path = lines(tmp_path / "a.jsonl", rows)
    for conditions, kept in (
        ("topic like 'a/%'", ["0"]),
        ("topic in ('a_2', 'c')", ["1", "3"]),
        (["topic >= 'b'", "q::int < 3"], ["2"]),
    ):
        read_source(resolve_source(PLAIN | {"where": conditions}), [path], tmp_path / f"out-{kept}")
        assert [d["question"] for d in documents(tmp_path / f"out-{kept}")] == kept
    reasons = {d["id"]: d["reason"] for d in documents(tmp_path / "out-['2']", "dropped")}
    assert (reasons["plain/0"], reasons["plain/3"]) == ("filtered by topic >= 'b'", "filtered by q::int < 3")


def test_a_response_is_never_what_the_user_said(tmp_path):
    said = (("user", "q"), ("assistant", "a"), ("user", "more"))
    turns = [{"role": role, "content": text} for role, text in said]
    path = lines(tmp_path / "a.jsonl", [{"q": "1", "turns": turns}, {"q": "2", "turns": turns[:1]}])
    for by_place in ("turns[-1].content", "list_extract(turns, 2).content"):
        with pytest.raises(InputError, match=r"may be the user's; .*list_filter\(turns, lambda m: m.\"role\" = 'assi"):
            read_source(resolve_source(PLAIN | {"response": by_place}), [path], tmp_path / "out")
    by_role = "list_filter(turns, lambda m: m.role = 'assistant')[-1].content"
    read_source(resolve_source(PLAIN | {"response": by_role}), [path], tmp_path / "out")
    assert [d["response"] for d in documents(tmp_path / "out")] == ["a"]
    assert [d["reason"] for d in documents(tmp_path / "out", "dropped")] == ["empty response"]


def test_a_value_that_cannot_be_cast_names_file_and_reason(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"q": "1", "r": "x"}])
    for read in (lambda source: check_rows(source, [path]), lambda source: read_source(source, [path], tmp_path / "o")):
        with pytest.raises(InputError, match=r"source 'plain': .*a\.jsonl: Could not convert string 'x' to INT32"):
            read(resolve_source(PLAIN | {"where": "r::int > 1"}))


def test_a_limit_is_spread_over_parquet_files_and_takes_the_head_of_others(tmp_path):
    for number in range(3):
        table = pa.table({"q": [f"{number}-{i}" for i in range(100)], "r": ["x"] * 100})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=10)
        lines(tmp_path / f"{number}.jsonl", table.to_pylist())
    read_source(resolve_source(PLAIN), sorted(tmp_path.glob("*.parquet")), tmp_path / "a", limit=60)
    rows = [d["row"] for d in documents(tmp_path / "a")]
    assert len(rows) == 60
    assert {row // 10 for row in rows} == set(range(30))
    assert all(d["question"] == f"{d['row'] // 100}-{d['row'] % 100}" for d in documents(tmp_path / "a"))
    source = resolve_source(PLAIN | {"limit": 150})
    assert read_source(source, [tmp_path / "0.parquet"], tmp_path / "whole")["rows"] == 100
    read_source(source, sorted(tmp_path.glob("*.jsonl")), tmp_path / "b")
    assert [d["row"] for d in documents(tmp_path / "b")] == list(range(150))


def test_ten_megabyte_documents_pass(tmp_path):
    rows = [{"q": f"q{i}", "r": "word " * 2_000_000} for i in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert read_source(resolve_source(PLAIN), [tmp_path / "a.parquet"], tmp_path / "out")["rows"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("limit", [None, 100])
def test_files_read_at_once_give_the_documents_of_files_read_in_turn(tmp_path, kind, limit):
    files = []
    for number in range(3):
        rows = [{"question": f"{number} {i}", "response": "r"} for i in range(70)]
        path = tmp_path / f"{number}.{kind}"
        if kind == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n\n" for row in rows) + "broken\n")
        elif kind == "csv":
            path.write_text("question,response\n" + "".join(f"{row['question']},r\n" for row in rows))
        else:
            pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
        files.append(path)
    source = resolve_source({"name": "s", "repository": "a/b", "question": "question", "response": "response"})
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
    read_source(resolve_source(PLAIN), files, tmp_path / "out", progress=lambda done, words: said.append((done, words)))
    assert said[-1] == (1.0, "plain: 30 rows")
    assert [done for done, _ in said] == sorted(done for done, _ in said)


def plain(name, repository, **changed):
    columns = {"question": "question", "response": "answer", "answer": "answer"}
    return {"name": name, "repository": repository} | columns | changed


@needs_mirror
@pytest.mark.parametrize(
    ("entry", "rows", "digest"),
    [
        ("gsm8k", 7473, "2c4d1138ff7e9585"),
        (
            plain("svamp", "svamp/svamp", question="concat(Body, ' ', Question)", response="Answer", answer="Answer"),
            1000,
            "e4f0401b2ff9f31b",
        ),
        (plain("dm", "deepmind/mathematics"), 18105, "22928e8b0c371e36"),
        (plain("rg", "reasoning-gym/think", response="response"), 11699, "dd2ad99b00e4dd85"),
        (
            {"name": "openstax", "repository": "openstax/algebra", "split": "validation", "text": "text"},
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
    assert find_split(folder, source.configurations[0], source.split) == source_files(source, folder)
