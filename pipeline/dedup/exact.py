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
_BLANK, _WORD = range(1, 3)  # kinds of bytes; 0 for punctuation
_LOWER = bytes([ord(" ")] * 33 + [*range(33, 256)]).translate(
    bytes.maketrans(_UPPER, _UPPER.lower())
)
_KINDS = bytes(
    _BLANK if byte == ord(" ") else _WORD if chr(byte).isalnum() or byte >= 128 else 0
    for byte in range(256)
)


def exact_keys(texts: pa.Array, literal: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Compute 128-bit keys uint64 [D, 2] of the rows of a `text_column`, and the lengths int64 [D]
    in bytes.

    Lengths are those of the normal text, so that white space makes no text longer. In texts of
    fewer than `literal` bytes a capital that begins no word is a letter of its own: `F(X) = 2X` is
    not `f(x) = 2x`.
    """
    digests, lengths = list[bytes](), list[int]()
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
        capital = ((data - np.uint8(ord("A"))) < 26) & np.repeat(
            np.diff(offsets) < literal, np.diff(offsets)
        )
        capital[:-1] &= (data[1:] - np.uint8(ord("a"))) >= 26
        letters, data = data[capital], np.frombuffer(text, np.uint8)
        data[capital] = letters
        data[offsets[1:] - 1] = 0  # rows end here: no text holds this byte any more
        kinds = np.frombuffer(text.translate(_KINDS), np.uint8)
        blank = kinds == _BLANK
        repeated = blank[1:] & blank[:-1]
        if repeated.any():
            once = np.concatenate([[True], ~repeated])
            data, kinds, blank = data[once], kinds[once], blank[once]
        word = kinds == _WORD
        keep = ~blank
        keep[1:-1] |= word[:-2] & word[2:]
        yield data[keep].tobytes().split(b"\0")[:-1]
