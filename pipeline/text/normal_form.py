r"""Define when two texts are equal: the words of a text in normal form, in plain Python.

The normal form is made for mathematics. Case, spacing, punctuation and LaTeX's typesetting are dropped; numbers and
signs are kept. A word is a run of letters, a number (`3`, `2.5`; `1,000`, `1{,}000` and `1000` are equal), or one of
the signs `% * + - / < = > ^`. A hyphen between words and a repeated sign (`**bold**`, `---`) are punctuation; `}{` is
a division line. `pipeline.text.words` computes the same words for whole columns; tests compare the two.

>>> words_of(r"**Ann** paid $\frac{1}{2}$ of 1{,}000 well-known coins: 3 × x² ≤ 7.50!")
['ann', 'paid', '1', '/', '2', 'of', '1000', 'well', 'known', 'coins', '3', '*', 'x', '^', '2', 'le', '7.50']
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

SIGNS = "%*+-/<=>^"
COMMANDS: dict[str, str | None] = {  # what a LaTeX command reads as; None: typesetting only
    **dict.fromkeys(("times", "cdot", "ast"), "*"),
    **{"div": "/", "lt": "<", "gt": ">", "leq": "le", "leqslant": "le", "geq": "ge", "geqslant": "ge", "neq": "ne"},
    **{"rightarrow": "to", "degree": "circ"},
    **dict.fromkeys(("frac", "dfrac", "tfrac", "cfrac", "left", "right", "big", "bigl", "bigr", "bigg", "biggl"), None),
    **dict.fromkeys(("biggr", "text", "textbf", "textit", "textrm", "textsf", "texttt", "mathrm", "mathbf"), None),
    **dict.fromkeys(("mathit", "mathsf", "mathbb", "mathcal", "operatorname", "mbox", "hbox", "displaystyle"), None),
    **dict.fromkeys(("boxed", "fbox", "quad", "qquad", "limits", "ldots", "cdots", "dots"), None),
}
_TYPOGRAPHY = {
    **dict.fromkeys("×·⋅∙∗", "*"),
    **dict.fromkeys("÷⁄∕", "/"),
    **dict.fromkeys("−‐‑‒–", "-"),
    **{"≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "√": "\\sqrt ", "π": "\\pi ", "∞": "\\infty ", "±": "\\pm "},
    **{"→": "\\to ", "°": "^\\circ ", "∈": "\\in ", "≈": "\\approx ", "∪": "\\cup ", "∩": "\\cap "},
}
_SUPERSCRIPT = re.compile("([⁰¹²³⁴-⁹])")
_FRACTION = re.compile("([¼½¾⅐-⅞])")
_FOREIGN = re.compile("[^\x00-\x7f]+")
_THOUSANDS = re.compile(r"([0-9]+)((?:(?:,|\{,\}|,\\!|\\,)[0-9]{3}(?![0-9]))+)")
_WORD = re.compile(r"(\\?)([a-z\x80-\U0010ffff]+)|([0-9]+(?:\.[0-9]+)*)|([%*+\-/<=>^])")
_ALPHANUMERIC = re.compile("[a-z0-9\x80-\U0010ffff]")
_TWO_LETTERS = re.compile("[a-z]{2}")  # beside a hyphen: a word; one letter is a variable
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def fold(text: str) -> str:
    """Replace everything outside ASCII by its plain form; ASCII stays as it is.

    Typographic signs become ASCII or LaTeX, superscript digits powers, letters lower case (NFKC), ideographs words of
    one character, all else blank.
    """
    if text.isascii():
        return text
    return _FOREIGN.sub(lambda run: _fold_run(run[0]), unicodedata.normalize("NFC", text))


@lru_cache(1 << 16)
def _fold_run(run: str) -> str:
    return unicodedata.normalize("NFKC", _FRACTION.sub(r" \1", _SUPERSCRIPT.sub(r"^\1", run))).translate(_FOLDED)


class _Folded(dict):
    """Map character codes to folded text, computed on first use."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if character.isascii():
            folded = character
        elif character in _TYPOGRAPHY:
            folded = _TYPOGRAPHY[character]
        elif category == "Nd":
            folded = str(unicodedata.decimal(character))
        elif category == "Lo" and "CJK" in unicodedata.name(character, ""):
            folded = f" {character} "
        elif category[0] in "LMN":
            folded = character.lower()
        else:
            folded = f" {character} " if category[0] == "S" else " "
        self[code] = folded
        return folded


_FOLDED = _Folded()


def words_of(text: str) -> list[str]:
    """Split a text into its words in normal form."""
    text = _THOUSANDS.sub(lambda m: " " + m[1] + re.sub("[^0-9]", "", m[2]), fold(text)).translate(_LOWER)
    text = "".join(_sign(text, i) if c in SIGNS or c == "}" else c for i, c in enumerate(text))
    found = ((command, letters or number or sign) for command, letters, number, sign in _WORD.findall(text))
    words = (COMMANDS.get(word, word) if command else word for command, word in found)
    return [word for word in words if word is not None]


def _sign(text: str, i: int) -> str:
    """Read the sign or closing brace at `i` as itself, as a division line, or as a blank."""
    here, two_before, before, after, two_after = text[i], *(f"  {text}  "[i + k] for k in (0, 1, 3, 4))
    if here == "}":
        return "/" if after == "{" else " "
    if here in (before, after):
        return " "
    if here == "-" and _ALPHANUMERIC.match(before) and _ALPHANUMERIC.match(after):
        return " " if _TWO_LETTERS.match(two_before + before) or _TWO_LETTERS.match(after + two_after) else here
    return here
