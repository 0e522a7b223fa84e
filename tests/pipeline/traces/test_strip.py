"""Trace stripping: the four markings, several blocks, and marks that are only mentioned."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.traces.marks import MARKS
from pipeline.traces.strip import DECLARED, NONE, strip_trace
from tests.pipeline.traces import specification

FENCE = "```"


@pytest.mark.parametrize(
    ("response", "text", "kind"),
    [
        ("No marks at all. ", "No marks at all. ", "none"),
        ("<think>\nhm\n</think>\n\nIt is \\boxed{4}.\n", "It is \\boxed{4}.", "paired"),
        ("<think></think>4", "4", "paired"),
        ("<THINK>hm</Think>4", "4", "paired"),
        ("<thinking>hm</thinking>4", "4", "paired"),
        ("[THINK]hm[/THINK]4", "4", "paired"),
        ("◁think▷hm◁/think▷4", "4", "paired"),
        ("<seed:think>hm</seed:think>4", "4", "paired"),
        ("<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>4<|END_RESPONSE|>", "4", "paired"),
        ("<|begin_of_thinking|>hm<|end_of_thinking|>\n4", "4", "paired"),
        ("<reasoning_process>hm</reasoning_process>4", "4", "paired"),
        ("<longcat_think>hm</longcat_think>4", "4", "paired"),
        ("<unused94>thought\nhm<unused95>4", "4", "paired"),
        ("<|im_start|>think\nhm\n<|im_start|>answer\n4", "4", "paired"),
        (
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>It is 4.<|return|>",
            "It is 4.",
            "paired",
        ),
        ("<|start|>assistant<|channel|>analysis<|message|>cut off", "", "unclosed"),
        ("hm<|end|><|start|>assistant<|channel|>final<|message|>4", "4", "closing"),
        ("<think>a</think>\nNo.\n<reasoning>b</reasoning>\n4", "No.\n\n4", "several"),
        ("<thinking>a <reflection>b</reflection> c</thinking>4", "4", "paired"),
        ("one</think>two</think>4", "4", "closing"),
        ("Okay, so...\nhm.\n</think>\n\n**Answer** 4", "**Answer** 4", "closing"),
        (
            "<|begin_of_thought|>\n\nhm\n\n<|end_of_thought|>\n\n"
            "<|begin_of_solution|>\n\nIt is 4.\n\n<|end_of_solution|>",
            "It is 4.",
            "thought",
        ),
        ("<|begin_of_solution|>It is 4.<|end_of_solution|>", "It is 4.", "thought"),
        ("<think>a</think>one\n<think>b</think>\ntwo", "one\n\ntwo", "several"),
        ("so <think>a</think> it is", "so it is", "paired"),
        ("Before.\n<think>\na\n</think>\nAfter.", "Before.\n\nAfter.", "paired"),
        ("<think>never closed, but \\boxed{4}", "", "unclosed"),
        ("<think>a</think>4\n<think>and again", "", "unclosed"),
        ("<think>a, then <think> inside</think>4", "4", "paired"),
        ("<think>say </think> early, go on</think>4", "4", "several"),
        ("<think>hm</think>\n", "", "paired"),
        ("hm</think>", "", "closing"),
        ("<think >a</think >5", "5", "paired"),
        ("a\n</think >\n5", "5", "closing"),
        ("<|thinking_start|>a<|thinking_end|>5", "5", "paired"),
        (
            "<begin_of_thought>a<end_of_thought>\n<begin_of_solution>5<end_of_solution>",
            "5",
            "thought",
        ),
        ("<analysis>a</analysis>5", "5", "paired"),
        ("\n<Reason >a, b < c</reason>\n\n5", "5", "paired"),
        ("<cot>a <think>b</think> c</cot>5", "5", "paired"),
        ("<rationale>a</rationale>\n<answer>5</answer>", "5", "paired"),
        ("<analysis>a</analysis><think>b</think>5", "5", "several"),
        ("<think>a</think>\n<answer>5</answer>", "5", "paired"),
        ("a</think>\n<Answer>\n5 < 6\n</answer>\n", "5 < 6", "closing"),
        ("<think>a</think><|begin_of_solution|><answer>5</answer><|end_of_solution|>", "5", "paired"),
    ],
)
def test_markings(response, text, kind):
    assert strip_trace(response) == (text, kind)


@pytest.mark.parametrize(
    "response",
    [
        "Write `<think>` first and `</think>` last.",
        "The mark is ``</think>``.",
        f"Use this:\n{FENCE}\n<think>\nreason\n</think>\nanswer\n{FENCE}\nDone.",
        f"{FENCE}python\nprint('a</think>b')\n{FENCE}",
        'print("<think>")',
        "The tag “</think>” ends it.",
    ],
)
def test_marks_in_code_and_quotation_marks_are_left_alone(response):
    assert strip_trace(response) == (response, "none")


@pytest.mark.parametrize(
    "response",
    [
        "So <analysis>a</analysis> is 5.",
        "Write:\n<rationale>a</rationale>\n5",
        "<analysis>a</analysis>",  # nothing else: it is the solution
        "<analysis>never closed, so not known to be a trace",
        "<reason>a</cot>5",
        "<reasons>a</reasons>5",
        '<analysis type="x">a</analysis>5',
        "a</analysis>5",
        "If a <cot> b and c </cot> d",
        "a < think > b",
        f"{FENCE}xml\n<analysis>a</analysis>\n{FENCE}",
        "<answer>5</answer>",
    ],
)
def test_common_words_are_marks_only_of_a_trace_that_begins_the_response(response):
    assert strip_trace(response) == (response, "none")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("<think>a</think>So <answer>5</answer>", "So <answer>5</answer>"),
        ("<think>a</think><answer>5</answer> or <answer>6</answer>", "<answer>5</answer> or <answer>6</answer>"),
        ("<think>a</think><answer>5", "<answer>5"),
        ("<answer>5 <think>a</think></answer>", "<answer>5 </answer>"),
        ("<|begin_of_solution|><answer>5</answer><|end_of_solution|>", "<answer>5</answer>"),
    ],
)
def test_answer_marks_stay_unless_they_are_around_all_that_follows_a_trace(response, text):
    assert strip_trace(response).text == text


def test_code_inside_a_trace_does_not_hide_its_end():
    assert strip_trace(f"<think>try\n{FENCE}\nx = `1\n</think>\n4").text == "4"
    assert strip_trace("<think>print `</think>` and </think>4").text == "4"
    # A fence left open in a trace without an opening mark must not swallow the mark and the solution's own block.
    assert strip_trace(f"try\n{FENCE}\nx = 1\n</think>\n\nRun\n{FENCE}\n2\n{FENCE}").text == f"Run\n{FENCE}\n2\n{FENCE}"


@pytest.mark.parametrize(
    ("question", "response", "text", "kind"),
    [
        ("What does <think> mean?", "The mark <think> opens a trace, </think> ends it.", None, "none"),
        ("What does </think> do?", "After </think> comes the answer.", None, "none"),
        ("What does </think> do?", "<think>easy</think>It ends a trace.", "It ends a trace.", "paired"),
        ("Answer as <think>...</think>.", "Well.\n<think>\nhm\n</think>\n4", "Well.\n\n4", "paired"),
        ("Answer as <think>...</think>.", "<think>never closed", "", "unclosed"),
        ("Answer as <think>...</think>. Go: <think>", "hm</think>4", "4", "closing"),
        ("2+2? <think>\n", "hm</think>4", "4", "closing"),
    ],
)
def test_marks_that_the_question_speaks_of(question, response, text, kind):
    assert strip_trace(response, question) == (response if text is None else text, kind)


FORMAT = (
    "Present the thought section as <|begin_of_thought|> {thoughts} <|end_of_thought|> and the solution section as "
    "<|begin_of_solution|> {solution} <|end_of_solution|>. Now: what is 2 + 2?"
)


@pytest.mark.parametrize(
    ("response", "marking"),
    [
        ("<|begin_of_thought|>\n\nhm\n\n<|end_of_thought|>\n\n<|begin_of_solution|>\n4\n<|end_of_solution|>", "none"),
        ("Well: <|begin_of_thought|>hm<|end_of_thought|>\n\n<|begin_of_solution|>4<|end_of_solution|>", "thought"),
        ("<|begin_of_solution|>4<|end_of_solution|>", "none"),
        ("hm\n<|end_of_thought|>\n4", "thought"),
    ],
)
def test_a_question_that_explains_the_format_leaves_no_mark_of_it(response, marking):
    assert strip_trace(response, FORMAT, marking).text.removeprefix("Well:").strip() == "4"


@pytest.mark.parametrize(
    "response",
    [
        "So the result is <reasoning>42</reasoning> here.",
        "Here the tag <think> is used to reason.",
        "Write <think>, then reason. Write </think>, then answer.",
        "Declare vector<thought> v; and use it.",
        "Declare\nvector<thought> v;",
        "The reply\n<thinking>a</thinking>\nis XML.",
        "a</reasoning>5",
    ],
)
def test_words_and_mentions_are_no_marks_unless_the_source_declares_traces(response):
    assert strip_trace(response) == (response, "none")


def test_a_declared_source_is_believed():
    assert strip_trace("So <reasoning>40 + 2</reasoning> 42.", marking="paired") == ("So 42.", "paired")
    assert strip_trace("hm</reasoning>42", marking="paired") == ("42", "closing")
    question = "Reason in <think> and </think>."
    assert strip_trace("Well, so <think>hm</think> 42", question, "paired") == ("Well, so 42", "paired")
    assert strip_trace("Well, so <think>hm</think> 42", question).kind == "none"
    assert strip_trace("The tag <think> is used.", marking="paired").kind == "none"


@pytest.mark.parametrize("attributes", [' type="x"', " type='x' n=1", " type = x "])
def test_attributes_are_part_of_a_mark(attributes):
    assert strip_trace(f"<think{attributes}>a</think>5") == ("5", "paired")


plain = st.text(st.sampled_from("ab 1\n$\\{}.`[]é→"), max_size=40)


@given(trace=plain, solution=plain, marks=st.sampled_from(MARKS))
def test_the_solution_survives_byte_for_byte(trace, solution, marks):
    opening, closing = marks
    assert strip_trace(f"{opening}{trace}{closing}{solution}").text == solution.strip()
    assert strip_trace(solution) == (solution, "none")
    assert strip_trace(f"{opening}{trace}").kind == "unclosed"


pieces = st.sampled_from(["<think>", "</think>", "a", "\n", " ", "`", FENCE, "<|end_of_solution|>"])


@given(st.lists(pieces, max_size=12).map("".join))
def test_nothing_is_invented_and_nothing_is_left_to_strip(response):
    text, kind = strip_trace(response)
    if kind in ("none", "unclosed"):
        assert text == ("" if kind == "unclosed" else response)
    else:
        assert text == text.strip()
        assert len(text) <= len(response) + response.count("<think>")  # blank lines between the parts


surrounded = st.one_of(
    st.sampled_from([mark for pair in MARKS for mark in pair]),
    st.sampled_from(["<think>", "</think>", "</think >", "<think x=[think]>", '<think\nx="`">']),
    st.sampled_from(["<thought>", "</thought>", "<cot>", "</cot>", "<answer>", "</answer>"]),
    st.sampled_from(["<|begin_of_solution|>", "<|end_of_solution|>", "<|start|>assistant"]),
    st.sampled_from(["`", "``", FENCE, "~~~", "\n", "\n\n", " ", "\t", '"', "a", " is used", "."]),
)
texts = st.lists(surrounded, max_size=16).map("".join)


@settings(max_examples=500)
@given(texts, st.one_of(st.just(""), st.lists(surrounded, max_size=3).map("".join)), st.sampled_from([NONE, *DECLARED]))
def test_the_rules_are_those_of_the_plain_form(response, question, marking):
    assert strip_trace(response, question, marking) == specification.strip_trace(response, question, marking)


@pytest.mark.parametrize(
    "unit",
    [
        "<think>a</think>",
        "a <reasoning> b",
        "`<think>` and ",
        "``` </think> ` ",
        "</reasoning>",
        "<thought>a</thoughts>",
        "x <|begin_of_solution|> y",
        "<think x=[think]>a",
        f"{FENCE}\n</think>\n",
        f"{FENCE}\n</think>\n{FENCE}\n",
    ],
)
def test_the_time_grows_with_the_number_of_marks_and_not_with_their_square(unit):
    question = "What do <|begin_of_solution|> and <|end_of_solution|> mean?"

    def seconds(count):
        """The least CPU time of some tries: other programs only make it longer."""
        tries = []
        for _ in range(5):
            began = time.process_time()
            strip_trace("So " + unit * count, question)
            tries.append(time.process_time() - began)
        return min(tries)

    assert seconds(8000) < 128 * seconds(500)  # the square: 256 times
