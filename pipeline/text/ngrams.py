"""From text to 64-bit ids of words and word n-grams, on the bytes of Arrow buffers, without a Python object per word.

Deduplication and decontamination compare documents by the n-grams they share. Nearly all the time of such stages goes
into splitting text in Python, so here a block of documents is split and hashed as one byte array with numpy.
`words_of`, `word_id` and `ngram_ids` are the same rules in plain Python: they are the specification, and the tests
hold the fast path to it value for value.

The normal form is made for mathematics. Case, spacing, punctuation and LaTeX's typesetting go away; numbers and signs
do not. A word is a run of letters, a number (`3`, `2.5`; `1,000`, `1{,}000` and `1000` are one), or one of the signs
`% * + - / < = > ^`. A hyphen that joins words and a repeated sign (`**bold**`, `---`) are no signs; `}{` is a division
line, so that `\\frac{1}{2}` is `1/2`. Other scripts and typographic signs are folded first (`fold`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLANK, LETTERS, NUMBER, SIGN = range(4)  # kinds of words, and of bytes, of which each sign is a kind from SIGN on
SIGNS = "%*+-/<=>^"
LINE = SIGN + len(SIGNS)  # a division line, a kind of its own: it is not one word with a `/` before it
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
_RAISED = re.compile("([⁰¹²³⁴-⁹])")
_FRACTION = re.compile("([¼½¾⅐-⅞])")
_FOREIGN = re.compile("[^\x00-\x7f]+")
_THOUSANDS = re.compile(r"([0-9]+)((?:(?:,|\{,\}|,\\!|\\,)[0-9]{3}(?![0-9]))+)")
_WORD = re.compile(r"(\\?)([a-z\x80-\U0010ffff]+)|([0-9]+(?:\.[0-9]+)*)|([%*+\-/<=>^])")
_ALPHANUMERIC = re.compile("[a-z0-9\x80-\U0010ffff]")
_LONG = re.compile("[a-z]{2}")  # what tells a word from a variable on either side of a hyphen
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")

_MASK = (1 << 64) - 1
_LETTER_BASE = 0x9E3779B97F4A7C15  # odd, so that powers have inverses modulo 2^64
_WORD_BASE = 0xD1342543DE82EF95
_MIX = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)  # from the finaliser of MurmurHash3
_PAD = 8  # blank bytes before and after a block, so that neighbours always exist
_FIRST_BYTES = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)
_ASCII_LETTER = np.zeros(256, bool)
_ASCII_LETTER[[*b"abcdefghijklmnopqrstuvwxyz"]] = True
_KINDS = bytearray(256)
_KINDS[128:] = bytes([LETTERS]) * 128
for _some, _kind in (
    (b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", LETTERS),
    (b"0123456789", NUMBER),
    *((sign.encode(), SIGN + place) for place, sign in enumerate(SIGNS)),
):
    for _byte in _some:
        _KINDS[_byte] = _kind
_WITHIN = np.isin(np.arange(SIGN + len(SIGNS)), (LETTERS, NUMBER))  # kinds that a hyphen may join


# ---------------------------------------------------------------- the specification, in plain Python


def fold(text: str) -> str:
    """ASCII text as it is; else typographic signs as ASCII or LaTeX, other letters in lower case, the rest blank.

    Unicode is brought to NFKC. Raised digits become powers. Ideographs stand alone, as words of one letter.
    """
    if text.isascii():
        return text
    return _FOREIGN.sub(lambda run: _fold_run(run[0]), unicodedata.normalize("NFC", text))


@lru_cache(1 << 16)
def _fold_run(run: str) -> str:
    return unicodedata.normalize("NFKC", _FRACTION.sub(r" \1", _RAISED.sub(r"^\1", run))).translate(_FOLDED)


class _Folded(dict):
    """Character code -> its folded text, worked out when first met."""

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
    """The words of a text in normal form."""
    text = _THOUSANDS.sub(lambda m: " " + m[1] + re.sub("[^0-9]", "", m[2]), fold(text)).translate(_LOWER)
    text = "".join(_sign(text, i) if c in SIGNS or c == "}" else c for i, c in enumerate(text))
    words = []
    for command, letters, number, sign in _WORD.findall(text):
        word: str | None = letters or number or sign
        if command and word in COMMANDS:
            word = COMMANDS[word]
        if word is not None:
            words.append(word)
    return words


def _sign(text: str, i: int) -> str:
    """What the sign or closing brace at `i` stands for: itself, a division line, or a blank."""
    here, two_before, before, after, two_after = text[i], *(f"  {text}  "[i + k] for k in (0, 1, 3, 4))
    if here == "}":
        return "/" if after == "{" else " "
    if here in (before, after):
        return " "
    if here == "-" and _ALPHANUMERIC.match(before) and _ALPHANUMERIC.match(after):
        return " " if _LONG.match(two_before + before) or _LONG.match(after + two_after) else here
    return here


def word_id(word: str) -> int:
    """The id of one word: a polynomial over its UTF-8 bytes, eight at a time as one little-endian number, mixed."""
    data = word.encode()
    eights = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
    value = sum(eight * pow(_LETTER_BASE, i, 1 << 64) for i, eight in enumerate(eights)) & _MASK
    value = value * _MIX[0] & _MASK
    return (value ^ (value >> 32)) * _MIX[1] & _MASK


def sequence_id(words: Sequence[str]) -> int:
    """The id of a sequence of words: a polynomial over their ids. An n-gram's id is the id of its n words."""
    return sum(word_id(word) * pow(_WORD_BASE, i, 1 << 64) for i, word in enumerate(words)) & _MASK


def ngram_ids(text: str, n: int) -> list[int]:
    """The ids of all n-grams of a text in order, repeated ones included; none if it has fewer than n words."""
    words = words_of(text)
    return [sequence_id(words[i : i + n]) for i in range(len(words) - n + 1)]


# ---------------------------------------------------------------- the fast path, on blocks of documents


@dataclass(frozen=True)
class Words:
    """The words of a block of D documents, W in all.

    `ids` uint64 [W]; `kinds` uint8 [W] (LETTERS, NUMBER, SIGN); `starts` and `ends` int64 [W]: their bytes in `text`,
    the block's uint8 bytes with case kept; the words of document d are `offsets[d]:offsets[d + 1]`, int64 [D + 1], and
    its bytes begin at `text_offsets[d]`.
    """

    ids: np.ndarray
    kinds: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    offsets: np.ndarray
    text: np.ndarray
    text_offsets: np.ndarray

    def ngrams(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """`ngrams` of these words."""
        return ngrams(self.ids, self.offsets, n)


def ngrams(ids: np.ndarray, offsets: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids uint64 [M] of all n-grams within one document, and offsets int64 [D + 1] into them.

    `ids` uint64 [W] are word ids, those of document d at `offsets[d]:offsets[d + 1]`.
    """
    grams = windows(ids, n)
    inside = np.ones(len(grams), bool)
    crossing = offsets[1:-1, None] - np.arange(1, n)
    inside[crossing[(crossing >= 0) & (crossing < len(inside))]] = False
    return grams[inside], np.concatenate([[0], np.cumsum(np.maximum(np.diff(offsets) - (n - 1), 0))])


def windows(ids: np.ndarray, n: int) -> np.ndarray:
    """Ids uint64 [max(W - n + 1, 0)] of all sequences of n words, be they of one document or of two."""
    if len(ids) < n:
        return np.empty(0, np.uint64)
    grams, size = ids, 1
    for bit in bin(n)[3:]:  # each digit of n doubles the size, and a 1 adds a word in front
        grams, size = _behind(grams[:-size], grams[size:], size), 2 * size
        if bit == "1":
            grams, size = _behind(ids[: len(grams) - 1], grams[1:], 1), size + 1
    return grams.copy() if n == 1 else grams


def _behind(first: np.ndarray, second: np.ndarray, words: int) -> np.ndarray:
    """Ids of sequences, each made of one of so many words and the one that follows it."""
    both = second * np.uint64(pow(_WORD_BASE, words, 1 << 64))
    both += first
    return both


def sequence_ids(ids: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The `sequence_id` uint64 [P] of the words `ids[first:last]`, for arrays of P places; 0 where there are none."""
    sums = prefix_sums(ids)
    return (sums[last] - sums[first]) * _powers(_WORD_BASE, len(sums), inverse=True)[first]


def prefix_sums(ids: np.ndarray) -> np.ndarray:
    """uint64 [W + 1]: sums of id times base**position, from which `sequence_id` of any stretch follows."""
    sums = np.zeros(len(ids) + 1, np.uint64)
    np.cumsum(ids * _powers(_WORD_BASE, len(ids)), out=sums[1:])
    return sums


def text_column(*columns: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Columns joined row by row into one text, folded (`fold`), each row ending with a line break; null is empty."""
    empty, line_break = pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string())
    columns = tuple(pc.fill_null(pc.cast(column, pa.large_string()), empty) for column in columns)
    joined = pc.binary_join_element_wise(*columns, empty, line_break)
    joined = joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
    data, offsets = text_bytes(joined)
    foreign = np.flatnonzero(data >= 128)
    if not len(foreign):
        return joined
    rows = np.unique(np.searchsorted(offsets, foreign, "right") - 1, return_index=True)[0]
    mask = np.zeros(len(joined), bool)
    mask[rows] = True
    folded = [fold(bytes(data[offsets[row] : offsets[row + 1]]).decode(errors="replace")) for row in rows.tolist()]
    return pc.replace_with_mask(joined, pa.array(mask), pa.array(folded, pa.large_string()))


def blocks(texts: pa.Array, block_bytes: int = 1 << 18) -> Iterator[tuple[int, int, Words]]:
    """Rows of a `text_column` in blocks of about `block_bytes`, cut between documents: first row, last row, words."""
    for first, last, data, offsets in cut(texts, block_bytes):
        yield first, last, split(data, offsets)


def cut(texts: pa.Array, block_bytes: int = 1 << 18) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """Rows of a `text_column` cut as by `blocks`: first row, last row, bytes uint8, offsets int64 [D + 1] in them."""
    data, offsets = text_bytes(texts)
    first = 0
    while first < len(texts):
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + block_bytes, "right")) - 1)
        yield first, last, data[offsets[first] : offsets[last]], offsets[first : last + 1] - offsets[first]
        first = last


def text_bytes(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Data uint8 and offsets int64 [D + 1] of a large_string array."""
    _, offsets, data = texts.buffers()
    offsets = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), offsets


def split(data: np.ndarray, offsets: np.ndarray) -> Words:
    """The words of documents whose folded bytes are `data[offsets[d]:offsets[d + 1]]`, each ended by a line break."""
    text = np.full(len(data) + 2 * _PAD, ord("\n"), np.uint8)
    text[_PAD:-_PAD] = data
    _join_thousands(text)
    lower = text | (((text - np.uint8(ord("A"))) < 26).view(np.uint8) * np.uint8(32))
    kinds = np.frombuffer(bytearray(text).translate(_KINDS), np.uint8)
    _classify_signs(lower, kinds)

    edge = np.zeros(len(kinds), bool)
    np.not_equal(kinds[:-1], kinds[1:], out=edge[1:])
    edges = np.flatnonzero(edge)
    edge[1:] &= np.minimum(kinds[:-1], kinds[1:]) != BLANK
    touching = np.flatnonzero(edge)  # where words meet without a blank
    if len(touching):
        edges = np.insert(edges, np.searchsorted(edges, touching), touching)
    starts, ends = edges[0::2].copy(), edges[1::2].copy()
    kinds = np.minimum(kinds[starts], SIGN)
    ids = _word_ids(lower, starts, ends - starts)
    keep = _read_commands(text, starts, ids, kinds)
    if keep is not None:
        ids, kinds, starts, ends = ids[keep], kinds[keep], starts[keep], ends[keep]
    return Words(ids, kinds, starts, ends, np.searchsorted(starts, offsets + _PAD), text, offsets + _PAD)


def _join_thousands(text: np.ndarray) -> None:
    """Move the marks between groups of thousands to before their number, as blanks, so that its digits are one run."""
    commas = np.flatnonzero(text == ord(","))
    commas = commas[text[commas + 1] > ord(" ")]
    if not len(commas):
        return
    marks = []
    for mark in (b",", b"{,}", b",\\!", b"\\,"):
        at = commas - mark.index(b",")
        for k, wanted in enumerate(mark):
            at = at[text[at + k] == wanted] if wanted != ord(",") else at
        digits = [(text[at + k] - np.uint8(ord("0"))) < 10 for k in (-1, *range(len(mark), len(mark) + 4))]
        at = at[digits[0] & digits[1] & digits[2] & digits[3] & ~digits[4]]
        marks.extend(at + k for k in range(len(mark)))
    moving = np.concatenate(marks)
    moving.sort()
    text[moving] = ord(" ")
    while len(moving):
        behind = text[moving - 1]
        step = (behind - np.uint8(ord("0"))) < 10
        if not step.any():
            return
        text[moving[step]] = behind[step]
        moving -= step
        text[moving] = ord(" ")


def _classify_signs(lower: np.ndarray, kinds: np.ndarray) -> None:
    """Settle in place which points belong to numbers and which signs are words; `}{` becomes a division line."""
    signs, points, braces = (np.flatnonzero(some) for some in (kinds >= SIGN, lower == ord("."), lower == ord("}")))
    points = points[kinds[points + 1] == NUMBER]
    points = points[kinds[points - 1] == NUMBER]
    lines = braces[lower[braces + 1] == ord("{")]
    hyphens = signs[lower[signs] == ord("-")]
    hyphens = hyphens[_WITHIN[kinds[hyphens - 1]] & _WITHIN[kinds[hyphens + 1]]]
    long = [_ASCII_LETTER[lower[hyphens + k]] & _ASCII_LETTER[lower[hyphens + 2 * k]] for k in (-1, 1)]
    kinds[signs[(lower[signs] == lower[signs - 1]) | (lower[signs] == lower[signs + 1])]] = BLANK
    kinds[hyphens[long[0] | long[1]]] = BLANK
    kinds[points] = NUMBER
    kinds[lines] = LINE
    lower[lines] = ord("/")


def _word_ids(lower: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """`word_id` uint64 of the words at `starts`, eight bytes at a time."""
    eights = np.ndarray((len(lower) - 7,), "<u8", lower, strides=(1,))
    ids = eights[starts]
    ids &= np.take(_FIRST_BYTES, lengths, mode="clip")
    longer, factor = np.flatnonzero(lengths > 8), 1
    while len(longer):
        starts, lengths = starts + 8, lengths - 8
        factor = factor * _LETTER_BASE & _MASK
        ids[longer] += (eights[starts[longer]] & _FIRST_BYTES[np.minimum(lengths[longer], 8)]) * np.uint64(factor)
        longer = longer[lengths[longer] > 8]
    ids *= np.uint64(_MIX[0])
    ids ^= ids >> np.uint64(32)
    ids *= np.uint64(_MIX[1])
    return ids


_COMMAND_IDS = np.sort(np.array([word_id(command) for command in COMMANDS], np.uint64))
_READINGS = {word_id(command): reading for command, reading in COMMANDS.items()}
_READS_AS = np.array([word_id(_READINGS[i] or "") for i in _COMMAND_IDS.tolist()], np.uint64)
_READS_KIND = np.array(
    [
        SIGN if reading and reading in SIGNS else LETTERS if reading else BLANK
        for i in _COMMAND_IDS.tolist()
        for reading in [_READINGS[i]]
    ],
    np.uint8,
)


def _read_commands(text: np.ndarray, starts: np.ndarray, ids: np.ndarray, kinds: np.ndarray) -> np.ndarray | None:
    """Replace known LaTeX commands by what they read as, in place; bool [W] of the words to keep, None for all."""
    if not (text == ord("\\")).any():
        return None
    commands = np.flatnonzero((text[starts - 1] == ord("\\")) & (kinds == LETTERS))
    if not len(commands):
        return None
    at = np.minimum(np.searchsorted(_COMMAND_IDS, ids[commands]), len(_COMMAND_IDS) - 1)
    known = _COMMAND_IDS[at] == ids[commands]
    commands, at = commands[known], at[known]
    ids[commands] = _READS_AS[at]
    kinds[commands] = _READS_KIND[at]
    return kinds != BLANK


_POWERS: dict[tuple[int, bool], np.ndarray] = {}


def _powers(base: int, count: int, *, inverse: bool = False) -> np.ndarray:
    """uint64 [count]: base**i modulo 2^64, or the inverses; kept and doubled when more are asked for."""
    powers = _POWERS.get((base, inverse))
    if powers is None or len(powers) < count:
        size = 1 << max(count - 1, 1).bit_length()
        factor = pow(base, -1, 1 << 64) if inverse else base
        powers = np.full(size, factor, np.uint64)
        powers[0] = 1
        np.multiply.accumulate(powers, out=powers)
        _POWERS[base, inverse] = powers
    return powers[:count]
