r"""Define which texts are equal: the words that remain when case, spacing, punctuation and typesetting are dropped.

The normal form is made for mathematics: numbers and signs are kept, and LaTeX reads like plain text. A word is a run of
letters, a number (`3`, `2.5`), or one of the signs `% * + - / < = > ^`. A hyphen between words and a repeated sign
(`**bold**`, `---`) are punctuation; `}{` is a division line. This module holds the tables and the folding of
everything outside ASCII, `pipeline.text.words` splits columns of text into words. Texts equal line by line:

    **Ann** paid $\frac{1}{2}$ of 1{,}000 well-known coins    ann paid 1/2 of 1,000 well known coins
    “Naïve” Café: 3 × x² ≤ 7.50!                              naïve café 3 * x^2 \le 7.50
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
