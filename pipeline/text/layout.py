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
from itertools import pairwise

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
_BRACE = re.compile(r"(?<!\\)[{}]")
# What a group belongs to: before it a command, a power, an index, a division; behind it the latter.
_ALONE = "circ|pi|times|cdot|div|pm|le|leq|ge|geq|ne|neq|lt|gt|in|cup|cap|to"
_TAKES_GROUP = re.compile(rf"(?:\\(?!(?:{_ALONE})(?![a-zA-Z]))[a-zA-Z]+\*?\s*|[\^_/]\s*|[}}\]])$")
_BELONGS = re.compile(r"\s*[/^_{]")
_LISTS = re.compile(r"[,;:]|\\(?:mid|over|choose|atop)(?![a-zA-Z])")
_IN_BRACKETS = re.compile(r"[(\[][^()\[\]]*[)\]]|\{,\}|\\\{[^{}]*\\\}")
ONE_IN_BRACES = re.compile(r"\{(-?[\w.]*)\}")
# A comma may part the numbers of a list.
_PUNCTUATION = re.compile(r"\.(?!\d)|[?;:\"’]|(?<=,)\s+")
# Neither a factorial nor a derivative.
_EXCLAMATION = re.compile(r"(?<![\d)}!])(?<![^a-z][a-z])!")
_APOSTROPHE = re.compile(r"(?<![^a-z'][a-z])'|'(?=[a-z])")
_BLANK = re.compile(r"(?<!\d)\s+|\s+(?!\d)")


def without_styles(text: str) -> str:
    """Replace text in a style or group by the text alone: `\\textbf{4}`, `{\\rm cm}`, `{{x+1}}`."""
    if "{" not in text:
        return text
    before = None
    while before != text:
        before = text
        text = _SWITCHED.sub(r"\1", _STYLED.sub(r"\1", text))
    return _without_groups(text)


def _without_groups(text: str) -> str:
    """Remove braces that only group: no argument, no part of a fraction or power, no set."""
    opened = list[tuple[int, bool]]()
    layout = list[int]()
    for brace in _BRACE.finditer(text):
        place = brace.start()
        if brace[0] == "{":
            opened.append((place, _TAKES_GROUP.search(text, max(0, place - 24), place) is None))
            continue
        if not opened:
            continue
        start, is_free = opened.pop()
        if is_free and not _BELONGS.match(text, place + 1) and not _is_set(text[start + 1 : place]):
            layout += [start, place]
    if not layout:
        return text
    layout.sort()
    pieces = [text[start + 1 : stop] for start, stop in pairwise([-1, *layout, len(text)])]
    return "".join(pieces)


def _is_set(inside: str) -> bool:
    """Test whether a text in braces lists elements, or says which ones: by one bar, not by two."""
    return bool(_LISTS.search(_IN_BRACKETS.sub("", inside))) or inside.count("|") == 1


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
