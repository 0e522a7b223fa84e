"""Words, names in brackets and channels that begin or end a trace; prose that has them stays."""

import pytest

from dreamer_study.pipeline.traces.strip import examine, strip_trace


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
