"""The normal form and its n-gram ids in plain Python: what the code on arrays has to equal, value for value."""

import re
from collections.abc import Sequence

from pipeline.text.ngrams import MASK, WORD_BASE, word_id
from pipeline.text.normal_form import COMMANDS, SIGNS, fold

_THOUSANDS = re.compile(r"([0-9]+)((?:(?:,|\{,\}|,\\!|\\,)[0-9]{3}(?![0-9]))+)")
_WORD = re.compile(r"(\\?)([a-z\x80-\U0010ffff]+)|([0-9]+(?:\.[0-9]+)*)|([%*+\-/<=>^])")
_ALPHANUMERIC = re.compile("[a-z0-9\x80-\U0010ffff]")
_TWO_LETTERS = re.compile("[a-z]{2}")  # beside a hyphen: a word; one letter is a variable
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


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


def sequence_id(words: Sequence[str]) -> int:
    """Hash a sequence of words: a polynomial over the word ids."""
    return sum(word_id(word) * pow(WORD_BASE, i, 1 << 64) for i, word in enumerate(words)) & MASK


def ngram_ids(text: str, n: int) -> list[int]:
    """Hash all n-grams of a text in order, repeated ones included; none if the text has fewer than n words."""
    words = words_of(text)
    return [sequence_id(words[i : i + n]) for i in range(len(words) - n + 1)]
