r"""Define which texts are equal: the normal form.

It is the words that remain when case, spacing, punctuation and typesetting are dropped, made for
mathematics: numbers and signs are kept, and LaTeX reads like plain text. A word is a run of
letters, a number (`3`, `2.5`), or one of the signs `% * + - / < = > ^`. A hyphen between words and
a repeated sign (`**bold**`, `---`) are punctuation; `}{` is a division line. This module holds the
tables and the folding of everything that is not plain ASCII, `pipeline/text/words.py` splits
columns of text into words. Texts equal line by line:

    **Ann** paid $\frac{1}{2}$ of 1{,}000 well-known coins    ann paid 1/2 of 1,000 well known coins
    “Naïve” Café: 3 × x² ≤ 7.50!                              naïve café 3 * x^2 \le 7.50
    $\log_82+\tfrac12$ of Ben\textquotesingle s&nbsp;pens      \log_8 2+1/2 of Ben's pens
    ∠ABC = θ in △ABC                                          \angle ABC = \theta in \triangle ABC
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

SIGNS = "%*+-/<=>^"
# What a LaTeX command reads as; None: typesetting only.
COMMANDS: dict[str, str | None] = {
    "times": "*",
    "cdot": "*",
    "ast": "*",
    "div": "/",
    "lt": "<",
    "gt": ">",
    "leq": "le",
    "leqslant": "le",
    "geq": "ge",
    "geqslant": "ge",
    "neq": "ne",
    "rightarrow": "to",
    "degree": "circ",
    "textless": "<",
    "textgreater": ">",
    "textasciicircum": "^",
    "varphi": "phi",
    "vartheta": "theta",
    "varepsilon": "epsilon",
    "varrho": "rho",
    "varnothing": "emptyset",
}
_TYPESETTING = """
frac dfrac tfrac cfrac left right big bigl bigr bigg biggl biggr text textbf textit textrm textsf
texttt mathrm mathbf mathit mathsf mathbb mathcal operatorname mbox hbox displaystyle boxed fbox
quad qquad limits ldots cdots dots emph underline textquotesingle textquoteright textquoteleft
textquotedblleft textquotedblright textdollar textsc textnormal boldsymbol bm nolimits
"""
COMMANDS |= dict.fromkeys(_TYPESETTING.split())
_TYPOGRAPHY = {
    **dict.fromkeys("×·⋅∙∗", "*"),
    **dict.fromkeys("÷⁄∕", "/"),
    **dict.fromkeys("−‐‑‒–", "-"),
    "≤": "\\le ",
    "≥": "\\ge ",
    "≠": "\\ne ",
    "√": "\\sqrt ",
    "∞": "\\infty ",
    "±": "\\pm ",
    "→": "\\to ",
    "°": "^\\circ ",
    "∈": "\\in ",
    "≈": "\\approx ",
    "∪": "\\cup ",
    "∩": "\\cap ",
    "∠": "\\angle ",
    "△": "\\triangle ",
    "⊥": "\\perp ",
    "∥": "\\parallel ",
    "≅": "\\cong ",
    "≡": "\\equiv ",
    "∼": "\\sim ",
    "⊂": "\\subset ",
    "⊆": "\\subseteq ",
    "∅": "\\emptyset ",
    "∑": "\\sum ",
    "∏": "\\prod ",
    "∫": "\\int ",
    "∂": "\\partial ",
    "∇": "\\nabla ",
    "∀": "\\forall ",
    "∃": "\\exists ",
    "⇒": "\\implies ",
    "⌊": "\\lfloor ",
    "⌋": "\\rfloor ",
    "⌈": "\\lceil ",
    "⌉": "\\rceil ",
    "∓": "\\mp ",
    "ℓ": "\\ell ",
    **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),  # invisible
}
_SUPERSCRIPT = re.compile("([⁰¹²³⁴-⁹])")
_FRACTION = re.compile("([¼½¾⅐-⅞])")
_FOREIGN = re.compile("[^\x00-\x7f]+")
# A variable, no word of the language.
_LONE_GREEK = re.compile("(?<![\u0370-\u03ff])[Α-ΡΣ-Ωα-ω](?![\u0370-\u03ff])")
_ENTITY = re.compile(r"&(?:#[0-9]{1,6}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8}[0-9]{0,2});")
_BACKSLASH = re.compile(r"\\textbackslash(?:\{\}|\s)?")
# No logarithm has base 1: `\log_10` is one of base ten.
_SINGLE_DIGIT = re.compile(r"\\(?:log_[02-9]|[dtc]?frac[0-9])(?=[0-9{\\])")

# Cyrillic and Greek letters that look like Latin ones.
_LOOKALIKES = {
    **dict(zip("аеорсхуіјѕһԛԝ", "aeopcxyijshqw", strict=True)),
    **dict(zip("АВЕКМНОРСТХУІЈЅԌ", "ABEKMHOPCTXYIJSG", strict=True)),
    **dict(zip("οΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "oABEZHIKMNOPTYX", strict=True)),
}
_AS_LATIN = str.maketrans(_LOOKALIKES)
_LOOKALIKE = re.compile(f"[{''.join(_LOOKALIKES)}]")
_WORD = re.compile(r"[^\W\d_]+")
_CYRILLIC = re.compile("[\u0400-\u052f]")


def fold(text: str) -> str:
    r"""Replace what is not plain ASCII by its plain form; all other ASCII stays as it is.

    Typographic signs become ASCII or LaTeX, superscript digits powers, letters lower case (NFKC),
    ideographs words of one character, look-alike letters Latin, all else blank. HTML entities
    become what they show. A command that takes one digit gets it set apart (`\log_82`, `\frac12`).
    """
    text = _BACKSLASH.sub(r"\\", text)
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    text = _SINGLE_DIGIT.sub(_set_apart, text)
    if text.isascii():
        return text
    return _FOREIGN.sub(_plain, as_latin(unicodedata.normalize("NFC", text)))


def _plain(run: re.Match[str]) -> str:
    if len(run[0]) < 64:
        return _fold_run(run[0])
    return _fold_run.__wrapped__(run[0])  # a long run seldom comes again, and takes memory to keep


def as_latin(text: str) -> str:
    """Replace look-alike letters in words that are otherwise Latin.

    In a text without any other Cyrillic letter all of them are replaced.

    >>> as_latin("J\u0430net sаid \u0430 word"), as_latin("он сам"), as_latin("αx = Δy")
    ('Janet said a word', 'он сам', 'αx = Δy')
    """
    if not _LOOKALIKE.search(text):
        return text
    if _LOOKALIKES.keys() >= set(_CYRILLIC.findall(text)):
        text = _CYRILLIC.sub(lambda letter: _LOOKALIKES[letter[0]], text)
    return _WORD.sub(lambda word: _latin_word(word[0]), text)


def _latin_word(word: str) -> str:
    latin = word if word.isascii() else word.translate(_AS_LATIN)
    is_latin_otherwise = latin.isascii() and any(letter.isascii() for letter in word)
    return latin if is_latin_otherwise else word


def _set_apart(command: re.Match[str]) -> str:
    return command[0] + (" " if "log" in command[0] else "/")


def _greek(letter: str) -> str:
    name = unicodedata.name(letter).rpartition(" ")[2].lower()
    return "lambda" if name == "lamda" else name  # as Unicode spells it


@lru_cache(1 << 16)
def _fold_run(run: str) -> str:
    plain = _SUPERSCRIPT.sub(r"^\1", run)
    plain = _FRACTION.sub(r" \1", plain)
    plain = unicodedata.normalize("NFKC", plain)
    plain = _LONE_GREEK.sub(lambda letter: f" {_greek(letter[0])} ", plain)
    return plain.translate(_FOLDED)


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
