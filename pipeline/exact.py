"""Keys of whole texts: equal for texts that differ only in case, white space and typography, and for no others."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from pipeline.ngrams import cut, text_column

_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[ord("A") : ord("Z") + 1] += 32
_LOWER[:33] = ord(" ")
_WORD = np.zeros(256, bool)
_WORD[[*b"abcdefghijklmnopqrstuvwxyz0123456789", *range(128, 256)]] = True


def normal_text(text: str) -> str:
    """The form that is compared: folded, in lower case, white space kept only where it parts letters or digits."""
    return next(_normal_rows(text_column(pa.array([text])))).decode()


def exact_keys(*columns: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """128-bit keys uint64 [D, 2] of texts, each row's columns taken as one text, and their lengths int64 [D] in bytes.

    Lengths are those of the normal form, so that white space makes no text longer.
    """
    digests, lengths = [], []
    for row in _normal_rows(text_column(*columns)):
        digests.append(blake2b(row, digest_size=16).digest())
        lengths.append(len(row))
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2), np.array(lengths, np.int64)


def _normal_rows(texts: pa.Array) -> Iterator[bytes]:
    for _, _, data, offsets in cut(texts):
        data, ends = np.take(_LOWER, data), offsets[1:]
        blank = data == ord(" ")
        data, ends = _without(data, ends, np.flatnonzero(blank[1:] & blank[:-1]) + 1)
        blanks = np.flatnonzero(data == ord(" "))
        parting = _WORD[data[blanks - 1]] & _WORD[data[np.minimum(blanks + 1, len(data) - 1)]]
        data, ends = _without(data, ends, blanks[~parting])
        rows, start = data.tobytes(), 0
        for end in ends.tolist():
            yield rows[start:end].strip()
            start = end


def _without(data: np.ndarray, ends: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keep = np.ones(len(data), bool)
    keep[places] = False
    return data[keep], ends - np.searchsorted(places, ends)
