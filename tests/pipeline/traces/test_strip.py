"""Trace stripping: the ways in which public sets mark traces, several traces, and marks that are only mentioned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.traces.strip import MARKS, WORDS, strip_trace

STRIPPED = {
    "paired": ("<think>\nhm\n</think>\n\nIt is \\boxed{4}.\n", "It is \\boxed{4}."),
    "empty trace": ("<think></think>4", "4"),
    "closing mark alone": ("Okay, so...\nhm.\n</think>\n\n**Answer** 4", "**Answer** 4"),
    "thought and solution": (
        "<|begin_of_thought|>\n\nhm\n\n<|end_of_thought|>\n\n<|begin_of_solution|>\n\nIt is 4.\n\n<|end_of_solution|>",
        "It is 4.",
    ),
    "solution alone": ("<|begin_of_solution|>It is 4.<|end_of_solution|>", "It is 4."),
    "start of the response": ("<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>4<|END_RESPONSE|>", "4"),
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
    "words behind a trace": ("<reasoning>a</reasoning>\nNo.\n<reasoning>b</reasoning>\n4", "No.\n\n4"),
    "answer": ("<think>a</think>\n<answer>5 < 6</answer>", "5 < 6"),
    "answer in solution marks": ("hm</think><|begin_of_solution|><answer>5</answer><|end_of_solution|>", "5"),
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
    assert strip_trace("So <reasoning>40 + 2</reasoning> 42.", "paired") == ("So\n\n42.", "stripped")
    assert strip_trace("hm</reasoning>42", "closing") == ("42", "stripped")


plain = st.text(st.sampled_from("ab 1\n$\\{}.[]é→<"), max_size=40)


@given(trace=plain, solution=plain, marks=st.sampled_from(MARKS + WORDS))
def test_the_solution_survives_byte_for_byte(trace, solution, marks):
    opening, closing = marks
    assert strip_trace(f"{opening}{trace}{closing}{solution}") == (solution.strip(), "stripped")
    assert strip_trace(solution) == (solution, "none")
    assert strip_trace(f"{opening}{trace}").kind == "unclosed"
