"""Hash whole texts so that texts equal but for case, white space and typography have one key.

>>> from dreamer_study.pipeline.text.words import text_column
>>> keys, lengths = exact_keys(text_column(pa.array(["A b.", "a  B .", "ab."])))
>>> (keys[0] == keys[1]).all(), (keys[0] == keys[2]).all(), lengths.tolist()
(np.True_, np.False_, [4, 4, 3])
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.text.words import byte_blocks

SHORT = 20  # bytes: a row of a formula or a few words
_UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PUNCTUATION, _BLANK, _WORD = range(3)  # kinds of bytes
# Controls and spaces become blanks, capitals small letters.
_LOWER = bytes([ord(" ")] * 33 + [*range(33, 256)]).translate(
    bytes.maketrans(_UPPER, _UPPER.lower())
)


def _kind(byte: int) -> int:
    if byte == ord(" "):
        return _BLANK
    return _WORD if chr(byte).isalnum() or byte >= 128 else _PUNCTUATION


_KINDS = bytes(map(_kind, range(256)))


def exact_keys(texts: pa.Array, literal: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Compute 128-bit keys uint64 [D, 2] of the rows of a `text_column`, and lengths int64 [D].

    Lengths are bytes of the normal text, so that white space makes no text longer. In texts of
    fewer than `literal` bytes a capital that begins no word is a letter of its own: `F(X) = 2X` is
    not `f(x) = 2x`.
    """
    digests: list[bytes] = []
    lengths: list[int] = []
    for rows in _normal_rows(texts, literal):
        digests += [blake2b(row, digest_size=16).digest() for row in rows]
        lengths += map(len, rows)
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2), np.array(lengths, np.int64)


def _normal_rows(texts: pa.Array, literal: int) -> Iterator[list[bytes]]:
    """Fold texts, block by block, to lower case, with white space only between letters or digits.

    Example: "  Two   WORDS, then ( 3 + 4 ) . " gives "two words,then(3+4).".
    """
    for _, data, offsets in byte_blocks(texts):
        text = bytearray(data).translate(_LOWER)
        sizes = np.diff(offsets)
        in_short_text = np.repeat(sizes < literal, sizes)
        is_capital = ((data - np.uint8(ord("A"))) < 26) & in_short_text
        is_capital[:-1] &= (data[1:] - np.uint8(ord("a"))) >= 26  # no small letter behind
        capitals = data[is_capital]
        data = np.frombuffer(text, np.uint8)
        data[is_capital] = capitals
        data[offsets[1:] - 1] = 0  # rows end here: no text holds this byte any more
        kinds = np.frombuffer(text.translate(_KINDS), np.uint8)
        blank = kinds == _BLANK
        repeated = blank[1:] & blank[:-1]
        if repeated.any():
            first_of_run = np.concatenate([[True], ~repeated])
            data = data[first_of_run]
            kinds = kinds[first_of_run]
            blank = blank[first_of_run]
        word = kinds == _WORD
        keep = ~blank
        keep[1:-1] |= word[:-2] & word[2:]  # a blank between words
        yield data[keep].tobytes().split(b"\0")[:-1]
