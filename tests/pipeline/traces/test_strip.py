"""Traces are stripped, response by response and as a stage."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.pipeline.sources.read import read_source
from dreamer_study.pipeline.sources.table import resolve_source
from dreamer_study.pipeline.traces.strip import MARKS, WORDS, strip_trace
from dreamer_study.pipeline.traces.strip_source import (
    DROP_EMPTY,
    DROP_UNCLOSED,
    DROP_UNMARKED,
    NO_CLOSING,
    strip_traces,
)
from tests.mirror import MIRROR, needs_mirror
from tests.pipeline.documents import read, table, write

STRIPPED = {
    "paired": ("<think>\nhm\n</think>\n\nIt is \\boxed{4}.\n", "It is \\boxed{4}."),
    "empty trace": ("<think></think>4", "4"),
    "closing mark alone": ("Okay, so...\nhm.\n</think>\n\n**Answer** 4", "**Answer** 4"),
    "thought and solution": (
        "<|begin_of_thought|>\n\nhm\n\n<|end_of_thought|>\n\n<|begin_of_solution|>\n\nIt is 4.\n\n<|end_of_solution|>",
        "It is 4.",
    ),
    "solution alone": ("<|begin_of_solution|>It is 4.<|end_of_solution|>", "It is 4."),
    "start of the response": (
        "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>4<|END_RESPONSE|>",
        "4",
    ),
    "channels": (
        "<|start|>assistant<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>",
        "4",
    ),
    "several": ("<think>a</think>one\n<think>b</think>\ntwo", "one\n\ntwo"),
    "text before": ("Before.\n<think>\na\n</think>\nAfter.", "Before.\n\nAfter."),
    "opened twice": ("<think>a, then <think> inside</think>4", "4"),
    "closed twice": ("<think>say </think> early, go on</think>4", "4"),
    "closed twice, never opened": ("one</think>two</think>4", "4"),
    "one trace inside another": ("<thinking>a <reflection>b</reflection> c</thinking>4", "4"),
    "words behind a trace": (
        "<reasoning>a</reasoning>\nNo.\n<reasoning>b</reasoning>\n4",
        "No.\n\n4",
    ),
    "answer": ("<think>a</think>\n<answer>5 < 6</answer>", "5 < 6"),
    "answer in solution marks": (
        "hm</think><|begin_of_solution|><answer>5</answer><|end_of_solution|>",
        "5",
    ),
    "answer within text": ("<think>a</think>So <answer>5</answer>", "So 5"),
    "answer in an answer": ("<think>a</think><answer>\n<answer> 5 </answer>\n</answer>", "5"),
    "answer without a trace": ("It is 5. <answer>5</answer>", "It is 5. 5"),
    "escaped for HTML": ("&lt;think&gt;a < b&lt;/think&gt;5 &lt; 6", "5 &lt; 6"),
    "spaces and line breaks in tags": ("< think >a</ think\n>\n<answer\n>5</answer>", "5"),
    "closing mark twice": ("<think>a</think></think>4", "4"),
    "unclosed with an answer": ("<think>in <answer> </answer> I write <answer>4</answer>", "4"),
    "unclosed with a solution": (
        "<|begin_of_thought|>hm <|begin_of_solution|>So <answer>4</answer>.<|end_of_solution|>",
        "So 4.",
    ),
    "empty solution marks before an answer": (
        "<think>hm <|begin_of_solution|> <|end_of_solution|> <answer>4</answer>",
        "4",
    ),
    "code in the trace": ("<think>try\n```\nx = `1\n</think>\n4", "4"),
    "mark in code in the trace": ("<think>print `</think>` and </think>4", "4"),
    "quotation behind the mark": ('<think>a</think>"4" it is', '"4" it is'),
    "nothing left, paired": ("<think>hm</think>\n", ""),
    "nothing left, closing": ("hm</think>", ""),
}


@pytest.mark.parametrize("name", STRIPPED)
def test_a_response_becomes_its_solution(name):
    response, text = STRIPPED[name]
    assert strip_trace(response) == (text, "stripped")


@pytest.mark.parametrize(
    "response",
    [
        "<think>never closed, but \\boxed{4}",
        "<think>a</think>4\n<think>and again",
        "<|channel|>analysis<|message|>cut off",
        "<reasoning>cut off",
        "<think>is it <answer>5</answer",
        "<think>hm <|begin_of_solution|>It is",
    ],
)
def test_a_trace_without_an_end_leaves_nothing(response):
    assert strip_trace(response) == ("", "unclosed")


@pytest.mark.parametrize(
    "response",
    [
        "No marks at all. ",
        "Write `<think>` first and `</think>` last.",
        'print("<think>")',
        "So the result is <reasoning>42</reasoning> here.",
        "Declare vector<thought> v; and use it.",
        'Print "<answer>" first, " and `&lt;think&gt;`.',
    ],
)
def test_mentions_and_words_within_text_stay_as_they_are(response):
    assert strip_trace(response) == (response, "none")


def test_a_source_that_declares_traces_is_believed():
    assert strip_trace("So <reasoning>40 + 2</reasoning> 42.", "paired") == (
        "So\n\n42.",
        "stripped",
    )
    assert strip_trace("hm</reasoning>42", "closing") == ("42", "stripped")


plain = st.text(st.sampled_from("ab 1\n$\\{}.[]é→<"), max_size=40)


@given(trace=plain, solution=plain, marks=st.sampled_from(MARKS + WORDS))
def test_the_solution_survives_byte_for_byte(trace, solution, marks):
    opening, closing = marks
    assert strip_trace(f"{opening}{trace}{closing}{solution}") == (solution.strip(), "stripped")
    assert strip_trace(solution) == (solution, "none")
    assert strip_trace(f"{opening}{trace}").kind == "unclosed"


@pytest.mark.parametrize("mark", ["<", "&lt;"])
def test_spaces_without_end_take_no_hours(mark):
    began = process_time()
    strip_trace(f"{mark}{' ' * 20_000}x")
    assert process_time() - began < 1


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
    marks = ("<think", "</think", "<answer>", "</answer>")
    assert not any(mark in row["response"] for row in read(tmp_path / "out") for mark in marks)
