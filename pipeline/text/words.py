"""Split columns of text into words and their ids, without a Python object per word.

Nearly all the time of deduplication and decontamination goes into splitting text, so a block of
documents is split and hashed as one byte array with numpy.

>>> rows, words = next(word_blocks(text_column(pa.array(["Ann has 3 coins.", "3 > 2"]))))
>>> rows, words.offsets.tolist(), words.kinds.tolist()
(slice(0, 2, None), [0, 4, 7], [1, 1, 2, 1, 2, 3, 2])
>>> words.ids.tolist() == [word_id(word) for word in ("ann", "has", "3", "coins", "3", ">", "2")]
True
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.text.arrays import IdTable
from dreamer_study.pipeline.text.ngrams import BYTES_BASE, MASK, MIX, ngrams, sequence_ids, word_id
from dreamer_study.pipeline.text.normal_form import COMMANDS, SIGNS, TAGS, fold, fold_letters

# Kinds of words, and of bytes, where each sign is a kind of its own from SIGN on.
BLANK, LETTERS, NUMBER, SIGN = range(4)
_DIVISION = SIGN + len(SIGNS)  # a division line `}{`; a separate kind, so that `/}{` is two words
BLOCK_BYTES = 1 << 18  # of text split at once: the processor's cache holds all arrays of a block
_PAD = 8  # blank bytes before and after a block, so that neighbours always exist
_FIRST_BYTES = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)
_ONE = np.uint64(word_id("1"))
_LOWER_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_ASCII_LETTER = np.isin(np.arange(256), list(_LOWER_LETTERS))
_KINDS = bytearray([BLANK] * 128 + [LETTERS] * 128)
for _byte in _LOWER_LETTERS + _LOWER_LETTERS.upper():
    _KINDS[_byte] = LETTERS
for _byte in b"0123456789":
    _KINDS[_byte] = NUMBER
for _number, _byte in enumerate(SIGNS.encode()):
    _KINDS[_byte] = SIGN + _number
_FOREIGN = r"[\x80-\xff]"
# What `fold` may change in plain ASCII, and perhaps some more; for Arrow, on bytes.
_TYPESET_PARTS = (
    r"&[a-zA-Z#]",
    r"\\(?:textback|log_[0-9]|begin|end|color|textcolor|[hv]space|[hv]?phantom|label|tag)",
    r"\\(?:operatorname\*|not[\s=\\\x80-\xff]|degree|textdegree|\\[a-zA-Z()\[\]])",
    r"\\[dtc]?(?:frac|binom)(?:[0-9\s\x80-\xff]|\\(?:pi|theta|alpha|beta)|\{[^{}]*\}[^{}])",
    r"(?:^|[^a-zA-Z])[i-npqrI-NPQR]th(?:[^a-zA-Z]|$)",
    rf"</?(?i:{TAGS})\b|\[/[a-zA-Z]{{3,6}}\]",
    r"[<>]=|[^!-~]!=",
    r"[0-9\x80-\xff][$`)*\\]{0,2} [xX] [$`(*\\]{0,2}[0-9\x80-\xff]",
    r"(?:^|[^0-9a-zA-Z)\]}*\\])\*[^\s*]",
    # Groups of thousands; the bytes are those of a hard or thin blank and of an apostrophe.
    r"[0-9\x80-\xff](?:[ ~']|\{?\\[;: ,]\}?|\{ \}|\xc2\xa0|\xe2\x80[\x87\x89\x99\xaf])"
    r"[0-9\x80-\xff]{3}(?:[^0-9]|$)",
)
_TYPESET = "|".join(_TYPESET_PARTS)
_MINUS = np.uint64(word_id("-"))
# Runs of letters that are no words though they are long enough: a hyphen beside them is a minus.
_FUNCTIONS = """
sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan log ln lg exp max min gcd lcm mod
"""
_ALPHABET = string.ascii_lowercase
_NO_WORDS = [
    *_FUNCTIONS.split(),
    *(_ALPHABET[at : at + size] for size in (3, 4, 5, 6) for at in range(27 - size)),
]
# Two letters that are a word, a prefix, an ending or a unit; two others are a product of variables.
_OF_TWO_LETTERS = """
ad am an as at be bi by co de do ex go he hi ho id if in is it me my no of oh ok on or ox re so to
uh un up us we st nd rd th tv pc ph iq km cm mm kg mg ml kl dl ft yd mi lb oz pt qt hr mb gb kb
"""
_TWO_LETTERS = _OF_TWO_LETTERS.split()
# What may stand between a hyphen and the words beside it: the marks around mathematics or bold.
_CLOSING = ["", "$", "$$", "\\)", "`", "**", "_", "}", "}$", "}\\)", "$**"]
_OPENING = ["", "$", "$$", "\\(", "`", "**", "_", "**$"]


@dataclass(frozen=True)
class Words:
    """Hold the words of a block of D documents, W in all.

    `ids` uint64 [W]; `kinds` uint8 [W] (LETTERS, NUMBER, SIGN); `starts` and `ends` int64 [W]: the
    bytes of each word in `text`, the block's uint8 bytes with case kept. The words of document d
    are `offsets[d]:offsets[d + 1]`, int64 [D + 1]; the bytes of document d begin at
    `text_offsets[d]`.
    """

    ids: np.ndarray
    kinds: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    offsets: np.ndarray
    text: np.ndarray
    text_offsets: np.ndarray

    def ngrams(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute n-gram ids uint64 [M] and their offsets int64 [D + 1] by document."""
        return ngrams(self.ids, self.offsets, n)

    def number_sequences(self, *, ones: bool | None = None) -> np.ndarray:
        """Compute the id uint64 [D] of each document's sequence of numbers; 0 without numbers.

        `ones=False` leaves the number 1 out, `ones=True` counts the word for it as well.
        """
        is_number = self.kinds == NUMBER
        if ones is not None:
            is_one = self.ids == _ONE
            is_number = is_number | is_one if ones else is_number & ~is_one
        at = np.flatnonzero(is_number)
        ends = np.searchsorted(at, self.offsets)
        return sequence_ids(self.ids[at], ends[:-1], ends[1:])


def number_sums(
    ids: np.ndarray, kinds: np.ndarray, starts: np.ndarray, stops: np.ndarray
) -> np.ndarray:
    """Compute an id uint64 [P] of the numbers among the words `starts[p]:stops[p]`, in any order.

    The number 1 is left out, which may be a word; 0 without numbers.
    """
    sums = np.zeros(len(ids) + 1, np.uint64)
    is_number = (kinds == NUMBER) & (ids != _ONE)
    np.cumsum(ids * is_number, out=sums[1:])  # ids are mixed, so their sums are, too
    return sums[stops] - sums[starts]


def mask_numbers(ids: np.ndarray, kinds: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Set numbers that follow a word of letters, or begin a text, to 0 in word ids uint64 [W].

    So they are equal. Other numbers, as in `3, 5, 7` or `x^2+1`, tell more than the words beside
    them. `starts` int64 are the first words of the texts.
    """
    masked = kinds == NUMBER
    behind_letters = np.empty(len(ids) + 1, bool)
    np.equal(kinds, LETTERS, out=behind_letters[1:])
    behind_letters[starts] = True
    masked &= behind_letters[:-1]
    return ids * ~masked


def text_column(*columns: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Join columns row by row into one folded text; each row ends with a line break.

    Null is empty.
    """
    empty = pa.scalar("", pa.large_string())
    line_break = pa.scalar("\n", pa.large_string())
    filled = [pc.fill_null(pc.cast(column, pa.large_string()), empty) for column in columns]
    joined = pc.binary_join_element_wise(*filled, empty, line_break)
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.combine_chunks()
    data = pc.cast(joined, pa.large_binary())
    typeset = pc.match_substring_regex(data, _TYPESET)
    changing = pc.or_(typeset, pc.match_substring_regex(data, _FOREIGN))
    if not pc.any(changing).as_py():
        return joined
    texts = [text.decode(errors="replace") for text in data.filter(changing).to_pylist()]
    # Most texts have foreign letters alone, which are folded in half the time.
    folds = [fold if more else fold_letters for more in typeset.filter(changing).to_pylist()]
    folded = [change(text) for change, text in zip(folds, texts, strict=True)]
    return pc.replace_with_mask(joined, changing, pa.array(folded, pa.large_string()))


def word_blocks(texts: pa.Array, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Words]]:
    """Yield the words of a `text_column` in blocks of about `block_bytes`: rows and words.

    Blocks are cut between documents.
    """
    for rows, data, offsets in byte_blocks(texts, block_bytes):
        yield rows, _split(data, offsets)


def byte_blocks(
    texts: pa.Array, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield the bytes of a `text_column` in blocks.

    A block is rows, bytes uint8, and offsets int64 [D + 1] into the bytes.
    """
    _, buffer, data = texts.buffers()
    offsets = np.frombuffer(buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data or b"", np.uint8)
    start = 0
    while start < len(texts):
        fitting = int(np.searchsorted(offsets, offsets[start] + block_bytes, "right")) - 1
        stop = max(start + 1, fitting)
        block = data[offsets[start] : offsets[stop]]
        yield slice(start, stop), block, offsets[start : stop + 1] - offsets[start]
        start = stop


def _split(data: np.ndarray, offsets: np.ndarray) -> Words:
    """Split documents of folded bytes into words.

    Document d is `data[offsets[d]:offsets[d + 1]]`, and ends with a line break. A word is a run of
    bytes of one kind; two kinds may meet without a blank, as in `3x`.
    """
    text = np.full(len(data) + 2 * _PAD, ord("\n"), np.uint8)
    text[_PAD:-_PAD] = data
    _join_thousands(text)
    is_capital = (text - np.uint8(ord("A"))) < 26
    lower = text | (is_capital.view(np.uint8) * np.uint8(32))
    kinds = np.frombuffer(bytearray(text).translate(_KINDS), np.uint8)
    _classify_signs(lower, kinds)

    edge = np.zeros(len(kinds), bool)
    np.not_equal(kinds[:-1], kinds[1:], out=edge[1:])
    edges = np.flatnonzero(edge)
    edge[1:] &= np.minimum(kinds[:-1], kinds[1:]) != BLANK
    touching = np.flatnonzero(edge)  # where words meet without a blank
    if len(touching):
        edges = np.insert(edges, np.searchsorted(edges, touching), touching)
    starts = edges[0::2].copy()
    ends = edges[1::2].copy()
    kinds = np.minimum(kinds[starts], SIGN)
    ids = _word_ids(lower, starts, ends - starts)
    _drop_hyphens(lower, starts, ends, ids, kinds)
    _read_commands(text, starts, ids, kinds)
    if not kinds.all():
        keep = kinds != BLANK
        ids = ids[keep]
        kinds = kinds[keep]
        starts = starts[keep]
        ends = ends[keep]
    text_offsets = offsets + _PAD
    word_offsets = np.searchsorted(starts, text_offsets)
    return Words(ids, kinds, starts, ends, word_offsets, text, text_offsets)


def _join_thousands(text: np.ndarray) -> None:
    """Move the marks between groups of thousands in front of their number, as blanks.

    So its digits are a run: `12,345,678` becomes `  12345678`, in place.
    """
    commas = np.flatnonzero(text == ord(","))
    commas = commas[text[commas + 1] > ord(" ")]
    if not len(commas):
        return
    marks = list[np.ndarray]()
    for mark in (b",", b"{,}", b",\\!", b"\\,"):
        at = commas - mark.index(b",")
        for k, byte in enumerate(mark):
            if byte != ord(","):
                at = at[text[at + k] == byte]
        # a digit before the mark, and behind it three but not four
        end = at + len(mark)
        is_group = _is_digit(text[end]) & _is_digit(text[end + 1]) & _is_digit(text[end + 2])
        at = at[_is_digit(text[at - 1]) & is_group & ~_is_digit(text[end + 3])]
        marks.extend(at + k for k in range(len(mark)))
    moving = np.concatenate(marks)
    moving.sort()
    text[moving] = ord(" ")
    while len(moving):  # every blank changes places with the digit before it, a step at a time
        behind = text[moving - 1]
        step = _is_digit(behind)
        if not step.any():
            return
        text[moving[step]] = behind[step]
        moving -= step
        text[moving] = ord(" ")


def _is_digit(data: np.ndarray) -> np.ndarray:
    return (data - np.uint8(ord("0"))) < 10


def _classify_signs(lower: np.ndarray, kinds: np.ndarray) -> None:
    """Decide in place which points belong to numbers and which signs are words.

    `}{` becomes a division line.
    """
    signs = np.flatnonzero(kinds >= SIGN)
    points = np.flatnonzero(lower == ord("."))
    points = points[kinds[points + 1] == NUMBER]
    points = points[kinds[points - 1] == NUMBER]
    braces = np.flatnonzero(lower == ord("}"))
    lines = braces[lower[braces + 1] == ord("{")]
    repeated = (lower[signs] == lower[signs - 1]) | (lower[signs] == lower[signs + 1])
    kinds[signs[repeated]] = BLANK
    kinds[points] = NUMBER
    kinds[lines] = _DIVISION
    lower[lines] = ord("/")


def _as_number(mark: str) -> int:
    """Return the bytes of a mark as a number, with their count in the upper byte."""
    assert len(mark) < 8
    return int.from_bytes(mark.encode(), "little") | len(mark) << 56


_NO_WORD_TABLE = IdTable(np.array(sorted(map(word_id, _NO_WORDS)), np.uint64))
_TWO_LETTER_IDS = np.array(sorted(map(word_id, _TWO_LETTERS)), np.uint64)
_CLOSING_MARKS = np.array(sorted(map(_as_number, _CLOSING)), np.uint64)
_OPENING_MARKS = np.array(sorted(map(_as_number, _OPENING)), np.uint64)


def _drop_hyphens(
    lower: np.ndarray, starts: np.ndarray, ends: np.ndarray, ids: np.ndarray, kinds: np.ndarray
) -> None:
    """Set the kind of hyphens that belong to a word to BLANK, in place: others are minus signs.

    On both sides is a word or number, at once or behind a mark around mathematics, and one of both
    is a word of language: "well-known", "5-gallon" and "$x$-axis", not "x-y", "2xy-4yz" or "10-20".
    """
    at = np.flatnonzero((ids[1:-1] == _MINUS) & (kinds[1:-1] == SIGN)) + 1
    at = at[(kinds[at - 1] < SIGN) & (kinds[at + 1] < SIGN)]
    at = at[_is_mark(lower, ends[at - 1], starts[at], _CLOSING_MARKS)]
    at = at[_is_mark(lower, ends[at], starts[at + 1], _OPENING_MARKS)]
    if not len(at):
        return
    ends_word = _ASCII_LETTER[lower[ends[at - 1] - 1]] & _ASCII_LETTER[lower[ends[at - 1] - 2]]
    ends_word &= _is_language(lower, at - 1, starts, ends, ids, kinds)
    begins_word = _ASCII_LETTER[lower[starts[at + 1]]] & _ASCII_LETTER[lower[starts[at + 1] + 1]]
    begins_word &= _is_language(lower, at + 1, starts, ends, ids, kinds)
    kinds[at[ends_word | begins_word]] = BLANK


def _is_mark(
    lower: np.ndarray, starts: np.ndarray, stops: np.ndarray, marks: np.ndarray
) -> np.ndarray:
    """Test, bool, whether the bytes `starts[p]:stops[p]` are one of the marks, of few bytes."""
    eights = np.ndarray((len(lower) - 7,), "<u8", lower, strides=(1,))
    lengths = np.minimum(stops - starts, 8)
    between = eights[starts] & _FIRST_BYTES[lengths]
    numbers = between | lengths.astype(np.uint64) << np.uint64(56)
    return (lengths < 8) & np.isin(numbers, marks)


def _is_language(
    lower: np.ndarray,
    at: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    ids: np.ndarray,
    kinds: np.ndarray,
) -> np.ndarray:
    """Test, bool, whether words are words of language: no command, function or product."""
    lengths = ends[at] - starts[at]
    is_word = (kinds[at] == LETTERS) & (lengths > 1) & (lower[starts[at] - 1] != ord("\\"))
    is_word &= (lengths > 2) | np.isin(ids[at], _TWO_LETTER_IDS)
    no_words, _ = _NO_WORD_TABLE.find(ids[at])
    is_word[no_words] = False
    return is_word


def _word_ids(lower: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Compute `word_id` uint64 of the words at `starts`, eight bytes at a time."""
    eights = np.ndarray((len(lower) - 7,), "<u8", lower, strides=(1,))
    ids = eights[starts]
    ids &= np.take(_FIRST_BYTES, lengths, mode="clip")
    longer = np.flatnonzero(lengths > 8)
    factor = 1  # the base to the power of the eight
    while len(longer):
        starts = starts + 8
        lengths = lengths - 8
        factor = factor * BYTES_BASE & MASK
        eight = eights[starts[longer]] & _FIRST_BYTES[np.minimum(lengths[longer], 8)]
        ids[longer] += eight * np.uint64(factor)
        longer = longer[lengths[longer] > 8]
    ids *= np.uint64(MIX[0])
    ids ^= ids >> np.uint64(32)
    ids *= np.uint64(MIX[1])
    return ids


def _kind_of(reading: str | None) -> int:
    if reading is None:
        return BLANK
    return SIGN if set(reading) <= set(SIGNS + "!") else LETTERS


_READINGS = sorted((word_id(command), reading) for command, reading in COMMANDS.items())
_COMMANDS = IdTable(np.array([command for command, _ in _READINGS], np.uint64))
_READING_IDS = np.array([word_id(reading or "") for _, reading in _READINGS], np.uint64)
_READING_KINDS = np.array([_kind_of(reading) for _, reading in _READINGS], np.uint8)


def _read_commands(
    text: np.ndarray, starts: np.ndarray, ids: np.ndarray, kinds: np.ndarray
) -> None:
    """Replace known LaTeX commands by what they read as, in place.

    Typesetting gets the kind BLANK.
    """
    if not (text == ord("\\")).any():
        return
    commands = np.flatnonzero((text[starts - 1] == ord("\\")) & (kinds == LETTERS))
    has_reading, places = _COMMANDS.find(ids[commands])
    ids[commands[has_reading]] = _READING_IDS[places]
    kinds[commands[has_reading]] = _READING_KINDS[places]
