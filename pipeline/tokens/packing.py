"""Pack documents of tokens into rows of one length, with little padding.

Only documents longer than a row are cut. Documents keep their random order, except at the end of
each row, where the packer looks 4,096 documents ahead for one or two that fill the row exactly.
Padding: at most 0.1 % where documents are shorter than half a row, 1 to 2 % where many are nearly
as long as a row. Sorting by length would put documents of like length together.

Files of a packed folder: `packed.json`; for each shard `tokens-00000.bin` (little-endian, rows x
sequence length, flat) and `index-00000.npy`, int64 [spans, 3]: start, response start and end of
each span of a document, as offsets into the shard; "documents" in `packed.json` counts these spans.
Positions outside all spans are padding: they hold the end mark, are not counted and never a target.
"mark" in `packed.json` is the token of the sign behind answers within a text, null where the
tokenizer has no such token.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.resumable import save_array

LOOK_AHEAD = 4096


def fit_rows(
    lengths: Sequence[int], row: int, look_ahead: int = LOOK_AHEAD
) -> tuple[np.ndarray, int]:
    """Place each document in a row.

    Returns offsets int64 [documents] into the concatenated rows, and the number of rows. A row
    takes documents in order while any two that wait still fit; then one that fills the row exactly,
    or the first of two that do together, or the longest that fits. The lengths that wait are bits
    of one integer, and `row - length` of another: the common bits of the two, shifted, are the
    pairs. About 1 microsecond per document.

    Raises InputError for a length below 1 or above `row`.

    Example: lengths 5, 6, 3, 2 in rows of 8 give the rows (5, 3), (6, 2): offsets 0, 8, 5, 14 and 2
    rows.
    """
    count = len(lengths)
    if count and not 1 <= min(lengths) <= max(lengths) <= row:
        raise InputError(
            f"documents have {min(lengths)} to {max(lengths)} tokens, but rows take 1 to {row}"
        )
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


def _filling(
    free: int, row: int, present: int, mirrored: int, waiting: list[list[int]], served: list[int]
) -> int:
    """Choose the length of the next document for the `free` positions at the end of a row.

    0 if none fits.
    """
    if present >> free & 1:
        return free
    longer = (present & (mirrored >> (row - free))).bit_length() - 1
    if longer > 0 and (2 * longer != free or len(waiting[longer]) - served[longer] > 1):
        return longer
    return max(0, (present & ((2 << free) - 1)).bit_length() - 1)


def shard_files(folder: Path, number: int) -> tuple[Path, Path]:
    """Return the paths of a shard's tokens and of the index of its spans."""
    return folder / f"tokens-{number:05d}.bin", folder / f"index-{number:05d}.npy"


def write_token_shard(
    folder: Path,
    number: int,
    tokens: np.ndarray,
    starts: np.ndarray,
    prompts: np.ndarray,
    lengths: np.ndarray,
    *,
    row: int,
    end_token: int,
) -> dict[str, int]:
    """Pack documents, in the given order, into rows and write shard `number`.

    Returns {"rows", "documents"}. Documents are spans of `tokens`: int64 [documents] starts,
    lengths of prompts, and whole lengths with the end mark. A document longer than a row is cut
    into spans of a row each and a remainder; "documents" counts spans.
    """
    spans = -(-lengths // row)
    owner = np.repeat(np.arange(len(lengths)), spans)
    within = (np.arange(len(owner)) - np.repeat(np.cumsum(spans) - spans, spans)) * row
    size = np.minimum(lengths[owner] - within, row)
    offsets, rows = fit_rows(size.tolist(), row)

    flat = np.full(rows * row, end_token, tokens.dtype)
    order = np.argsort(offsets)
    owner = owner[order]
    within = within[order]
    size = size[order]
    offsets = offsets[order]
    begins = starts[owner] + within
    for start, place, length in zip(begins.tolist(), offsets.tolist(), size.tolist(), strict=True):
        # An array of all positions would take seven times as long.
        flat[place : place + length] = tokens[start : start + length]
    tokens_file, index_file = shard_files(folder, number)
    with tokens_file.open("wb") as file:
        file.write(flat.astype(tokens.dtype.newbyteorder("<"), copy=False).data)
    responses = offsets + np.clip(prompts[owner] - within, 0, size)
    save_array(index_file, np.stack([offsets, responses, offsets + size], axis=1))
    return {"rows": rows, "documents": len(size)}
