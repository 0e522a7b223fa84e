r"""Reduce final answers to keys that are equal where the values are.

>>> answers = (r"\frac{266664}{5}", "b = 53,332.8", "$53332.80$ dollars", "Odd ones", "")
>>> [answer_key(answer) for answer in answers]
['266664/5', '266664/5', '266664/5', 'odd ones', '']

So however a writer has set them:

>>> answers = (r"\(70\)", "$70.$", "**70**", "(C) 70", r"70\rm{ seconds}", "seventy", "7 * 10^1")
>>> {answer_key(answer) for answer in answers}
{'70'}
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from dreamer_study.pipeline.text.layout import MARKS, ONE_IN_BRACES, without_styles
from dreamer_study.pipeline.text.normal_form import COMMANDS, STYLES, SWITCHES, fold
from dreamer_study.pipeline.text.number_words import CARDINALS, joined

_LONGEST = 8  # words; a longer answer is prose, which may be worded in many ways
_WORD = re.compile(
    r"(\\?)([a-z]+)|\d+(?:\.\d+)?|[-+*/^<=>()\[\]!|¬]|(?<=[\w)}])_(?=[\w{])"
    r"|\\[{}]|(?<=[a-z])'(?![a-z])"
)
# Braces that group a sum.
_SUM_IN_BRACES = re.compile(r"(?<!\\)\{([^{}]*[^{}\s][^{}]*[-+][^{}]*)\}")
_DIVISION = re.compile(r"\s*\\[dtc]?frac\s*(?:\{([^{}]*)\}\s*/?\s*(?:\{([^{}]*)\}|(?=\d))|(?=\d))")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|,\\!|\\,)(?=\d{3}(?!\d))")
_STYLE = "|".join(STYLES.split())
_STYLED_UNIT = re.compile(  # behind a number, a bracket or pi
    r"(?:(?<=[\d})!])|(?<=\\pi))(?:\s|\\[,;: ]|~)*"
    rf"\\(?:{_STYLE}|{'|'.join(SWITCHES.split())})\s*"
    r"\{[^{}\d]*\}(?:\s*\^\s*\{?[23]\}?)?(?=[^a-z\d]*$)"
)
_SWITCH = re.compile(
    rf"\\(?:{'|'.join(SWITCHES.split())}|(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])\.?)(?![a-zA-Z])"
)
# What a writer may say before an answer, and marks around all of the answer.
_SAID = re.compile(
    r"^(?:(?:so |thus |hence )?(?:the )?(?:final |correct )?answer(?: is)?:?(?!\w)|=)\s*"
)
_AROUND_ALL = re.compile(
    r"^(?:\((?!.*\(.*\))([^(),\[\]]*[^a-z(),\[\]][^(),\[\]]*)\)|_+(.*?)_+|\"(.*)\")$"
)
_ONE_IN_ROOT = re.compile(r"(?<=sqrt)\s*\((\w+)\)")
_AROUND = re.compile(  # what stands around a value: the left side of an equation, a unit
    r"^\s*[a-z](?:_\w|\([a-z]\))?\s*=(?=[^=]+$)"
    r"|[%$]|\\%|\^\s*\{?\\circ\s*\}?|(?<![a-z\\])(?!pi\b)[a-z]{2,}(?:\^[23])?"
)
_PUNCTUATION = " .,;:"
_LETTER = re.compile(r"[({\[]?([a-z])[)}\]]?[.:]?")
# An option's letter before its value, as in "(B) 4" or "B. 4".
_OPTION = re.compile(r"^(?:\(([a-e])\)|([a-e])[.):])\s+(?=\S)")
# An integer, a decimal or a fraction; or a mixed number.
_VALUE = re.compile(r"-?(?:\d*\.)?\d+(?:/[1-9]\d*)?|\d+ \d+/[1-9]\d*")
_POWER = r"(?:\d*\.)?\d+(?:\^\s*-?\d{1,2})?"
_TIMES = r"\s*(?:\*|\\times(?![a-z])|\\cdot(?![a-z]))\s*"
_PRODUCT = re.compile(rf"-?{_POWER}(?:{_TIMES}{_POWER})*")
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_SCALED = re.compile(rf"(\d+(?:\.\d+)?) ({'|'.join(_SCALES)})\b")  # "2.5 million"
_CARDINAL = rf"(?:{'|'.join(CARDINALS)})(?![a-z])"
# No unit, but more of a number, or a choice.
_NO_UNIT = rf"(?!(?:of|or|and|to|by|hal(?:f|ves)|thirds?|quarters?|dozen|\w+ths?)\b|{_CARDINAL})"
_NUMBER_WORDS = re.compile(
    rf"(?:(?:minus|negative) )?{_CARDINAL}(?:(?: and)?[ -]{_CARDINAL})*(?: {_NO_UNIT}[a-z]+){{0,2}}"
)


def answer_key(answer: str) -> str:
    """Reduce an answer to its value as a fraction, or to its words.

    "" for none, and for prose of over eight words. A letter that names an option is the letter.
    """
    return _key(answer[:500])


@lru_cache(1 << 16)
def _key(answer: str) -> str:
    plain = _OPTION.sub("", _THOUSANDS.sub("", fold(answer).lower().strip()))
    plain = MARKS.sub(" ", _STYLED_UNIT.sub(" ", plain))
    plain = " ".join(_SWITCH.sub(" ", without_styles(plain)).split())
    plain = plain.rstrip(_PUNCTUATION).lstrip(",;: ")
    plain = _AROUND_ALL.sub(r"\1\2\3", _SAID.sub("", plain)).strip()
    plain = _ONE_IN_ROOT.sub(r" \1", plain)
    letter = _LETTER.fullmatch(plain)
    if letter:
        return letter[1]
    plain = _OPTION.sub("", plain)
    digits = _SCALED.sub(_scaled, _in_digits(plain))
    value = _AROUND.sub("", _DIVISION.sub(_as_division, digits))
    value = ONE_IN_BRACES.sub(r"\1", value).replace("- ", "-")
    value = value.rstrip(_PUNCTUATION).lstrip("+,;: ")
    if _VALUE.fullmatch(value):
        return str(sum(map(Fraction, value.split())))
    if _PRODUCT.fullmatch(value):
        return str(_product(value))
    return _words(plain)


def _words(plain: str) -> str:
    """Return the words of an answer that is no value; "" for prose."""
    words = []
    plain = _SUM_IN_BRACES.sub(r"(\1)", plain.replace("}{", "}/{"))
    for word in _WORD.finditer(plain):
        reading = COMMANDS.get(word[2], word[2]) if word[1] else word[0]
        if reading is not None:
            words.append(reading)
    in_prose = [word for word in words if len(word) > 1 and word.isalpha()]
    return " ".join(words) if len(in_prose) <= _LONGEST else ""


def _as_division(line: re.Match[str]) -> str:
    if line[2]:
        return f" {line[1]}/{line[2]}"
    return f" {line[1]}/" if line[1] else " "


def _in_digits(plain: str) -> str:
    """Write an answer of number words, and perhaps a unit, in digits."""
    if not _NUMBER_WORDS.fullmatch(plain):
        return plain
    value = 0
    for word in re.split("[ -]", plain):
        if word in CARDINALS:
            value = joined(value, CARDINALS[word]) or value + CARDINALS[word]
    sign = "-" if plain.startswith(("minus", "negative")) else ""
    return f"{sign}{value}"


def _scaled(number: re.Match[str]) -> str:
    return str(Fraction(number[1]) * _SCALES[number[2]])


def _product(value: str) -> Fraction:
    """Multiply powers, as of `3*10^5`; exponents have two digits at most."""
    product = Fraction(1)
    for factor in re.split(_TIMES, value.removeprefix("-")):
        base, _, exponent = factor.partition("^")
        power = int(exponent or 1)
        product *= Fraction(base) ** power if Fraction(base) else Fraction(0)
    return -product if value.startswith("-") else product
