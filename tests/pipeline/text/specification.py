"""What words and normal forms are, slowly; and texts that try them."""

import re
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import strategies as st

from dreamer_study.pipeline.text.ngrams import MASK, WORD_BASE, word_id
from dreamer_study.pipeline.text.normal_form import COMMANDS, SIGNS, fold
from dreamer_study.pipeline.text.words import (
    _CLOSING,
    _NO_WORDS,
    _OPENING,
    _TWO_LETTERS,
    text_column,
    word_blocks,
)

PIECES = [
    "a",
    "bc",
    "Def",
    "lengthyword",
    "0",
    "12",
    "345",
    "000",
    ".",
    ",",
    "-",
    "--",
    "*",
    "**",
    "+",
    "=",
    "<",
    "/",
]
PIECES += [
    "{",
    "}",
    "}{",
    "{,}",
    "\\,",
    ",\\!",
    "\\",
    "\\frac",
    "\\times ",
    "\\left(",
    " ",
    "\n",
    "$",
    "`",
    "\\(",
    "\\)",
    "sin",
    "km",
    "\\rm ",
    "\\frac{1}",
    "'",
    "^",
    "%",
]
PIECES += [*"éÉαΣ×−–²½’“ﬁ٣θ∠\u0430\u044b\u200b\u00a0\x00\U0001f600", "e\u0301", "漢字"]
PIECES += [
    "<b>",
    "</b>",
    "<sup>",
    "</sup>",
    "[math]",
    "<p>",
    "x",
    "~",
    "\\\\",
    "!",
    "!=",
    "_",
    "\\color{red}",
    "\\not",
]
PIECES += ["&nbsp;", "&#39;", "&", "\\textbackslash ", "\\log_8", "\\frac1", "\\dfrac3", "2"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=40)


def word_ids(texts: list[str], block_bytes: int = 1 << 18) -> list[list[int]]:
    found: list[list[int]] = []
    for rows, words in word_blocks(text_column(pa.array(texts, pa.string())), block_bytes):
        assert rows.start == len(found)
        found += [
            words.ids[words.offsets[d] : words.offsets[d + 1]].tolist()
            for d in range(rows.stop - rows.start)
        ]
    return found


_THOUSANDS = re.compile(r"([0-9]+)((?:(?:,|\{,\}|,\\!|\\,)[0-9]{3}(?![0-9]))+)")
_WORD = re.compile(r"(\\?)([a-z\x80-\U0010ffff]+)|([0-9]+(?:\.[0-9]+)*)|([%*+\-/<=>^])")
_TWO_FIRST = re.compile("[a-z]{2}")
_TWO_LAST = re.compile(".*[a-z]{2}", re.DOTALL)
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def words_of(text: str) -> list[str]:
    """Split a text into its words in normal form."""
    text = _THOUSANDS.sub(lambda m: " " + m[1] + re.sub("[^0-9]", "", m[2]), fold(text)).translate(
        _LOWER
    )
    signed = "".join(_sign(text, i) if c in SIGNS or c == "}" else c for i, c in enumerate(text))
    found = list(_WORD.finditer(signed))
    words = []
    for place, match in enumerate(found):
        is_command, letters, number, sign = match.groups()
        if sign == "-" and _joins(text, found, place):
            continue
        word = letters or number or sign
        words.append(COMMANDS.get(word, word) if is_command else word)
    return [word for word in words if word is not None]


def _joins(text: str, found: list[re.Match], place: int) -> bool:
    """Test whether the hyphen at a place joins two words, of which one is a word of language."""
    if place in (0, len(found) - 1):
        return False
    before, here, after = found[place - 1 : place + 2]
    marked = text[before.end() : here.start()] in _CLOSING
    marked &= text[here.end() : after.start() + len(after[1] or "")] in _OPENING
    if not marked or before[4] or after[4]:
        return False
    ends = not before[1] and _TWO_LAST.fullmatch(before[0]) and _is_language(before[0])
    begins = not after[1] and _TWO_FIRST.match(after[0]) and _is_language(after[0])
    return bool(ends or begins)


def _is_language(word: str) -> bool:
    is_short = len(word.encode()) == 2
    return word not in _NO_WORDS and (not is_short or word in _TWO_LETTERS)


def _sign(text: str, i: int) -> str:
    """Read the sign or closing brace at `i` as itself, as a division line, or as a blank."""
    here, before, after = (text[i], *(f" {text} "[i + k] for k in (0, 2)))
    if here == "}":
        return "}/"[after == "{"]
    return " " if here in (before, after) else here


def sequence_id(words: Sequence[str]) -> int:
    """Hash a sequence of words: a polynomial over the word ids."""
    return sum(word_id(word) * pow(WORD_BASE, i, 1 << 64) for i, word in enumerate(words)) & MASK


def ngram_ids(text: str, n: int) -> list[int]:
    """Hash all n-grams of a text in order, repeated ones included; none if the text has fewer than
    n words."""
    words = words_of(text)
    return [sequence_id(words[i : i + n]) for i in range(len(words) - n + 1)]
