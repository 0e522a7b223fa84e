r"""Read questions of contests that have only whole numbers as answers as what they ask.

Such a contest gives its answer a form with letters of its own, and asks for their sum:

>>> plain_question(r"Ann has 3 pens. The share of red ones is $\frac{m}{n}$. Find $m+n$.")
'Ann has 3 pens. Find The share of red ones.'
>>> plain_question("Let $N$ be the number of pens. Find the remainder when $N$ is divided by 1000.")
'Find the number of pens.'
>>> plain_question("Ann has m pens and Ben has n. Find m + n.") is None
True
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.text.instructions import sentences, without_instruction

_VERBS = r"(?:find|compute|determine|evaluate|calculate|give|report|submit|enter|what\s+is)"
_OPENS = r"(?:\$|\\\()?\s*"
_CLOSES = r"\s*(?:\$|\\\))?"
_TERM = r"\d*\s*[a-zA-Z]"
_AND = rf"(?:\s*[-+]\s*|{_CLOSES},?\s+(?:and\s+)?{_OPENS})"
# "m + n", "the value of 10p + q", "k", "the sum of m and n", "the sum of its numerator and ...".
_SUM = (
    rf"(?:the\s+(?:value|sum)\s+of\s+)?{_OPENS}(?P<sum>{_TERM}(?:{_AND}(?:{_TERM}|\d+))*){_CLOSES}"
    r"|the\s+sum\s+of\s+(?:the|its)\s+numerator\s+and\s+(?:the\s+)?denominator(?:\s+of[^.?!]*)?"
)
_REMAINDER = (
    rf"the\s+(?:remainder\s+when|last\s+\w+\s+digits\s+of)\s+{_OPENS}(?P<letter>[a-zA-Z]){_CLOSES}"
    rf"(?:\s+is\s+divided\s+by\s+{_OPENS}\d+{_CLOSES})?"
)
_IS = (
    r"(?:is(?:\s+equal\s+to|\s+of\s+the\s+form|\s+in\s+the\s+form)?|equals|has\s+the\s+form"
    r"|(?:can|may)\s+be\s+(?:uniquely\s+)?(?:written|expressed)(?:\s+uniquely)?"
    r"\s+(?:as|in\s+the\s+form))"
)
_LETTERS = r"(?:\\[dt]?frac|\\sqrt|\\pi|\\cdot|[a-zA-Z{}()+\-/\s]){1,30}?"
_FORM = rf"(?:\$(?P<form>{_LETTERS})\$|\\\((?P<other>{_LETTERS})\\\)|(?P<bare>[a-zA-Z]/[a-zA-Z]))"
# Words about the letters: "where m and n are relatively prime", "in lowest terms".
_SAID = r"(?:,?\s+(?:where|with|for|in|when)\b[^?=]{0,160}?)?"
_ENDING = re.compile(
    rf"\s+{_IS}\s+{_FORM}{_SAID}\s*[.;,]\s*(?:then\s+)?{_VERBS}\s+(?:{_SUM}"
    rf"|{_REMAINDER})\s*[.?!]*\s*$",
    re.IGNORECASE,
)
_NAMED = re.compile(
    rf"\blet\s+{_OPENS}(?P<name>[a-zA-Z]){_CLOSES}\s+(?:be|denote|represent)\s+(?P<asked>[^?]+?)"
    rf"\s*\.\s*{_VERBS}\s+{_REMAINDER}\s*[.?!]*\s*$",
    re.IGNORECASE,
)
_GIVEN = re.compile(r"^\s*(?:(?:given|suppose|assume)(?:\s+that)?|if|then)\s+", re.IGNORECASE)
_LONE_LETTER = re.compile(r"(?<![a-zA-Z])[a-zA-Z](?![a-zA-Z])")
_COMMAND = re.compile(r"\\[a-zA-Z]+")
# For Arrow: the questions that may end so.
_MAY_END_SO = (
    rf"(?i){_VERBS}\s+(?:the\s+(?:remainder|last|value|sum)\b|\$|\\\(|\d*[a-z]\b)"
    r"|\b(?:numerator|denominator)\b"
)


def plain_question(question: str) -> str | None:
    """Return a question that asks for what the contest's letters stand for; None for no such."""
    question = without_instruction(question).rstrip()
    named = _NAMED.search(question)
    if named and named["name"] == named["letter"]:
        return f"{question[: named.start()]}Find {named['asked']}."
    ending = _ENDING.search(question)
    if ending is None or not _sums_its_letters(ending):
        return None
    before = question[: ending.start()]
    last = (sentences(before) or [""])[-1]
    asked = _GIVEN.sub("", last)
    setting = before[: len(before) - len(last)]
    return f"{setting}Find {asked}." if asked.strip() else None


def _sums_its_letters(ending: re.Match[str]) -> bool:
    """Test whether the letters that are asked for are those of the form."""
    form = ending["form"] or ending["other"] or ending["bare"]
    letters = set(re.findall("[a-zA-Z]", _COMMAND.sub("", form)))
    asked = _LONE_LETTER.findall(ending["sum"] or ending["letter"] or "")
    return letters == set(asked) or (not asked and "/" in form.replace("frac", "/"))


def plain_questions(questions: pa.Array) -> tuple[list[int], list[str]]:
    """Return the rows of a column that have such a question, and what they ask."""
    may_end_so = pc.fill_null(pc.match_substring_regex(questions, _MAY_END_SO), False)
    rows = pc.indices_nonzero(may_end_so).to_pylist()
    found = [(row, plain_question(questions[row].as_py())) for row in rows]
    asking = [(row, question) for row, question in found if question is not None]
    return [row for row, _ in asking], [question for _, question in asking]
