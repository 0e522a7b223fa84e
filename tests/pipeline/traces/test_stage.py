"""The stage strips the traces of whole sources: counts, drops, and real rows."""

import pyarrow as pa

from pipeline.sources.stage import read_source
from pipeline.sources.table import resolve_source
from pipeline.storage.documents import SCHEMA, DocumentWriter, read_documents
from pipeline.traces.stage import DROP_EMPTY, DROP_UNCLOSED, NO_CLOSING, strip_traces
from tests.mirror import MIRROR, needs_mirror


def documents(*rows):
    table = {"id": [], "source": [], "row": [], "question": [], "response": [], "answer": []}
    for number, (source, question, response) in enumerate(rows):
        for name, value in zip(table, (f"{source}/{number}", source, number, question, response, "4"), strict=True):
            table[name].append(value)
    return pa.table(table, schema=SCHEMA)


def test_the_stage_counts_by_source_and_kind_and_keeps_order_and_answers(tmp_path):
    with DocumentWriter(tmp_path / "in") as writer:
        writer.keep(
            documents(
                ("a", "q", "<think>x</think>4"),
                ("a", "q", " untouched "),
                ("b", "q", "x</think>5"),
                ("b", "q", "<think>x"),
                ("b", "q", "<think>x</think>"),
                ("b", "q", ""),
                ("c", "q", "So <reasoning>x</reasoning>4"),
            )
        )
    said = []
    result = strip_traces(tmp_path / "in", tmp_path / "out", progress=lambda done, words: said.append(done))
    kept = [row for batch in read_documents(tmp_path / "out") for row in batch.to_pylist()]
    assert [(row["id"], row["response"], row["answer"]) for row in kept] == [
        ("a/0", "4", "4"),
        ("a/1", " untouched ", "4"),
        ("b/2", "5", "4"),
        ("b/5", "", "4"),
        ("c/6", "So <reasoning>x</reasoning>4", "4"),
    ]
    dropped = [row for batch in read_documents(tmp_path / "out", kind="dropped") for row in batch.to_pylist()]
    assert {(row["id"], row["response"], row["reason"]) for row in dropped} == {
        ("b/3", "<think>x", DROP_UNCLOSED),
        ("b/4", "<think>x</think>", DROP_EMPTY),
    }
    assert {(t["source"], t["kind"]): t["documents"] for t in result["traces"]} == {
        ("a", "none"): 1,
        ("a", "stripped"): 1,
        ("b", "none"): 1,
        ("b", "stripped"): 2,
        ("b", "unclosed"): 1,
        ("c", "none"): 1,
    }
    assert said == [1.0]


def test_where_opening_marks_are_not_stored_a_response_without_marks_is_a_trace_cut_off(tmp_path):
    with DocumentWriter(tmp_path / "in") as writer:
        writer.keep(
            documents(("a", "q", "hm</think>4"), ("a", "q", "Okay, so I have to"), ("a", "q", "Say `</think>`."))
        )
    result = strip_traces(tmp_path / "in", tmp_path / "out", marking="closing")
    kept = [row["id"] for batch in read_documents(tmp_path / "out") for row in batch.to_pylist()]
    assert kept == ["a/0"]
    dropped = [row for batch in read_documents(tmp_path / "out", kind="dropped") for row in batch.to_pylist()]
    assert [(row["id"], row["reason"], row["because"]) for row in dropped] == [
        ("a/1", DROP_UNCLOSED, NO_CLOSING),
        ("a/2", DROP_UNCLOSED, NO_CLOSING),
    ]
    assert {(t["kind"], t["documents"]) for t in result["traces"]} == {("stripped", 1), ("unclosed", 2)}


@needs_mirror
def test_real_traces(tmp_path):
    """Of the reasoning-gym rows 76 open a trace and have no closing mark at all, two more open another at the end."""
    columns = {"question": "question", "response": "response", "answer": "answer"}
    source = resolve_source({"name": "rg", "repository": "reasoning-gym/think", **columns})
    read_source(source, [MIRROR / "reasoning-gym/think/default/train.jsonl.gz"], tmp_path / "in")
    result = strip_traces(tmp_path / "in", tmp_path / "out")
    dropped = [row for batch in read_documents(tmp_path / "out", kind="dropped") for row in batch.to_pylist()]
    unclosed = [row["response"] for row in dropped if row["reason"] == DROP_UNCLOSED]
    assert sum("</think>" not in response for response in unclosed) == 76
    assert len(unclosed) == 78
    kinds = {trace["kind"]: trace["documents"] for trace in result["traces"]}
    assert kinds == {"none": 122, "stripped": 11_499, "unclosed": 78}
    for batch in read_documents(tmp_path / "out"):
        assert not any("<think>" in text or "</think>" in text for text in batch["response"].to_pylist())
