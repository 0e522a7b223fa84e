"""Traces are stripped as a stage, which counts what it strips by source and kind."""

from collections import Counter

import pytest

from dreamer_study.pipeline.sources.read import read_source
from dreamer_study.pipeline.sources.table import resolve_source
from dreamer_study.pipeline.traces.strip_source import (
    DROP_EMPTY,
    DROP_UNCLOSED,
    DROP_UNMARKED,
    NO_CLOSING,
    strip_traces,
)
from tests.mirror import MIRROR, needs_mirror
from tests.pipeline.documents import read, table, write


def test_the_stage_counts_by_source_and_kind_and_keeps_order_and_answers(tmp_path):
    sources = {
        "a": ["<think>x</think>4", " untouched "],
        "b": ["x</think>5", "<think>x", "<think>x</think>", ""],
        "c": ["So <reasoning>x</reasoning>4"],
    }
    tables = [
        table((("q", response, "4") for response in responses), name)
        for name, responses in sources.items()
    ]
    write(tmp_path / "in", *tables)
    said = []
    result = strip_traces(
        tmp_path / "in", tmp_path / "out", progress=lambda done, words: said.append(done)
    )
    assert [(row["id"], row["response"], row["answer"]) for row in read(tmp_path / "out")] == [
        ("a/0", "4", "4"),
        ("a/1", " untouched ", "4"),
        ("b/0", "5", "4"),
        ("b/3", "", "4"),
        ("c/0", "So <reasoning>x</reasoning>4", "4"),
    ]
    assert {
        (row["id"], row["response"], row["reason"]) for row in read(tmp_path / "out", "dropped")
    } == {
        ("b/1", "<think>x", DROP_UNCLOSED),
        ("b/2", "<think>x</think>", DROP_EMPTY),
    }
    assert {(t["source"], t["kind"]): t["documents"] for t in result["traces"]} == {
        ("a", "none"): 1,
        ("a", "stripped"): 1,
        ("b", "none"): 1,
        ("b", "stripped"): 2,
        ("b", "unclosed"): 1,
        ("c", "none"): 1,
    }
    assert result["marks"] == [{"source": "c", "mark": "<reasoning>", "documents": 1}]
    assert said == [1.0]


def test_where_opening_marks_are_not_stored_a_response_without_marks_is_a_trace_cut_off(tmp_path):
    write(
        tmp_path / "in",
        table([("q", "hm</think>4"), ("q", "Okay, so I have to"), ("q", "Say `</think>`.")], "a"),
    )
    result = strip_traces(tmp_path / "in", tmp_path / "out", marking="closing")
    assert [row["id"] for row in read(tmp_path / "out")] == ["a/0"]
    assert [
        (row["id"], row["reason"], row["because"]) for row in read(tmp_path / "out", "dropped")
    ] == [
        ("a/1", DROP_UNCLOSED, NO_CLOSING),
        ("a/2", DROP_UNCLOSED, NO_CLOSING),
    ]
    assert {(t["kind"], t["documents"]) for t in result["traces"]} == {
        ("stripped", 1),
        ("unclosed", 2),
    }


def test_a_long_response_without_marks_is_left_out_where_others_have_traces(tmp_path):
    rows = [("q", "<think>hm</think>4"), ("q", "é" * 20), ("q", "é" * 21)]
    write(tmp_path / "in", table(rows, "a"))
    result = strip_traces(tmp_path / "in", tmp_path / "out", marking="paired", longest_unmarked=20)
    assert [row["id"] for row in read(tmp_path / "out")] == ["a/0", "a/1"]
    assert [(row["id"], row["reason"]) for row in read(tmp_path / "out", "dropped")] == [
        ("a/2", DROP_UNMARKED)
    ]
    assert {(t["kind"], t["documents"]) for t in result["traces"]} == {
        ("stripped", 1),
        ("none", 1),
        ("unmarked", 1),
    }
    strip_traces(tmp_path / "in", tmp_path / "undeclared", longest_unmarked=20)
    assert len(read(tmp_path / "undeclared")) == 3


def test_with_kept_traces_every_document_stays_as_it_is(tmp_path):
    rows = [("q", "<think>hm</think>4"), ("q", "<think>never closed"), ("<think>a</think>b", "5")]
    write(tmp_path / "in", table(rows, "a"))
    result = strip_traces(tmp_path / "in", tmp_path / "out", marking="kept", longest_unmarked=3)
    assert read(tmp_path / "out") == read(tmp_path / "in")
    assert not read(tmp_path / "out", "dropped")
    assert {(row["kind"], row["documents"]) for row in result["traces"]} == {("none", 3)}


@pytest.mark.slow
@needs_mirror
def test_real_traces(tmp_path):
    """Of the reasoning-gym rows 78 open a trace without an end; 65 of them have an answer, marked
    as such."""
    columns = {"question": "question", "response": "response", "answer": "answer"}
    source = resolve_source({"name": "rg", "repository": "reasoning-gym/think", **columns})
    read_source(source, [MIRROR / "reasoning-gym/think/default/train.jsonl.gz"], tmp_path / "in")
    result = strip_traces(tmp_path / "in", tmp_path / "out")
    kinds = {trace["kind"]: trace["documents"] for trace in result["traces"]}
    assert kinds == {"none": 2, "stripped": 11_684, "unclosed": 13}
    assert result["marks"] == []
    dropped = read(tmp_path / "out", "dropped")
    assert Counter(row["reason"] for row in dropped) == {DROP_UNCLOSED: 13, DROP_EMPTY: 2}
    marks = ("<think", "</think", "<answer>", "</answer>")
    assert not any(mark in row["response"] for row in read(tmp_path / "out") for mark in marks)
