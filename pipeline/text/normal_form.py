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
    "over": "/",
    **dict.fromkeys(["le", "leq", "leqslant", "leqq"], "<="),
    **dict.fromkeys(["ge", "geq", "geqslant", "geqq"], ">="),
    **dict.fromkeys(["ne", "neq"], "!="),
    "rightarrow": "to",
    "textless": "<",
    "textgreater": ">",
    "textasciicircum": "^",
    "lnot": "neg",
    "wedge": "land",
    "vee": "lor",
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
ensuremath mathop mathbin mathrel mathord mathscr mathfrak pmb uline smash
"""
# Typesetting of all that follows, to the end of the braces.
SWITCHES = """
rm bf it sf tt sl sc em cal bfseries itshape rmfamily displaystyle textstyle scriptstyle
scriptscriptstyle tiny scriptsize footnotesize small normalsize large huge
"""
# Brackets in a size, bars (`|` is punctuation too), blanks and dots.
_LAYOUT = """
frac dfrac tfrac cfrac left right middle big bigl bigm bigr bigg biggl biggm biggr vert lvert rvert
lbrace rbrace lbrack rbrack quad qquad space thinspace limits nolimits ldots cdots dots
textquotesingle textquoteright textquoteleft textquotedblleft textquotedblright textdollar noindent
mid colon nonumber notag mathstrut strut newline par hfill centering
"""
COMMANDS |= dict.fromkeys([*STYLES.split(), *SWITCHES.split(), *_LAYOUT.split()])
_TYPOGRAPHY = {
    **dict.fromkeys("×·⋅∙∗✕✖⨯", "*"),
    **dict.fromkeys("÷⁄∕", "/"),
    **dict.fromkeys("−‐‑‒–", "-"),
    "≤": "\\le ",
    "≥": "\\ge ",
    "≠": "\\ne ",
    "√": "\\sqrt ",
    "∛": "\\sqrt[3] ",
    "∜": "\\sqrt[4] ",
    "∉": "\\notin ",
    "‖": "\\|",
    "′": "'",
    "¬": "\\neg ",
    "∧": "\\land ",
    "∨": "\\lor ",
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
# An ordinal's ending is no exponent.
_RAISED_ENDING = re.compile("ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ")
_SUPERSCRIPT = re.compile("([⁰¹²³⁴-⁹⁺⁻⁼⁽⁾ⁿⁱᵃ-ᵇᵈ-ᵏᵐᵒᵖᵗ-ᵛˣʸᶻᶜ]+)")
_SUBSCRIPT = re.compile("([₀-₉₊₋₌₍₎ₐ-ₜᵢ-ᵥⱼ]+)")
_RING = re.compile("[º˚]")  # a degree sign in other letters
_FRACTION = re.compile("([¼½¾⅐-⅞])")
_FOREIGN = re.compile("[^\x00-\x7f]+")
# A variable, no word of the language.
_LONE_GREEK = re.compile("(?<![\u0370-\u03ff])[Α-ΡΣ-Ωα-ω](?![\u0370-\u03ff])")
_ENTITY = re.compile(r"&(?:#[0-9]{1,6}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8}[0-9]{0,2});")
_BACKSLASH = re.compile(r"\\textbackslash(?:\{\}|\s)?")
# A backslash that was escaped once too often: `\\\\frac`, `\\\\(`; `\\\\` alone ends a row.
_DOUBLED = re.compile(r"\\\\(?<!\\\\\\)(?=[a-zA-Z()\[\]])")
# No logarithm has base 1: `\log_10` is one of base ten.
_LOGARITHM = re.compile(r"\\log_[02-9](?=[0-9{\\])")
_DIVIDED = r"\\[dtc]?(?:frac|binom)"
# A numerator without braces, of one sign; and one in braces before a blank or a single denominator.
_BARE_NUMERATOR = re.compile(
    rf"({_DIVIDED})(?:\s*([0-9]|\\(?:pi|theta|alpha|beta)(?![a-zA-Z]))"
    rf"|\s+([a-zA-Z]))\s*(?=[0-9a-zA-Z{{\\])"
)
_NUMERATOR = re.compile(rf"({_DIVIDED}\s*\{{[^{{}}]*\}})(?:\s+(?=\{{)|\s*(?=[0-9a-zA-Z\\]))")
# "$n$th" and "nth" are two words.
_ORDINAL = re.compile(r"th(?<=(?<![a-zA-Z])[i-npqrI-NPQR]th)(?![a-zA-Z])")
_ENVIRONMENT = re.compile(
    r"\\(?:begin|end)\s*\{(?:equation|align|aligned|alignat|gather|gathered|multline|flalign"
    r"|eqnarray"
    r"|displaymath|math|split|center)\*?\}"
)
# A colour is a style of what stands in braces, or of all that follows.
_COLOUR = re.compile(r"\\(?:text)?color(?:box)?\s*(?:\[\w*\])?\s*\{[^{}]*\}\s*(\{)?")
# Room, and names of equations.
_ROOM = re.compile(r"\\(?:[hv]space\*?|[hv]?phantom|label|tag\*?)\s*\{[^{}]*\}")
_STARRED = re.compile(r"\\operatorname\*")
_NEGATED = re.compile(r"\\not\s*(?:(=)|\\(in|subset|equiv)(?![a-zA-Z]))")
_DEGREE = re.compile(r"\\(?:text)?degree(?![a-zA-Z])")
_LINE_TAGS = "br|p|div|li|ul|ol|h1|h2|h3|h4|center|blockquote|section"
_STYLE_TAGS = "b|i|u|s|em|strong|span|font|small|big|tt|var|code|mark|a|ins|kbd|nobr"
_TAGS_OF_MATHEMATICS = "math|latex|tex|equation|imath|eq"
TAGS = f"{_LINE_TAGS}|{_STYLE_TAGS}|{_TAGS_OF_MATHEMATICS}|sup|sub"
_ANY_TAG = re.compile(rf"</?(?:{TAGS})\b|\[/?[a-z]", re.IGNORECASE)
# Marks around mathematics, as of forums.
_TAG_OF_MATHEMATICS = re.compile(
    r"\[/?(?:i?math|d?math|i?latex|i?tex)\]"
    rf"|</?(?:{_TAGS_OF_MATHEMATICS})>",
    re.IGNORECASE,
)
_RAISED = re.compile(r"<(sup|sub)\b[^<>]*>(.*?)</\1\s*>", re.IGNORECASE | re.DOTALL)
_LINE_TAG = re.compile(rf"</?(?:{_LINE_TAGS})(?:\s[^<>]*)?/?>", re.IGNORECASE)
# In pairs only: `a<b>c` is mathematics.
_STYLE_TAG = re.compile(
    rf"<({_STYLE_TAGS})\b(?:\s[^<>]*)?>"
    r"((?:(?!<\1\b).)*?)</\1\s*>",
    re.IGNORECASE | re.DOTALL,
)
# Stars of italics: none is beside a blank within, nor beside a word without.
_ITALICS = re.compile(
    r"\*(?:(?<=^\*)|(?<=[\s(\"':>$,]\*))(?![\s*])([^*\n]{1,400}?)(?<!\s)\*(?![\w(*\[{\\])",
    re.MULTILINE,
)
# Marks between groups of thousands that are no commas.
_GROUPED = re.compile(
    r"(?<![\d.,])\d{1,3}(?:(?:[ ~'\u00a0\u2007\u2009\u202f’]|\{?\\[;: ,]\}?|\{ \})\d{3})+(?![\d-])"
)
_MAY_GROUP = re.compile(r"\d(?:[ ~'\u00a0\u2007\u2009\u202f’]|\{?\\[;: ,]\}?|\{ \})\d{3}(?!\d)")
_NO_DIGITS = re.compile(r"[^\d]+")
# A letter for the sign of a product: `3 x 4`, `$3$ x $4$`; `3x4` may have lost its exponent.
_TIMES = re.compile(
    r"[xX](?:(?<=\d [xX])|(?<=\d[$`] [xX])|(?<=\d(?:\\\)|\*\*|\$\$) [xX]))"
    r"(?= (?:\\\(|\*\*|\$\$?|`)?\d)"
)
_COMPARED = re.compile(r"([<>])=|(?<=\s)!=")

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
    become what they show, tags of HTML the LaTeX that looks so. A command that takes one digit gets
    it set apart (`\log_82`), a fraction its division line (`\frac12`, `\frac{a}b`). The marks of
    displayed equations become blanks, other marks of thousands commas.
    """
    return fold_letters(_fold_typesetting(text))


def fold_letters(text: str) -> str:
    """Fold a text that has nothing to fold but letters and signs beyond ASCII."""
    if text.isascii():
        return text
    return _FOREIGN.sub(_plain, as_latin(unicodedata.normalize("NFC", text)))


def _fold_typesetting(text: str) -> str:
    """Fold entities, tags, commands and other forms of ASCII.

    Most texts have little of all this: to look for a word first takes a tenth of the time.
    """
    if "textbackslash" in text:
        text = _BACKSLASH.sub(r"\\", text)
    if "&" in text:
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    text = _ORDINAL.sub(" th", text)
    if _MAY_GROUP.search(text):
        text = _GROUPED.sub(lambda number: _NO_DIGITS.sub(",", number[0]), text)
    if " x " in text or " X " in text:
        text = _TIMES.sub("*", text)
    if "<=" in text or ">=" in text or "!=" in text:
        text = _COMPARED.sub(_comparison, text)
    if "*" in text:
        text = _ITALICS.sub(r"\1", text)
    if _may_have_tags(text):
        text = _without_tags(text)
    return _fold_commands(text) if "\\" in text else text


def _fold_commands(text: str) -> str:
    """Write what LaTeX has several commands for in one way."""
    if "\\\\" in text:
        text = _DOUBLED.sub(r"\\", text)
    if "color" in text:
        text = _COLOUR.sub(lambda colour: r"\text{" if colour[1] else r"\rm ", text)
    if any(name in text for name in ("space", "phantom", "\\label", "\\tag")):
        text = _ROOM.sub(" ", text)
    if "operatorname*" in text:
        text = _STARRED.sub(r"\\operatorname", text)
    if "\\not" in text:
        text = _NEGATED.sub(lambda sign: rf"\not{sign[2]} " if sign[2] else r"\ne ", text)
    if "degree" in text:
        text = _DEGREE.sub(r"^\\circ", text)
    if "\\log_" in text:
        text = _LOGARITHM.sub(r"\g<0> ", text)
    if "frac" in text or "binom" in text:
        text = _BARE_NUMERATOR.sub(r"\1 \2\3/", text)
        text = _NUMERATOR.sub(_with_line, text)
    if "\\begin" in text or "\\end" in text:
        text = _ENVIRONMENT.sub(" ", text)
    return text


def _comparison(sign: re.Match[str]) -> str:
    return {"<": "\\le ", ">": "\\ge "}.get(sign[1], "\\ne ")


def _may_have_tags(text: str) -> bool:
    has_mark = any(mark in text for mark in ("[/", "</", "<br", "<p", "<BR", "<P"))
    return has_mark and bool(_ANY_TAG.search(text))


def _without_tags(text: str) -> str:
    """Remove the tags of mathematics and of HTML; raised text becomes a power, lowered an index."""
    text = _TAG_OF_MATHEMATICS.sub("$", text)
    text = _LINE_TAG.sub("\n", _RAISED.sub(_raised, text))
    before = None
    while before != text:  # one tag may stand in another
        before = text
        text = _STYLE_TAG.sub(r"\2", text)
    return text


def _raised(tag: re.Match[str]) -> str:
    if tag[2].strip().lower() in ("st", "nd", "rd", "th"):
        return tag[2]
    sign = "^" if tag[1].lower() == "sup" else "_"
    return f"{sign}{{{tag[2]}}}"


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
    plain = _RAISED_ENDING.sub(lambda ending: unicodedata.normalize("NFKC", ending[0]), run)
    plain = _RING.sub("°", plain)
    plain = _SUBSCRIPT.sub(r"_\1", _SUPERSCRIPT.sub(r"^\1", plain))
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
