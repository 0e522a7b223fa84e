r"""Split a text into sentences, and leave out instructions that prompts set behind any question.

>>> without_instruction("Find x\n\nPlease think step by step, and put the answer within \boxed{}.")
'Find x'
>>> sentences("It costs $3. 5$ in all. What is $x$?")
['It costs $3. 5$ in all. ', 'What is $x$?']
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

_PLAIN_END = r"[.?!][\"'$)\]]*(\s+)"
_SENTENCE_END = re.compile(_PLAIN_END)
# Mathematics as a whole: a sentence may end only behind its last full stop.
_MATHEMATICS_OR_END = re.compile(
    r"(?:\\\$|\$\$[^$]*\$\$|\$(?=\S)[^$]*(?<=[^\s\\])\$(?!\d)"
    r"|(?s:\\\[.{0,999}?\\\]|\\\(.{0,999}?\\\)))"
    rf"(?:(?:(?<=[.?!]\$)|(?<=[.?!]\\[\])]))(\s+))?|{_PLAIN_END}"
)
ASKS = re.compile(
    r"\?\s*$|\b(find|compute|calculate|determine|evaluate|solve|prove|estimate"
    r"|what|which|who|why|how)\b",
    re.IGNORECASE,
)
_ASKS_FOR_FORM = re.compile(
    r"(please |and )?((express|give|enter|write|round|put|provide|simplify|state|leave|report|type"
    r"|use|submit|list|specify|separate|your|the)\b.*\banswers?\b|round (it |off )?to\b"
    r"|answers? (as|in|to|with|should|must)\b)",
    re.IGNORECASE | re.DOTALL,
)
# Sentences that a collection of prompts sets behind any question.
_INSTRUCTS = re.compile(
    r"(?:please|and|now|then|only|just|let'?s|let us|you (?:should|must|can|may|need to|will)|first"
    r"|remember to|try to|(?:make sure|be sure|ensure)(?: to| that)?(?: you)?|do not forget to"
    r"|don't forget to|[,\s*#>-])*"
    r"(?:(?:reason|think)\b.{0,40}$|(?:reason|think|work|solve|explain|show|justify|box|put"
    r"|enclose|wrap"
    r"|write|place|present|provide|return|output|respond|reply|answer|give|end|finish|conclude"
    r"|include"
    r"|use|mark|highlight|state)\b[^?]*?(?:step[- ]by[- ]step|reasoning|chain of thought"
    r"|\b(?:your|all|each|every|the|necessary|intermediate|detailed|clear) steps?\b"
    r"|\bboxed\b|\banswers?\b|your (?:work|thinking|thoughts|solution)|final (?:number|result)"
    r"|(?:detailed|full|complete|clear|worked) solution)"
    r"|(?:your |the )?(?:final )?(?:answer|solution|response)"
    r"(?::?\s*$|s? (?:should|must|has to|have to|is to|needs? to|is boxed)\b)|/(?:no_)?think\s*$)",
    re.IGNORECASE | re.DOTALL,
)
# What only a problem holds: an instruction has none but in its example of a form.
_OF_A_PROBLEM = re.compile(r"[?=\d]|\$[^$]*[a-z0-9]|\\\(.*[a-z0-9]", re.DOTALL)
_FORM = re.compile(r"\\?boxed\{[^{}]*\}|\\boxed|\"[^\"]{0,40}\"|`[^`]{0,40}`|\$\\boxed[^$]*\$|####")
# What an instruction holds, and what those hold that collections of prompts use.
MAY_INSTRUCT = (
    r"(?i)\banswer|step.by.step|\bsteps?\b|\bround\b|\bbox|\breason|think\b|\byour (?:work|thou)"
    r"|\bsolution\b|\bresponse\b|\bfinal (?:number|result)"
)

USUAL = r"(?i)step[- ]by[- ]step|\\boxed|final answer|/no_think"


@lru_cache(1 << 14)
def sentences(text: str) -> list[str]:
    """Split a text behind full stops, question and exclamation marks, not within mathematics."""
    pattern = _MATHEMATICS_OR_END if "$" in text or "\\" in text else _SENTENCE_END
    # Only an end has a group: mathematics as a whole matches without one.
    ends = [end.end() for end in pattern.finditer(text) if end.lastindex]
    parts = [text[start:end] for start, end in pairwise([0, *ends, len(text)])]
    return [part for part in parts if part.strip()]


def without_instruction(text: str) -> str:
    """Remove closing sentences and lines that instruct how to answer, not what to find.

    The first sentence always stays.
    """
    shortened = text
    while True:
        last = _last_part(shortened)
        before = shortened[: len(shortened) - len(last)]
        if not before.strip() or not is_instruction(last):
            return shortened
        shortened = before.rstrip()


def column_without_instructions(texts: pa.Array, pattern: str = MAY_INSTRUCT) -> pa.Array:
    """Apply `without_instruction` to the texts of a column that hold a pattern."""
    marked = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    if not pc.any(marked).as_py():
        return texts
    plain = [without_instruction(text) for text in pc.filter(texts, marked).to_pylist()]
    return pc.replace_with_mask(texts, marked, pa.array(plain, texts.type))


def _last_part(text: str) -> str:
    """Return the last sentence, or of it the last line."""
    parts = sentences(text)
    last = parts[-1] if parts else ""
    return last[last.rstrip().rfind("\n") + 1 :]


def is_instruction(sentence: str) -> bool:
    """Test whether a sentence tells how to answer, and asks nothing."""
    if _ASKS_FOR_FORM.match(sentence) and not ASKS.search(sentence):
        return True
    plain = _FORM.sub("", sentence)
    return bool(_INSTRUCTS.match(sentence.strip())) and not _OF_A_PROBLEM.search(plain)
