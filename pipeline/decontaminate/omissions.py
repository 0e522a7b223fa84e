r"""Leave out of a text what a copy often lacks.

That is figures, calculator annotations, and closing sentences on the format of the answer:

>>> without_figures("Find AB. [asy] draw((0,0)--(4,3)); [/asy] It is 3+4=<<3+4=7>>7.\n#### 7")
'Find AB.   It is 3+4= 7.\n '
>>> without_closing(["What is 2/7 in decimals? Round your answer to the nearest tenth."])
['What is 2/7 in decimals? ']
>>> without_instruction("Find x\n\nPlease think step by step, and put the answer within \\boxed{}.")
'Find x'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

FIGURE = (
    r"(?s)\[asy\].{0,9000}?\[/asy\]"
    r"|<(asy|svg)\b[^>]{0,999}>.{0,9000}?</(asy|svg)>"
    r"|<img\b[^>]{0,9000}>"
    r"|!\[[^\]\n]{0,500}\]\([^)\s]{0,9000}\)"
    r"|\\begin\{(asy|tikzpicture|picture)\}.{0,9000}?\\end\{(asy|tikzpicture|picture)\}"
    r"|\\includegraphics(\[[^\]]*\])?\{[^}]*\}"
    r"|<<[^<>\n]{1,200}=[^<>\n]{1,80}>>"
    r"|####[ \t]*[^\s\n]{1,30}[ \t]*(?=\n|$)"
)
_MARKS = r"\[asy\]|<asy|<svg|<img|!\[|\\begin\{(asy|tikz|pict)|\\includegraphics|<<|####"
_FIGURE = re.compile(FIGURE)
_PLAIN_END = r"[.?!][\"'$)\]]*(\s+)"
_SENTENCE_END = re.compile(_PLAIN_END)
# Mathematics as a whole: a sentence may end only behind its last full stop.
_MATHEMATICS_OR_END = re.compile(
    r"(?:\\\$|\$\$[^$]*\$\$|\$(?=\S)[^$]*(?<=[^\s\\])\$(?!\d)"
    r"|(?s:\\\[.{0,999}?\\\]|\\\(.{0,999}?\\\)))"
    rf"(?:(?:(?<=[.?!]\$)|(?<=[.?!]\\[\])]))(\s+))?|{_PLAIN_END}"
)
_ASKS = re.compile(
    r"\?\s*$|\b(find|compute|calculate|determine|evaluate|solve|prove|estimate"
    r"|what|which|who|why|how)\b",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"\s*(express|write|list|name|give|state|tell|show that|simplify|factor|expand)\b|\$|\\\(|=",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
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
    r"(?:(?:reason|think)\b.{0,40}$|(?:reason|think|work|solve|explain|show|justify|box|put|enclose|wrap"
    r"|write|place|present|provide|return|output|respond|reply|answer|give|end|finish|conclude|include"
    r"|use|mark|highlight|state)\b[^?]*?(?:step[- ]by[- ]step|\bsteps?\b|reasoning|chain of thought"
    r"|\bbox(?:ed)?\b|\banswers?\b|your (?:work|thinking|thoughts|solution)|final (?:number|result)"
    r"|(?:detailed|full|complete|clear|worked) solution)"
    r"|(?:your |the )?(?:final )?(?:answer|solution|response)"
    r"(?::?\s*$|s? (?:should|must|has to|have to|is to|needs? to|is boxed)\b)|/(?:no_)?think\s*$)",
    re.IGNORECASE | re.DOTALL,
)
# What only a problem holds: an instruction has none but in its example of a form.
_OF_A_PROBLEM = re.compile(r"[?=\d]|\$[^$]*[a-z0-9]|\\\(.*[a-z0-9]", re.DOTALL)
_FORM = re.compile(r"\\?boxed\{[^{}]*\}|\\boxed|\"[^\"]{0,40}\"|`[^`]{0,40}`|\$\\boxed[^$]*\$|####")
_MAY_INSTRUCT = (
    r"(?i)\banswer|step.by.step|\bsteps?\b|\bround\b|\bbox|\breason|think\b|\byour (?:work|thou)"
    r"|\bsolution\b|\bresponse\b|\bfinal (?:number|result)"
)
_FREQUENT = 5  # different texts with one closing sentence: a phrase of the set


def without_figures(text: str) -> str:
    """Replace figures, annotations `<<3+4=7>>` and the line `#### 7` by blanks.

    Figures are those in Asymptote, TikZ or SVG, or as a link.
    """
    return _FIGURE.sub(" ", text)


def figures(text: str) -> str:
    """Return all that `without_figures` leaves out."""
    return "".join(figure[0] for figure in _FIGURE.finditer(text))


def column_without_figures(texts: pa.Array) -> pa.Array:
    """Apply `without_figures` to a column, in which few texts have any."""
    marked = pc.fill_null(pc.match_substring_regex(texts, _MARKS), False)
    if not pc.any(marked).as_py():
        return texts
    plain = [without_figures(text) for text in pc.filter(texts, marked).to_pylist()]
    return pc.replace_with_mask(texts, marked, pa.array(plain, texts.type))


@lru_cache(1 << 14)
def sentences(text: str) -> list[str]:
    """Split a text behind full stops, question and exclamation marks, not within mathematics."""
    pattern = _MATHEMATICS_OR_END if "$" in text or "\\" in text else _SENTENCE_END
    # Only an end has a group: mathematics as a whole matches without one.
    ends = [end.end() for end in pattern.finditer(text) if end.lastindex]
    parts = [text[start:end] for start, end in pairwise([0, *ends, len(text)])]
    return [part for part in parts if part.strip()]


def without_closing(texts: Sequence[str]) -> list[str]:
    """Remove closing sentences on the form of the answer, or that close several of these texts.

    A sentence that asks something stays, and the first one always does.
    """
    split = {text: sentences(text) for text in texts}
    closing = Counter(_pattern(parts[-1]) for parts in split.values() if len(parts) > 1)
    shortened = {}
    for text, parts in split.items():
        stays = len(parts)
        while stays > 1 and _is_format(parts[stays - 1], closing):
            stays -= 1
        shortened[text] = "".join(parts[:stays])
    return [shortened[text] for text in texts]


def without_instruction(text: str) -> str:
    """Remove closing sentences and lines that instruct how to answer, not what to find.

    The first sentence always stays.
    """
    shortened = text
    while True:
        last = _last_part(shortened)
        before = shortened[: len(shortened) - len(last)]
        if not before.strip() or not _is_instruction(last):
            return shortened
        shortened = before.rstrip()


def column_without_instructions(texts: pa.Array) -> pa.Array:
    """Apply `without_instruction` to a column, in which few texts may have any."""
    marked = pc.fill_null(pc.match_substring_regex(texts, _MAY_INSTRUCT), False)
    if not pc.any(marked).as_py():
        return texts
    plain = [without_instruction(text) for text in pc.filter(texts, marked).to_pylist()]
    return pc.replace_with_mask(texts, marked, pa.array(plain, texts.type))


def _last_part(text: str) -> str:
    """Return the last sentence, or of it the last line."""
    parts = sentences(text)
    last = parts[-1] if parts else ""
    return last[last.rstrip().rfind("\n") + 1 :]


def _is_instruction(sentence: str) -> bool:
    if _ASKS_FOR_FORM.match(sentence) and not _ASKS.search(sentence):
        return True
    plain = _FORM.sub("", sentence)
    return bool(_INSTRUCTS.match(sentence.strip())) and not _OF_A_PROBLEM.search(plain)


def _is_format(sentence: str, closing: Counter[str]) -> bool:
    frequent = closing[_pattern(sentence)] >= _FREQUENT and not _TELLS.search(sentence)
    return _is_instruction(sentence) or (frequent and not _ASKS.search(sentence))


def _pattern(sentence: str) -> str:
    return _DIGITS.sub("0", sentence.strip())
