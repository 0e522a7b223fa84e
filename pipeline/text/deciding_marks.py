r"""Count the marks of mathematics that decide what a problem asks, however they are written.

The normal form drops some of them with the punctuation, and a word or sign that is left out may be
an edit; one of these makes another problem: a factorial, an exponent, an index, an absolute value,
a root, a function, the ends of an interval.

>>> def differ(ours, theirs):
...     return deciding_marks(ours) != deciding_marks(theirs)
>>> differ("n! > 5", "n > 5"), differ("x^2", "x_2"), differ("[3,9)", "(3,9]"), differ("|x|", "x")
(True, True, True, True)
>>> differ(r"\left[3, 9\right)", "[3,9)"), differ("x squared!", "x²"), differ(r"\sqrt2", "√(2)")
(False, False, False)
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from dreamer_study.pipeline.text.layout import without_styles
from dreamer_study.pipeline.text.normal_form import COMMANDS, fold

_FUNCTIONS = {
    "sin": "sine sin",
    "cos": "cosine cos",
    "tan": "tangent tan",
    "cot": "cotangent cot",
    "sec": "secant sec",
    "csc": "cosecant csc cosec",
    "log": "logarithm log ln",
    "exp": "exp",
    "sqrt": "sqrt",
    "gcd": "gcd gcf",
    "lcm": "lcm",
    "floor": "lfloor floor",
    "ceil": "lceil ceil ceiling",
    "bar": "bar overline conjugate",
    "vec": "vec overrightarrow",
    "cup": "cup union",
    "cap": "cap intersection",
    "notin": "notin",
    "pm": "pm mp",
    "percent": "percent percentage",
    "degree": "degree degrees circ",
    "|": "vert lvert rvert mid",
}
_NAMES = {name: kind for kind, names in _FUNCTIONS.items() for name in names.split()}
_ALTERNATIVES = "|".join(sorted(_NAMES, key=len, reverse=True))
_FIRST_LETTERS = "".join(sorted({name[0] for name in _NAMES}))
_LAYOUT = re.compile(r"\\(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])\.?|\\[,;:! ]|\\(?=_)|[$`]")
# A line of a table begins and ends with a bar.
_TABLE = re.compile(r"^\s*\|(?=[\s:-]).*\|\s*$", re.MULTILINE)
_WORDED = re.compile(
    r"(?P<squared>\b(?:squared|cubed))\b|(?P<root>\bsquare roots?)\b|(?P<share>\bper cents?)\b",
    re.I,
)
_WORDS = {"squared": "^", "root": r"\sqrt", "share": "%"}
# Each alternative begins with its sign and looks behind it: to look behind at every letter of a
# text takes five times as long.
_MARK = re.compile(
    r"!(?:(?<=\d!)|(?<=[)}]!)|(?<=(?<![a-zA-Z])[a-zA-Z]!))!*"
    r"|\^(?!\s*\{?\s*\\(?:circ|prime))"
    r"|(?:_(?<=[a-zA-Z0-9)}\]]_)| _(?=[{\d]))(?=[a-zA-Z0-9{\\(])"
    r"|(?P<share>%)|(?P<division>/|\\[dtc]?frac(?![a-zA-Z])|\\over(?![a-zA-Z]))"
    r"|\\?\|"
    r"|[a-zA-Z](?=['^])(?<![a-zA-Z\\'].)(?P<derivative>'+|\^\{?\\prime\}?)(?![a-zA-Z])"
    r"|(?P<open>[\[(](?<!\\.)|\{(?<![\w^_}\\].)|\\\{(?<![\w^_}\\]..))"
    r"(?P<inside>[^()\[\]\n]{1,40},[^()\[\]\n]{1,40}?)(?P<close>[\])]|\\?\})"
    rf"|(?=[{_FIRST_LETTERS}])(?<![a-zA-Z])(?P<name>{_ALTERNATIVES})(?![a-zA-Z])",
    re.IGNORECASE,
)
_OPERATORS = """
lt gt le leq leqslant ge geq geqslant ne neq in notin subset subseteq supset supseteq to infty sum
prod int neg lnot land wedge lor vee forall exists perp parallel equiv cong sim setminus binom
dbinom tbinom div
"""
# A relation, an operation, or the sign of a negative number.
_OPERATION = re.compile(
    rf"\\({'|'.join(sorted(_OPERATORS.split(), key=len, reverse=True))})(?![a-zA-Z])"
    r"|[+=<>]|(?<![\w)}\]])(?<![\w)}\]] )-(?=\d)"
)
_PROSE = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z]{3,}")


@lru_cache(1 << 12)
def deciding_marks(text: str) -> Counter[str]:
    """Count the deciding marks of a text by their kind."""
    return _marks(without_styles(fold(text)))


def _marks(plain: str) -> Counter[str]:
    """Count the deciding marks of a folded text without styles."""
    plain = _LAYOUT.sub("", _TABLE.sub("", plain) if "|" in plain else plain)
    lower = plain.lower()
    if any(word in lower for word in ("squared", "cubed", "square root", "per cent")):
        plain = _WORDED.sub(lambda word: _WORDS[word.lastgroup or ""], plain)
    return Counter(filter(None, map(_kind, _MARK.finditer(plain))))


def _kind(mark: re.Match[str]) -> str:
    """Name the kind of a mark; "" for brackets that are no interval's."""
    if mark["name"]:
        return _NAMES[mark["name"].lower()]
    if mark["share"]:
        return "percent"
    if mark["division"]:
        return "/"
    if mark["derivative"]:
        return "'"
    if not mark["inside"]:
        return mark[0].strip().removeprefix("\\")
    ends = (mark["open"] + mark["close"]).replace("\\", "")
    return "" if ends == "()" or _PROSE.search(mark["inside"]) else ends


def deciding_signs(text: str) -> Counter[str]:
    r"""Count the deciding marks of a text and its relations and operations, hyphens aside.

    >>> deciding_signs("a/b < -5") == deciding_signs(r"\frac{a}{b} < -5")
    True
    >>> deciding_signs("well-known")
    Counter()
    """
    plain = without_styles(fold(text))
    signs = _marks(plain)
    for sign in _OPERATION.finditer(plain):
        command = sign[1]
        signs[(COMMANDS.get(command) or command) if command else sign[0]] += 1
    return signs
