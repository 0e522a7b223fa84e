r"""Define which texts are equal: the normal form.

It is the words that remain when case, spacing, punctuation and typesetting are dropped, made for
mathematics: numbers and signs are kept, and LaTeX reads like plain text. A word is a run of
letters, a number (`3`, `2.5`), or one of the signs `% * + - / < = > ^`. A hyphen at a word
(`well-known`, `$x$-axis`) and a repeated sign (`**bold**`, `---`) are punctuation, a hyphen between
products (`2xy-4yz`) is a sign; `}{` is a division line. So it makes no difference how a writer sets
mathematics: in `$ $`, `\( \)`, backticks, stars or nothing, upright or bold, with `\,` or blanks.
This module holds the tables and the folding of everything that is not plain ASCII,
`pipeline/text/words.py` splits columns of text into words. Texts equal line by line:

    **Ann** paid $\frac{1}{2}$ of 1{,}000 well-known coins    ann paid 1/2 of 1,000 well known coins
    “Naïve” Café: 3 × x² ≤ 7.50!                              naïve café 3 * x^2 \le 7.50
    $\log_82+\tfrac12$ of Ben\textquotesingle s&nbsp;pens      \log_8 2+1/2 of Ben's pens
    ∠ABC = θ in △ABC                                          \angle ABC = \theta in \triangle ABC
    the \(x\)-axis at **5** {\rm cm}, `2xy-4yz`               the $x$-axis at 5\,cm, 2xy - 4yz
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
    "dbinom": "binom",
    "tbinom": "binom",
}
# Typesetting of what stands in braces behind the command.
STYLES = """
text textbf textit textrm textsf texttt textsc textnormal textup textmd emph underline mathrm mathbf
mathit mathsf mathtt mathbb mathcal mathnormal operatorname mbox hbox boxed fbox boldsymbol bm
"""
# Typesetting of all that follows, to the end of the braces.
SWITCHES = """
rm bf it sf tt sl sc em cal bfseries itshape rmfamily displaystyle textstyle scriptstyle
"""
# Brackets in a size, bars (`|` is punctuation too), blanks and dots.
_LAYOUT = """
frac dfrac tfrac cfrac left right middle big bigl bigm bigr bigg biggl biggm biggr vert lvert rvert
lbrace rbrace lbrack rbrack quad qquad space thinspace limits nolimits ldots cdots dots
textquotesingle textquoteright textquoteleft textquotedblleft textquotedblright textdollar noindent
"""
COMMANDS |= dict.fromkeys([*STYLES.split(), *SWITCHES.split(), *_LAYOUT.split()])
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
_LOGARITHM = re.compile(r"\\log_[02-9](?=[0-9{\\])")
_DIVIDED = r"\\[dtc]?(?:frac|binom)"
# A numerator without braces, of one sign; and one in braces before a blank or a single denominator.
_BARE_NUMERATOR = re.compile(rf"({_DIVIDED})(?:\s*([0-9])|\s+([a-zA-Z]))\s*(?=[0-9a-zA-Z{{\\])")
_NUMERATOR = re.compile(rf"({_DIVIDED}\s*\{{[^{{}}]*\}})(?:\s+(?=\{{)|\s*(?=[0-9a-zA-Z\\]))")
# "$n$th" and "nth" are two words.
_ORDINAL = re.compile(r"(?<![a-zA-Z])([i-npqrI-NPQR])(?=th(?![a-zA-Z]))")
_ENVIRONMENT = re.compile(
    r"\\(?:begin|end)\s*\{(?:equation|align|gather|multline|flalign|displaymath|math|split)\*?\}"
)

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
    become what they show. A command that takes one digit gets it set apart (`\log_82`), a fraction
    its division line (`\frac12`, `\frac{a}b`). The marks of displayed equations become blanks.
    """
    text = _BACKSLASH.sub(r"\\", text)
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    text = _ORDINAL.sub(r"\1 ", text)
    if "\\" in text:
        text = _LOGARITHM.sub(r"\g<0> ", text)
        text = _BARE_NUMERATOR.sub(r"\1 \2\3/", text)
        text = _NUMERATOR.sub(_with_line, text)
        text = _ENVIRONMENT.sub(" ", text)
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


def _with_line(numerator: re.Match[str]) -> str:
    """End a numerator in braces by its division line; a denominator in braces needs none."""
    in_braces = numerator.string[numerator.end()] == "{"
    return numerator[1] if in_braces else f"{numerator[1]}/"


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
