r"""Reduce final answers to keys that are equal where the values are.

>>> answers = (r"\frac{266664}{5}", "b = 53,332.8", "$53332.80$ dollars", "Odd ones", "")
>>> [answer_key(answer) for answer in answers]
['266664/5', '266664/5', '266664/5', 'odd ones', '']
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from dreamer_study.pipeline.text.normal_form import COMMANDS, fold

_LONGEST = 8  # words; a longer answer is prose, which may be worded in many ways
_WORD = re.compile(r"(\\?)([a-z]+)|\d+(?:\.\d+)?|[-+*/^<=>()\[\]]")
_DIVISION = re.compile(r"\s*\\[dtc]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|(?=\d))")
_AROUND = re.compile(  # what stands around a value: the left side of an equation, layout, a unit
    r"^[\s$]*[a-z](?:_\w|\([a-z]\))?\s*=(?=[^=]+$)"
    r"|(?<=\d)(?:,|\{,\}|,\\!|\\,)(?=\d{3}(?!\d))|\\(?:left|right)\b"
    r"|\\[,;!% ]|[$%]|\^\s*\{?\\circ\s*\}?|\.$|\\(?:text|mathrm|mbox)\s*\{[^{}]*\}"
    r"|(?<![a-z\\])(?!pi\b)[a-z]{2,}(?:\^[23])?"
)
# An integer, a decimal or a fraction; or a mixed number.
_VALUE = re.compile(r"-?(?:\d*\.)?\d+(?:/[1-9]\d*)?|\d+ \d+/[1-9]\d*")


def answer_key(answer: str) -> str:
    """Reduce an answer to its value as a fraction, or to its words.

    "" for none, and for prose of over eight words.
    """
    return _key(answer[:500])


@lru_cache(1 << 16)
def _key(answer: str) -> str:
    plain = fold(answer).strip().lower()
    value = _DIVISION.sub(_as_division, _AROUND.sub("", plain))
    value = value.strip().replace("- ", "-")
    if _VALUE.fullmatch(value):
        return str(sum(map(Fraction, value.split())))
    words = []
    for word in _WORD.finditer(plain.replace("}{", "}/{")):
        is_typesetting = word[1] and COMMANDS.get(word[2], "") is None
        if not is_typesetting:
            words.append(word[2] or word[0])
    in_prose = [word for word in words if len(word) > 1 and word.isalpha()]
    return " ".join(words) if len(in_prose) <= _LONGEST else ""


def _as_division(line: re.Match[str]) -> str:
    return f" {line[1]}/{line[2]}" if line[2] else " "
