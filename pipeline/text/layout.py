r"""Read mathematics as its signs, however a writer has set it.

>>> plain_signs(r"Is \(x\) at $\dfrac12$, or at **1,000** {\rm cm}?")
'isxat1/2,orat1000cm'
>>> plain_signs(r"Is `x` at \frac{1}{2} or at 1\,000\,\text{cm}")
'isxat1/2orat1000cm'
>>> plain_signs(r"\frac{t+1}{t}"), plain_signs(r"t+\frac1t")
('{t+1}/t', 't+1/t')
"""

from __future__ import annotations

import re

from dreamer_study.pipeline.text.normal_form import COMMANDS, STYLES, SWITCHES, fold

# `$`, `\(`, `\]`, backticks, bold, italics, thin and hard blanks
MARKS = re.compile(r"\\[()\[\]]|[$`~]|\*{2,3}|\\[,;:!>\s]|\\\\")
# An index has something before and behind.
_LINES = re.compile(r"(?<![a-zA-Z0-9)}\]])_+|_+(?![a-zA-Z0-9{(\\])")
_THOUSANDS = re.compile(r"(?<=\d)(?:,\\!|\{,\}|\\?,)(?=\d{3}(?!\d))")
# What stands in braces may hold braces itself.
_INNER = r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*"
_NAMED = "|".join([*STYLES.split(), *SWITCHES.split()])
_STYLED = re.compile(rf"\\(?:{_NAMED})\s*\{{({_INNER})\}}")
_SWITCHED = re.compile(rf"\{{\s*\\(?:{'|'.join(SWITCHES.split())})(?![a-zA-Z])\s*({_INNER})\}}")
_COMMAND = re.compile(r"\\([a-zA-Z]+)")
ONE_IN_BRACES = re.compile(r"\{(-?[\w.]*)\}")
# A comma may part the numbers of a list.
_PUNCTUATION = re.compile(r"\.(?!\d)|[?;:\"’]|(?<=,)\s+")
# Neither a factorial nor a derivative.
_EXCLAMATION = re.compile(r"(?<![\d)}!])(?<![^a-z][a-z])!")
_APOSTROPHE = re.compile(r"(?<![^a-z'][a-z])'|'(?=[a-z])")
_BLANK = re.compile(r"(?<!\d)\s+|\s+(?!\d)")


def without_styles(text: str) -> str:
    """Replace text in a style, as `\\textbf{4}` or `{\\rm cm}`, by the text alone."""
    if "\\" not in text:
        return text
    before = None
    while before != text:
        before = text
        text = _SWITCHED.sub(r"\1", _STYLED.sub(r"\1", text))
    return text


def plain_signs(text: str) -> str:
    """Return the letters, numbers, signs and brackets of a text without its layout.

    That is without blanks, punctuation and typesetting, in lower case; braces stay where they group
    several signs.
    """
    plain = _THOUSANDS.sub("", fold(text)).replace("}{", "}/{")
    plain = without_styles(MARKS.sub(" ", plain))
    if "_" in plain:
        plain = _LINES.sub(" ", plain)
    plain = _COMMAND.sub(_reading, plain).lower().replace("\\", "")
    if "!" in plain:
        plain = _EXCLAMATION.sub("", plain)
    if "'" in plain:
        plain = _APOSTROPHE.sub("", plain)
    plain = _BLANK.sub("", _PUNCTUATION.sub("", plain))
    return ONE_IN_BRACES.sub(r"\1", plain)


def _reading(command: re.Match[str]) -> str:
    return COMMANDS.get(command[1].lower(), command[1]) or ""
