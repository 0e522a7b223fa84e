"""Documents of tokens into rows of one length, with hardly any padding and no document cut that fits into a row.

Documents come in random order and keep it but for the end of each row: there the packer looks some thousand documents
ahead for one, or two, that fill what is left exactly. Measured padding: at most 0.1 % where documents are shorter than
half a row, 1 to 2 % where many are nearly as long as one. Sorting by length would do as well and put documents of like
length together, which in a training stream are not a fair sample of the data.

Files of a packed folder: `packed.json`; per shard `tokens-00000.bin` (little-endian, rows x sequence length, flat) and
`index-00000.npy`, int64 [pieces, 3]: start, response start, end of each piece of a document, as offsets into the shard.
Positions of no piece are padding: they hold the end mark's number, are never counted and never a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LOOK_AHEAD = 4096
COPY_TOKENS = 2**22


@dataclass(frozen=True)
class Documents:
    """Documents as spans of one array of tokens, in any order: where each starts, the lengths of its prompt and of the
    whole, end mark included (integers [documents])."""

    tokens: np.ndarray
    starts: np.ndarray
    prompt_lengths: np.ndarray
    lengths: np.ndarray


def fit_rows(lengths: Sequence[int], row: int, look_ahead: int = LOOK_AHEAD) -> tuple[np.ndarray, int]:
    """Where each document goes: offsets int64 [documents] into the rows laid end to end, and how many rows there are.

    `lengths` lie between 1 and `row`. Each row begins with the document that has waited longest and goes on in order
    while two of the longest still fit; then comes one that fills the row exactly, or the first of two that do, or the
    longest that fits. Lengths that wait are bits of one integer, and so are `row - length`: shifted against each other,
    their common bits are the pairs. About 1 microsecond per document.
    """
    count = len(lengths)
    assert count == 0 or (min(lengths) >= 1 and max(lengths) <= row)
    offsets = np.zeros(count, np.int64)
    waiting: list[list[int]] = [[] for _ in range(row + 1)]  # documents by length, oldest first
    taken = bytearray(count)
    served = [0] * (row + 1)  # how many of waiting[length] have been placed
    present = mirrored = 0
    entered = oldest = placed = rows = 0
    while placed < count:
        free = row
        while free and placed < count:
            while entered < min(count, placed + look_ahead):
                length = lengths[entered]
                waiting[length].append(entered)
                present |= 1 << length
                mirrored |= 1 << (row - length)
                entered += 1
            while taken[oldest]:
                oldest += 1
            length = lengths[oldest]
            if free < row and free <= 2 * (present.bit_length() - 1):
                length = _filling(free, row, present, mirrored, waiting, served)
                if not length:
                    break
            document = waiting[length][served[length]]
            served[length] += 1
            if served[length] == len(waiting[length]):
                present &= ~(1 << length)
                mirrored &= ~(1 << (row - length))
            taken[document] = True
            offsets[document] = rows * row + row - free
            free -= length
            placed += 1
        rows += 1
    return offsets, rows


def _filling(free: int, row: int, present: int, mirrored: int, waiting: list[list[int]], served: list[int]) -> int:
    """The length to take for the end of a row of which `free` are left; 0 if none fits."""
    if present >> free & 1:
        return free
    longer = (present & (mirrored >> (row - free))).bit_length() - 1
    if longer > 0 and (2 * longer != free or len(waiting[longer]) - served[longer] > 1):
        return longer
    return max(0, (present & ((2 << free) - 1)).bit_length() - 1)


def write_shard(folder: Path, number: int, documents: Documents, row: int, end_token: int, dtype: np.dtype) -> dict:
    """Pack documents, in the order given, into rows and write them as shard `number`: {"rows", "documents"}.

    A document longer than a row is cut into pieces of a row each and a remainder; `documents` counts pieces.
    """
    lengths, prompts = documents.lengths.astype(np.int64), documents.prompt_lengths.astype(np.int64)
    pieces = -(-lengths // row)
    owner = np.repeat(np.arange(len(lengths)), pieces)
    within = (np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * row
    size = np.minimum(lengths[owner] - within, row)
    offsets, rows = fit_rows(size.tolist(), row)

    flat = np.full(rows * row, end_token, dtype)
    order = np.argsort(offsets)
    owner, within, size, offsets = owner[order], within[order], size[order], offsets[order]
    copy_spans(documents.tokens, documents.starts[owner] + within, flat, offsets, size)
    flat.astype(dtype.newbyteorder("<"), copy=False).tofile(folder / f"tokens-{number:05d}.bin")
    responses = offsets + np.clip(prompts[owner] - within, 0, size)
    np.save(folder / f"index-{number:05d}.npy", np.stack([offsets, responses, offsets + size], axis=1))
    return {"rows": rows, "documents": len(size)}


def copy_spans(
    source: np.ndarray, source_starts: np.ndarray, target: np.ndarray, target_starts: np.ndarray, lengths: np.ndarray
) -> None:
    """Copy spans of `source` to places in `target`; in parts, because the indices take eight bytes a token."""
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(ends, ends[first] - lengths[first] + COPY_TOKENS)))
        part = lengths[first:last]
        steps = np.arange(part.sum()) - np.repeat(np.cumsum(part) - part, part)
        target[np.repeat(target_starts[first:last], part) + steps] = source[
            np.repeat(source_starts[first:last], part) + steps
        ]
        first = last
