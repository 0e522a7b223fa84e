"""Traces are stripped, response by response and as a stage."""

from collections import Counter
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.pipeline.sources.read import read_source
from dreamer_study.pipeline.sources.table import resolve_source
from dreamer_study.pipeline.traces.marks import EXAMPLES
from dreamer_study.pipeline.traces.strip import examine, strip_history, strip_trace
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


@pytest.mark.parametrize(
    "response",
    [
        "[REASONING]s[/REASONING]So 4.",
        "[Reasoning]\ns\n[/Reasoning]\n[ANSWER]So 4.[/ANSWER]",
        "[scratchpad]s[/scratchpad]\n\nSo 4.",
        "s\n[/REASONING]\nSo 4.",
        "[BEGIN_OF_THOUGHT]s[END_OF_THOUGHT]So 4.",
        "[BEGIN_OF_THOUGHT]s[END_OF_THOUGHT]\n[BEGIN_OF_SOLUTION]So 4.[END_OF_SOLUTION]",
        "{think}s{/think}So 4.",
        "{Thinking}\ns\n{/Thinking}\nSo 4.",
        "{reasoning}s{/reasoning}So 4.",
        "Thinking...\ns\n...done thinking.\n\nSo 4.",
        "Thinking…\ns\n… done thinking.\nSo 4.",
    ],
)
def test_names_in_brackets_and_words_around_a_trace(response):
    assert strip_trace(response) == ("So 4.", "stripped")


@pytest.mark.parametrize(
    "prose",
    [
        "[Analysis]\nThe sum is 4.",
        "[Answer]\n4",
        "Take x[reasoning] and y[answer]. So 4.",
        "See [reasoning](http://a.b) and [answer][1]. So 4.",
        "Print {think} and {answer}. So 4.",
        "Write \\text{think} and \\texttt{answer}. So 4.",
        "Thinking... we get 4.",
        "Put it in <answer> tags. So 4.",
        "First think, then write <answer> tags. So 4.",
        "Put it between <answer> and </answer> tags. So 4.",
        "Stop at </answer>, then count. So 4.",
        "Use <final_answer> or <solution> for it. So 4.",
    ],
)
def test_such_names_and_words_in_prose_stay(prose):
    assert strip_trace(prose) == (prose, "none")
    assert strip_trace(f"<think>hm</think>So 4.\n```\n{prose}\n```").text.endswith(f"{prose}\n```")


def test_an_answer_within_a_sentence_loses_its_tags_alone():
    response = "It is <answer> five </answer> then, and <answer>6</answer>."
    assert strip_trace(response).text == "It is  five  then, and 6."
    prose = "We think, then <answer> tags"
    assert strip_trace(f"<think>s</think>{prose} follow.").text == f"{prose} follow."
    assert strip_trace(f"{prose} hold it. <answer>4</answer>").text == f"{prose} hold it. 4"


GLUED = ["assistantfinal", "assistantfinal\n", "assistant\nfinal\n", "assistantfinal "]


@pytest.mark.parametrize("final", GLUED)
def test_channels_that_lost_their_tokens(final):
    assert strip_trace(f"analysisWe need it.{final}So 4.").text == "So 4."
    assert strip_trace(f"analysis\nhm\n{final}So 4.").text == "So 4."
    again = f"analysisWe{final}One.assistantanalysisHm{final}Two."
    assert strip_trace(again).text == "One.\n\nTwo."
    assert strip_trace("analysisWe need it, assistantcommentary to=x hm").kind == "unclosed"
    assert strip_trace("We need it.assistantfinalSo 4.").text == "So 4."


PHRASES = {
    "Thinking Process:\n\n1. hm\n\nFinal answer: 4": "Final answer: 4",
    "THINKING PROCESS:\nhm\n\nFINAL ANSWER: 4": "FINAL ANSWER: 4",
    "**Thinking Process:**\n1. hm\n\n**Final Answer:** 4": "**Final Answer:** 4",
    "### Thinking Process\nhm\n### Final Answer\n4": "4",
    "Thinking Process: hm. Final answer: 4": "Final answer: 4",
    "Thought: hm\nAnswer: 2\nThought: hm\nAnswer: 4": "Answer: 2\n\nAnswer: 4",
    "Thinking Process:\nhm\n</think>\nSo 4.": "So 4.",
    "Here's my thought process: hm\nHere's my response: So 4.": "So 4.",
    "**Here is my thought process:** hm\n**Here is my response:**\nSo 4.": "So 4.",
    "Here are my reasoning steps:\nhm\n[BEGIN FINAL RESPONSE]\nSo 4.\n[END FINAL RESPONSE]": "So 4.",
    "Here's a thinking process that leads to it:\nhm\n\nFinal answer: 4": "Final answer: 4",
}


@pytest.mark.parametrize("response", PHRASES)
def test_words_begin_a_trace_and_a_solution(response):
    assert strip_trace(response) == (PHRASES[response], "stripped")


HEADINGS = [
    "**Thought Process**\n\nAdd them: 2+2=4, so 4.",
    "Here is the reasoning process: 2 + 2 = 4. Therefore 4.",
    "Reasoning Process:\n1. 2+2=4\n2. Done: the value is 4.",
    "## My thinking process\n2+2=4.",
    "Here are the reasoning steps:\n1. 2+2=4.",
    "analysis\n\nThe sum is 4.",
    "commentary\nThe poem is long.",
    "Thinking Process:\nhm",
    "Here is my thought process: hm",
]


@pytest.mark.parametrize("response", HEADINGS)
def test_words_without_a_solution_are_a_heading_which_is_said(response):
    assert examine(response)[:2] == (response, "none")
    left = examine(response).left
    assert left
    assert response.startswith(left)
    assert examine(f"{response}<|im_end|>") == (response, "stripped", left)


@pytest.mark.parametrize("response", HEADINGS)
def test_words_without_a_solution_are_a_trace_cut_off_where_other_marks_or_the_source_say_so(
    response,
):
    assert strip_trace(response, "paired") == ("", "unclosed")
    assert strip_trace(f"{response}\n<think>hm") == ("", "unclosed")
    assert strip_trace(f"{response}\n<answer>So") == ("", "unclosed")
    assert strip_trace(f"{response}\n<answer>So 4.</answer>").text == "So 4."
    assert strip_trace(f"{response}\n</think>\nSo 4.").text == "So 4."


@pytest.mark.parametrize(
    "response",
    [
        "Thinking Process:\n",
        "Thinking Process:\nhm\nFinal answer: 2\nThinking Process:\nhm",
        "analysisWe need it",
        "assistantanalysis\nWe need it",
        "analysis\nWe need it.assistantcommentary to=x hm",
    ],
)
def test_words_that_are_no_heading_are_a_trace_cut_off(response):
    assert strip_trace(response) == ("", "unclosed")


@pytest.mark.parametrize(
    "prose",
    [
        "The assistant's final analysis is that 4.",
        "analysis of the sum gives 4.",
        "analysis: the sum gives 4.",
        "Analysis\nThe sum gives 4.",
        "The token assistantfinal ends it. So 4.",
        "If a<think and b>c then 4.",
        "Thought: 2 + 2 is 4.",
        "Thinking of 4, we get 4.",
        "Reasoning: 2 + 2 = 4.\nAnswer: 4",
        "Here is my reasoning: 2 + 2 = 4.\nAnswer: 4",
        "Here is my answer: 4.",
        "Declare vector<thought> v; and vector<analysis> w; here.",
        "The tags <think> and </think> are used. So 4.",
        "Put it between <think> and </think>. So 4.",
        "Put it in \\texttt{<think>} first. So 4.",
        "The XML is:\n<thought>hi</thought>\nand so on.",
        "The server sends <response>ok</response> back. So 4.",
        "<details><summary>Solution</summary>So 4.</details>",
        "So [thinking](http://a.b) of 4.",
        '[{"type": "circle", "r": 2}]',
        "<div><p>So 4.</p></div>",
    ],
)
def test_prose_and_code_lose_nothing(prose):
    assert strip_trace(prose) == (prose, "none")


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


@pytest.mark.parametrize(
    ("response", "left"),
    [
        ("Hmm, 3 + 4 is 7.\n...done thinking.\n\nThe answer is 7.", "The answer is 7."),
        ("Hmm, it is 7.\n…done thinking.\n7", "7"),
        ("He was ...done thinking. So 7.", "He was ...done thinking. So 7."),
        (
            "Use the <think> tag first. The answer is 7.",
            "Use the <think> tag first. The answer is 7.",
        ),
    ],
)
def test_words_that_only_end_a_trace(response: str, left: str) -> None:
    assert strip_trace(response).text == left


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
