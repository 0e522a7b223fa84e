r"""Encode texts by their pieces, each different piece once: a corpus has few different words.

Texts are cut where no token reaches across, whatever stands before and behind: between a word and
the space after it, between letters and digits. Only places between two ASCII characters are cut, so
that no table of Unicode is needed. Tokenizers that split texts by other expressions than `SPLITS`
encode whole texts.

>>> pieces, firsts = cut(pa.array(["7 coins, 12 cups", "coins"]))
>>> pieces.to_pylist(), firsts.tolist()
(['7', ' coins', ',', ' 12', ' cups', 'coins'], [0, 5, 6])
"""

from __future__ import annotations

import json
from itertools import chain
from string import ascii_letters, digits, punctuation
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.text.arrays import bounds, ranges

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Letters with the sign before them, as in "\\frac" or " coins"; every digit alone, the first one
# with the space before it: " 7" is one token everywhere; other signs together; line ends; spaces.
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
SPLITS = (WORDS, LLAMA_3)  # no match of these reaches across a cut, or looks across one

_CUTS = np.zeros((256, 256), bool)  # by the byte before and the byte behind
for _before, _behind in (
    (ascii_letters + digits + punctuation, " "),
    (ascii_letters, digits),
    (digits, ascii_letters),
    (ascii_letters + digits, punctuation + "\n"),
    (punctuation, digits),  # letters belong to the sign before them, line ends to signs
    ("\n", ascii_letters + digits + punctuation),
):
    _CUTS[np.ix_(list(_before.encode()), list(_behind.encode()))] = True


def encode_texts(codec: Tokenizer, texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Encode texts without special tokens.

    Returns the tokens of all, uint32 [T], and offsets int64 [texts + 1] into them.
    """
    pieces, firsts = cut(texts) if has_pieces(codec) else (texts, np.arange(len(texts) + 1))
    coded = pieces.dictionary_encode()
    encodings = codec.encode_batch_fast(coded.dictionary.to_pylist(), add_special_tokens=False)
    ids = [encoding.ids for encoding in encodings]
    offsets = bounds(np.fromiter(map(len, ids), np.int64, len(ids)))
    tokens = np.fromiter(chain.from_iterable(ids), np.uint32, offsets[-1])
    numbers = coded.indices.to_numpy()
    places, ends = ranges(offsets[numbers], offsets[numbers + 1])
    return tokens[places], ends[firsts]


def cut(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Cut texts into pieces.

    Returns also the number of each text's first piece, and of all, int64 [texts + 1].
    """
    _, offsets, data = texts.buffers()
    offsets = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data or b"", np.uint8)[: offsets[-1]]
    begins = np.zeros(len(data) + 1, bool)
    begins[1:-1] = _CUTS[data[:-1], data[1:]]
    begins[offsets] = True
    begins[: offsets[0]] = False
    places = np.flatnonzero(begins)
    pieces = pa.StringArray.from_buffers(
        len(places) - 1, pa.py_buffer(places.astype(np.int32)), pa.py_buffer(data)
    )
    return pieces, np.searchsorted(places, offsets)


def has_pieces(codec: Tokenizer) -> bool:
    """Tell whether a tokenizer encodes the pieces of every text as it encodes the text."""
    joining = [token for token in codec.get_added_tokens_decoder().values() if not token.special]
    if (
        codec.normalizer
        or codec.pre_tokenizer is None
        or joining
        or not codec.encode_special_tokens
    ):
        return False
    split, *others = json.loads(codec.pre_tokenizer.__getstate__()).get("pretokenizers") or [{}]
    by_bytes = [
        (other["type"], other.get("add_prefix_space"), other.get("use_regex")) for other in others
    ]
    wanted = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in SPLITS
    ]
    return split in wanted and by_bytes == [("ByteLevel", False, False)]
