r"""Strip the reasoning traces from one response and keep the worked solution.

The paper trains without traces ("we aim for latent reasoning instead"). Public sets mark them in
many ways, and mix them: `marks` has the table. One rule holds for all of them:

    <think> ... </think> solution            a trace is what stands between two marks
    reasoning ... </think> solution          the opening mark belonged to the prompt
    <think> ...                              a trace without an end, because generation was cut off
    <think> ... <answer>solution</answer>    a trace without an end, and a marked solution

A closing mark ends a trace, which began at the first opening mark behind the closing mark before;
without one, it began at that closing mark, or at the response's start. Which mark opens and which
closes is all that counts, not their names; only a few marks, such as `</details>`, end nothing but
a trace of their own form.

A mention is no mark: between quotation marks, in code, or within a sentence that continues behind
it ("Use <think>draft</think> as the example.", "Split at </think>: there it ends."). Names
that are words of prose and code, such as `<reasoning>`, are mentions within a sentence, unless the
source declares traces. So is a heading without a tag ("Thinking Process:") that no answer follows.

Example: "<think>1 + 1?</think>\n\nIt is 2." becomes "It is 2.".
"""

from __future__ import annotations

import re

from dreamer_study.pipeline.traces.examined import NONE, STRIPPED, UNCLOSED, Examined, Stripped
from dreamer_study.pipeline.traces.marks import Own, find_marks, may_have_marks, unescape
from dreamer_study.pipeline.traces.message_parts import read_parts
from dreamer_study.pipeline.traces.unknown_tags import unknown_tag
from dreamer_study.pipeline.traces.walk import Walk

# The words that end a trace on a line of their own, where those that begin one were left out.
_DONE = r"(?:\.\.\.|…)\s?done thinking"
_ONLY_DONE = re.compile(rf"(?s)(?!\s*Thinking(?:\.\.\.|…))(?:(?!{_DONE}).)*\n{_DONE}\.?[ \t]*\n")


def strip_trace(response: str, marking: str = "none", own: Own = ()) -> Stripped:
    """Strip the reasoning traces from one response; `marking` is the `trace` of its source.

    The parts that are left are trimmed and joined by blank lines, without the marks around a
    solution. Of a trace without an end, or with nothing behind, only a marked solution in it is
    left. A response without marks stays as it is. `own` are marks beside those of the table.
    """
    text, kind, _ = examine(response, marking, own)
    return Stripped(text, kind)


def strip_history(question: str, own: Own = ()) -> str:
    """Strip the traces of earlier turns from a question that holds a conversation.

    Such a trace has its opening mark: the first turn, a person's, stays whole in any case.
    """
    first = question.partition("\n\n")[0]
    if len(first) == len(question) or not may_have_marks(question, own):
        return question
    found = examine(question, own=own)
    is_of_a_turn = found.kind == STRIPPED and found.text.startswith(first.strip())
    return found.text if is_of_a_turn else question


def examine(response: str, marking: str = "none", own: Own = ()) -> Examined:
    """Strip as `strip_trace` does, and say what stays that looks like a mark."""
    if "done thinking" in response and _ONLY_DONE.match(response):
        response = f"Thinking...\n{response}"
    if not may_have_marks(response, own):
        return Examined(response, NONE, "")
    parts = read_parts(response)
    if parts is not None:
        return parts
    text = unescape(response, own)
    marks = find_marks(text, own)
    if not marks:
        return Examined(response, NONE, unknown_tag(response))
    walk = Walk(text, marks, marking)
    if walk.is_unmarked:
        return Examined(response, NONE, walk.left or unknown_tag(response))
    kept = "\n\n".join(filter(None, walk.kept))
    if walk.is_open or not kept:
        solution = walk.solution_in_trace()
        if walk.is_open and not solution:
            behind = walk.behind_twin()
            solution = "\n\n".join(filter(None, [*walk.kept, behind])) if behind else ""
        if walk.is_open and not solution:
            return walk.as_heading(response) or Examined("", UNCLOSED, "")
        kept = solution
    return Examined(kept, STRIPPED, (walk.left or unknown_tag(kept)) if kept else "")
