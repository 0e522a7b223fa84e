"""What words and normal forms are, slowly; and texts that try them."""

import re
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import strategies as st

from dreamer_study.pipeline.text.ngrams import MASK, WORD_BASE, word_id
from dreamer_study.pipeline.text.normal_form import COMMANDS, SIGNS, fold
from dreamer_study.pipeline.text.words import text_column, word_blocks

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
    "'",
    "^",
    "%",
]
PIECES += [*"éÉαΣ×−–²½’“ﬁ٣θ∠\u0430\u044b\u200b\u00a0\x00\U0001f600", "e\u0301", "漢字"]
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
_ALPHANUMERIC = re.compile("[a-z0-9\x80-\U0010ffff]")
_TWO_LETTERS = re.compile("[a-z]{2}")  # beside a hyphen: a word; one letter is a variable
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def words_of(text: str) -> list[str]:
    """Split a text into its words in normal form."""
    text = _THOUSANDS.sub(lambda m: " " + m[1] + re.sub("[^0-9]", "", m[2]), fold(text)).translate(
        _LOWER
    )
    text = "".join(_sign(text, i) if c in SIGNS or c == "}" else c for i, c in enumerate(text))
    found = (
        (command, letters or number or sign)
        for command, letters, number, sign in _WORD.findall(text)
    )
    words = (COMMANDS.get(word, word) if command else word for command, word in found)
    return [word for word in words if word is not None]


def _sign(text: str, i: int) -> str:
    """Read the sign or closing brace at `i` as itself, as a division line, or as a blank."""
    here, two_before, before, after, two_after = (
        text[i],
        *(f"  {text}  "[i + k] for k in (0, 1, 3, 4)),
    )
    if here == "}":
        return "/" if after == "{" else " "
    if here in (before, after):
        return " "
    if here == "-" and _ALPHANUMERIC.match(before) and _ALPHANUMERIC.match(after):
        return (
            " "
            if _TWO_LETTERS.match(two_before + before) or _TWO_LETTERS.match(after + two_after)
            else here
        )
    return here


def sequence_id(words: Sequence[str]) -> int:
    """Hash a sequence of words: a polynomial over the word ids."""
    return sum(word_id(word) * pow(WORD_BASE, i, 1 << 64) for i, word in enumerate(words)) & MASK


def ngram_ids(text: str, n: int) -> list[int]:
    """Hash all n-grams of a text in order, repeated ones included; none if the text has fewer than
    n words."""
    words = words_of(text)
    return [sequence_id(words[i : i + n]) for i in range(len(words) - n + 1)]
