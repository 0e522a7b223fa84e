"""Traces are stripped, response by response."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.pipeline.traces.marks import EXAMPLES
from dreamer_study.pipeline.traces.strip import examine, strip_history, strip_trace

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


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_form_of_the_table_leaves_its_solution(name):
    assert strip_trace(EXAMPLES[name]) == ("So 4.", "stripped")


NAMES = [
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reasoning",
    "reflection",
    "scratchpad",
    "analysis",
    "inner_monologue",
    "mm:think",
    "seed:think",
    "antml:thinking",
    "antthinking",
    "think_fast",
    "deep-think",
    "chain_of_thought",
]
# How the marks of one name are written: `{0}` is the name.
SPELLINGS = {
    "plain": ("<{0}>", "</{0}>"),
    "attributes": ("<{0} time=\"3\" a='x y'>", "</{0}>"),
    "blanks": ("< {0} >", "< / {0} >"),
    "line breaks": ("<\n{0}\n>", "</\n{0}>"),
    "escaped slash": ("<{0}>", "<\\/{0}>"),
    "escaped brackets": ("\\<{0}\\>", "\\</{0}\\>"),
    "HTML": ("&lt;{0}&gt;", "&lt;/{0}&gt;"),
    "HTML twice": ("&amp;lt;{0}&amp;gt;", "&amp;lt;/{0}&amp;gt;"),
    "JSON": ("\\u003c{0}\\u003e", "\\u003c/{0}\\u003e"),
    "pipes": ("<|{0}|>", "<|/{0}|>"),
    "begin and end": ("<|begin_of_{0}|>", "<|end_of_{0}|>"),
    "start and end": ("<start_{0}>", "<end_{0}>"),
    "start behind": ("<|{0}_start|>", "<|{0}_end|>"),
    "wide": ("＜{0}＞", "＜／{0}＞"),
    "triangles": ("◁{0}▷", "◁/{0}▷"),
}
PAIRS = [
    (opening.format(cased), closing.format(cased))
    for opening, closing in SPELLINGS.values()
    for name in NAMES
    for cased in (name, name.upper(), name.title())
] + [
    ("[THINK]", "[/THINK]"),
    ("[ think ]", "[\\/think]"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    (
        "<|start|>assistant<|channel|>commentary to=functions.x <|constrain|>json<|message|>",
        "<|call|>\n<|start|>assistant<|channel|>final <|constrain|>json<|message|>",
    ),
    ("<|channel>thought\n", "<channel|>"),
    ("<|CHANNEL>THOUGHT\n", "<CHANNEL|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|im_start|>think\n", "<|im_end|>\n<|im_start|>answer\n"),
    ('<details type="reasoning" done="true">\n<summary>Thought for 3 s</summary>', "</details>"),
    ("<details>\n<summary>🤔 Thought process</summary>", "\n</details>"),
    ("<DETAILS TYPE='reasoning'>", "</DETAILS>"),
    ("```thinking\n", "\n```\n"),
]


@pytest.mark.parametrize("marks", PAIRS, ids=lambda marks: " ".join(marks))
def test_marks_are_marks_wherever_they_stand(marks):
    opening, closing = marks
    trace = f"{opening}hm{closing}"
    assert strip_trace(f"{opening}\nhm\nhm.\n{closing}\n\nSo 4.").text == "So 4."
    assert strip_trace(f"{opening}{closing}So 4.").text == "So 4."
    assert strip_trace(f"{trace}One.\n{trace}Two.").text == "One.\n\nTwo."
    assert strip_trace(f"Sure. {trace}So 4.").text == "Sure.\n\nSo 4."
    assert strip_trace(f"{opening}a {trace} hm {closing}\nSo 4.").text.endswith("So 4.")
    assert strip_trace(f"{trace}<response>So 4.</response><|im_end|>").text == "So 4."
    assert strip_trace(trace) == ("", "stripped")
    assert strip_trace(f"{opening}hm") == ("", "unclosed")
    assert strip_trace(f"{opening}hm\n<answer>So 4.</answer>").text == "So 4."
    assert strip_trace(f"{opening}hm\n<answer>So 4.</answer>{closing}").text == "So 4."


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_closing_tag_alone_ends_a_trace_and_tags_in_prose_and_code_end_none(spelling, name):
    opening, closing = (mark.format(name) for mark in SPELLINGS[spelling])
    assert strip_trace(f"hm\n{closing}\n\nSo 4.").text == "So 4."
    assert strip_trace(f"hm{closing}\n<answer>So 4.</answer>").text == "So 4."
    assert strip_trace(f"hm\n{closing}\nhm\n{closing}\nSo 4.").text == "So 4."
    for prose in (
        f"Use {opening}draft{closing} as the example. So 4.",
        f"Write {opening} before your reasoning. So 4.",
        f'Print "{opening}" first. So 4.',
        f"Print `{opening}draft{closing}` first. So 4.",
        f"```xml\n{opening}note{closing}\n```\nSo 4.",
    ):
        assert strip_trace(prose) == (prose, "none")


@pytest.mark.parametrize(
    "prose",
    [
        "The model ends its trace with the </think> tag. So the count is 4.",
        "We print the tag </think> once. 2+2=4, so 4.",
        "I print the tag </think> once. 2+2=4, so 4.",
        "Split at </think>: 2 parts are left, so 4.",
        "To close the tag write &lt;/think&gt; in HTML. So 4.",
        "Split at </reasoning>, then count. So 4.",
        "First add.\nThe tag [/THINK] ends it.\nSo 4.",
        "Search for <|end_of_thought|> and </think> first. So 4.",
    ],
)
def test_a_closing_mark_among_the_words_of_a_sentence_is_a_mention(prose):
    assert examine(prose).text == prose
    assert examine(prose).kind == "none"
    assert examine(prose).left
    assert strip_trace(f"hm\n{prose}\n</think>\n\nSo 4.").text == "So 4."
    assert strip_trace(f"<think>hm</think>{prose}").text.startswith(prose[:9])


@pytest.mark.parametrize(
    "response",
    [
        "Okay, 2 + 2 is 4 </think> so 4.",
        "2 + 2 is 4. </think> so 4.",
        "2 + 2 is 4\n</think> so 4.",
        "2 + 2 is 4</think> so 4.",
        "2 + 2 is 4</think>so 4.",
        "2 + 2 is 4 </think>\nso 4.",
        "The tag </think> ends it, hm.\n</think> so 4.",
    ],
)
def test_a_closing_mark_alone_still_ends_a_trace(response):
    assert strip_trace(response) == ("so 4.", "stripped")


def test_where_traces_are_closed_only_a_closing_mark_within_a_sentence_is_believed():
    assert strip_trace("2 + 2 is 4 </think> so 4.", "closing") == ("so 4.", "stripped")


@pytest.mark.parametrize(
    "mark", ["<think>", "<reasoning>", "[THINK]", "<|think|>", "&lt;think&gt;"]
)
def test_a_trace_that_its_opening_mark_ends_too_is_a_trace(mark):
    assert strip_trace(f"{mark}hm{mark}So 4.") == ("So 4.", "stripped")
    assert strip_trace(f"{mark}\nhm\n{mark}\n\nSo 4.<|im_end|>").text == "So 4."
    assert strip_trace(f"Sure.\n{mark}hm.{mark}So 4.").text == "Sure.\n\nSo 4."
    for cut_off in (
        f"{mark}\n{mark}\nSo 4.",
        f"{mark}hm{mark}So",
        f"{mark}hm{mark}Wait, is 4.",
        f"{mark}hm, we write {mark} first. So 4.",
        f"{mark}hm{mark}hm{mark}So 4.",
    ):
        assert strip_trace(cut_off) == ("", "unclosed")


def test_an_answer_within_a_sentence_loses_its_tags_alone():
    response = "It is <answer> five </answer> then, and <answer>6</answer>."
    assert strip_trace(response).text == "It is  five  then, and 6."
    prose = "We think, then <answer> tags"
    assert strip_trace(f"<think>s</think>{prose} follow.").text == f"{prose} follow."
    assert strip_trace(f"{prose} hold it. <answer>4</answer>").text == f"{prose} hold it. 4"


KEPT = {
    "<answer>4</answer></think>": "4",
    "<ANSWER>4</ANSWER>\n</THINK>\n": "4",
    "<think><answer>4</answer></think>": "4",
    "<answer>4</answer></reasoning>": "4",
    "They have 8 shells.\n</think>": "They have 8 shells.",
    "Okay, so I think that they have 8 shells.\n</think>": "",
    "<think>a</think>\nWrite <think> before it. So 4.": "Write <think> before it. So 4.",
    "<think>a\n<answer>So 4.": "So 4.",
    "<think>a\n<answer>So": "",
    "<think>a</think>So 4.<|eot_id|>": "So 4.",
    "So 4.<|im_end|>": "So 4.",
    "<|channel|>analysis<|message|>hm<|end|>So 4.": "So 4.",
    "<details><summary>Thinking</summary>a <details>b</details> c</details>So 4.": "So 4.",
    "[{'type': 'thinking', 'thinking': 'hm'}, {'type': 'text', 'text': 'So 4.'}]": "So 4.",
    "/no_think\n<think>\n\n</think>\nSo 4.": "So 4.",
    "hm\n```\nx\n</think>So 4.\n```\n4\n```": "So 4.\n```\n4\n```",
}


@pytest.mark.parametrize("response", KEPT)
def test_no_solution_is_lost(response):
    assert strip_trace(response).text == KEPT[response]


@pytest.mark.parametrize(
    "marks",
    [
        ("<plan>", "</plan>"),
        ("<<THOUGHT>>", "<</THOUGHT>>"),
        ("Plan:", "Solution:"),
        ("<p1>", "<x>"),
    ],
)
def test_marks_of_a_study_are_marks(marks):
    opening, closing = marks
    own = (marks,)
    text = f"{opening}hm{closing}"
    assert strip_trace(f"{text}So 4.", "none", own) == ("So 4.", "stripped")
    assert strip_trace(f"{text.upper()}So 4.", "none", own) == ("So 4.", "stripped")
    assert strip_trace(f"{text}One.\n{text}Two.", "none", own).text == "One.\n\nTwo."
    assert strip_trace(f"hm{closing}So 4.", "none", own).text == "So 4."
    assert strip_trace(f"{opening}hm", "none", own) == ("", "unclosed")
    mention = f'Print "{opening}" here.'
    assert strip_trace(mention, "none", own) == (mention, "none")


def test_tags_of_a_study_are_found_in_every_spelling():
    own = (("<plan>", "</plan>"),)
    for response in (
        "< plan >hm< / plan >So 4.",
        '<plan a="b">hm<\\/plan>So 4.',
        "&lt;plan&gt;hm&lt;/plan&gt;So 4.",
    ):
        assert strip_trace(response, "none", own).text == "So 4."


@pytest.mark.parametrize(
    ("response", "left"),
    [
        ("<plan>hm</plan>So 4.", "<plan>"),
        ("<plan>secret</plan><think>x</think>So 4 it is.", "<plan>"),
        ("<think>x</think><plan>secret</plan>So 4 it is.", "<plan>"),
        ("<reason>secret</reason>\n<answer>So 4.</answer>", "<reason>"),
        ("<think>s</think>So 4. <planning>secret</planning>", "<planning>"),
        ("<think>s</think>So 4.\n<Plan>secret</plan>", "<Plan>"),
        ("<plan>secret</plan>So 4.<|im_end|>", "<plan>"),
        ("<plan>a</plan>So 4.\n<plan>b</plan>", "<plan>"),
        ("<think>s <plan>x</plan></think>So 4.", ""),
        ("<think>s</think>So <b>4</b>.\n<p>It is.</p>", ""),
        ("<think>s</think><note>4</note>", ""),
        ("<think>s</think>So:\n```xml\n<note>4</note>\n```\nIt is.", ""),
        ("<think>s</think>So: `<note>4</note>` it is.", ""),
        ("<think>s</think>The list<int>x</int> is 4.", ""),
        ("So 4. <|marker|> 5.", "<|marker|>"),
        ("Use <think>draft</think> as the example.", "<think>"),
        ("<think>hm</think>So 4.", ""),
        ("<p>So</p> 4", ""),
        ("If a < b and b > c, then 4.", ""),
        ("hm <think>a</think>. Then hm</think>So 4.", ""),
        ("<details><summary>Hint</summary>Add.</details>\n```\n4\n```", ""),
    ],
)
def test_what_stays_is_said(response, left):
    assert examine(response).left == left


def test_a_source_that_declares_traces_is_believed():
    assert strip_trace("So <reasoning>40 + 2</reasoning> 42.", "paired") == (
        "So\n\n42.",
        "stripped",
    )
    assert strip_trace("hm</reasoning>42", "closing") == ("42", "stripped")


plain = st.text(st.sampled_from("ab 1\n$\\{}.[]é→<"), max_size=40)


@given(trace=plain, solution=plain, marks=st.sampled_from(PAIRS))
def test_the_solution_survives_byte_for_byte(trace, solution, marks):
    opening, closing = marks
    assert strip_trace(f"{opening}{trace}{closing}{solution}") == (solution.strip(), "stripped")
    assert strip_trace(solution) == (solution, "none")
    assert strip_trace(f"{opening}{trace}").kind == "unclosed"


@pytest.mark.parametrize(
    "response",
    [
        "<" + " " * 20_000 + "x",
        "&lt;" + " " * 20_000 + "x",
        "<" * 50_000,
        "\\" * 50_000 + "u003cthink",
        "Use <think> as it is. " * 5_000,
        '<a b="' * 10_000,
        "`a " * 20_000 + "<think>" * 5_000,
        "<answer>x</answer>" * 5_000 + "</think>",
        "Thinking Process:\n" + "Final answer:\n" * 5_000,
        "<think>x</think>" + "`<plan>\n" * 10_000 + "</plan>`",
        "<think>x</think>" + "a <plan></plan>" * 10_000,
        "[/" + "[analysis]" * 10_000,
        "{/" + "{ " * 50_000,
        "a </think> b " * 8_000,
        "So <answer> it " * 7_000,
        "analysis\n" + "assistant " * 10_000,
    ],
    ids=lambda response: response[:10],
)
def test_a_strange_response_takes_no_hours(response):
    began = process_time()
    strip_trace(response)
    assert process_time() - began < 1


def test_traces_of_earlier_turns_leave_the_question():
    question = (
        "Ann has 3 pens. How many?\n\n<think>three\n\nI count</think>She has 3.\n\nAnd twice?"
    )
    assert strip_history(question) == "Ann has 3 pens. How many?\n\nShe has 3.\n\nAnd twice?"


@pytest.mark.parametrize(
    "question",
    [
        "Ann has 3 pens. How many?",
        "What does <think>draft</think> mean in this prompt?",
        "Ann has 3 pens.\n\nShe sells two. How many are left?",
        "First a draft\n\nthat ends by </think>the question itself",
    ],
)
def test_other_questions_stay(question):
    assert strip_history(question) == question
