"""Edit a problem: to a copy in another style, which is one problem with the original, or to another problem.

Each edit takes random numbers, the problem and another problem of the set; an empty text means that the edit does not
apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

FIGURE = '[asy]\ndraw((0,0)--(4,0)--(4,3)--cycle);\nlabel("$A$",(0,0),SW);\nlabel("$12$",(4,1.5),E);\n[/asy]'
_LATIN, _CYRILLIC = "aeopcxyAEOPCXHKMT", "аеорсхуАЕОРСХНКМТ"
_WORDS = ("coloured", "rather", "market", "quickly", "garden", "silver", "under", "brother")
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")
_NUMBER = re.compile(r"\d+")
Edit = Callable[[Random, str, str], str]


def as_latex(draw: Random, text: str, other: str) -> str:
    """Set numbers between dollar signs, fractions as \\frac, one word bold, apostrophes as commands."""
    text = re.sub(r"(?<![\d./])(\d+)/(\d+)(?![\d./])", r"$\\dfrac{\1}{\2}$", text)
    text = re.sub(r"(?<![\d.,${}^_])(\d+(?:\.\d+)?)(?![\d$}]|[.,]\d)", r"$\1$", text).replace("'", r"\textquotesingle ")
    words = text.split(" ")
    place = draw.randrange(len(words))
    if words[place].isalpha():
        words[place] = rf"\textbf{{{words[place]}}}"
    return " ".join(words)


def as_unicode(draw: Random, text: str, other: str) -> str:
    """Exchange quotation marks, minus signs and blanks for typographic ones, and write Greek names as letters."""
    text = text.replace("'", "’").replace(" - ", " − ").replace(" * ", " × ")
    return re.sub(r"\b(theta|alpha|pi)\b", lambda m: {"theta": "θ", "alpha": "α", "pi": "π"}[m[1]], text).replace(
        " ", "\u00a0", 3
    )


def as_html(draw: Random, text: str, other: str) -> str:
    """Write blanks, apostrophes and comparison signs as HTML entities."""
    text = text.replace("'", "&#39;").replace("<", "&lt;").replace(">", "&gt;")
    words = text.split(" ")
    for place in draw.sample(range(len(words)), max(1, len(words) // 6)):
        words[place] += "&nbsp;"
    return " ".join(words).replace("&nbsp; ", "&nbsp;")


def with_lookalikes(draw: Random, text: str, other: str) -> str:
    """Exchange a third of the letters that Cyrillic has too."""
    table = dict(zip(_LATIN, _CYRILLIC, strict=True))
    return "".join(table[c] if c in table and draw.random() < 0.33 else c for c in text)


def another_word(draw: Random, text: str, other: str) -> str:
    """Exchange one word of letters."""
    return _at_word(draw, text, lambda _: draw.choice(_WORDS))


def one_word_less(draw: Random, text: str, other: str) -> str:
    """Leave one word of letters out."""
    return _at_word(draw, text, lambda _: "")


def one_word_more(draw: Random, text: str, other: str) -> str:
    """Add one word."""
    return _at_word(draw, text, lambda word: f"{word} {draw.choice(_WORDS)}")


def _at_word(draw: Random, text: str, edit: Callable[[str], str]) -> str:
    places = list(re.finditer(r"(?<![\w\\{$^])[A-Za-z]{3,}(?![\w}$^])", text))
    if not places:
        return ""
    place = draw.choice(places)
    return text[: place.start()] + edit(place[0]) + text[place.end() :]


def embedded(draw: Random, text: str, other: str) -> str:
    """Set the problem between other sentences."""
    return f"Alex tried a problem. {text}{'' if text.rstrip()[-1:] in '.?!:' else '.'} Then Alex went home."


def other_numbers(draw: Random, text: str, other: str) -> str:
    """Exchange all numbers."""
    return _NUMBER.sub(lambda m: str(int(m[0]) + draw.randint(1, 9)), text)


def one_other_number(draw: Random, text: str, other: str) -> str:
    """Exchange one number."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return ""
    place = draw.choice(found)
    return text[: place.start()] + str(int(place[0]) + draw.randint(1, 9)) + text[place.end() :]


def another_question(draw: Random, text: str, other: str) -> str:
    """Keep the sentences of the set-up and ask what another problem asks."""
    ours, theirs = _SENTENCE_END.split(text), _SENTENCE_END.split(other)
    if len(ours) < 2 or len(theirs) < 2 or len(theirs[-1].split()) < 6:
        return ""
    return " ".join([*ours[:-1], theirs[-1]])


def without_annotations(solution: str) -> str:
    """Leave out the calculator annotations and the final line of a worked solution of GSM8K."""
    return re.sub("<<[^<>]*>>", "", solution).split("####")[0]


COPIES: dict[str, Edit] = {
    "verbatim": lambda draw, text, other: text,
    "LaTeX": as_latex,
    "unicode": as_unicode,
    "HTML entities": as_html,
    "look-alike letters": with_lookalikes,
    "another word": another_word,
    "one word less": one_word_less,
    "one word more": one_word_more,
    "embedded": embedded,
    "without its figure": lambda draw, text, other: text + " ",
}
OTHERS: dict[str, Edit] = {
    "all numbers swapped": other_numbers,
    "one number swapped": one_other_number,
    "another question": another_question,
}
EXCHANGES = ("another word", "one word less", "one word more")
