"""Mix sources by weight: how often each document is packed.

Example: of a source with weight 2.25, three of four documents are packed twice and one three times.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.tokens.random_numbers import random_numbers, scattered

LEFT_OUT = "left out by the weight of its source"  # the reason in the counts


def copies_of(sources: pa.Array, weights: Iterable[tuple[str, float]], seed: int, first: int) -> np.ndarray:
    """Draw how often each document is packed, int64 [D], by the weight of its source (1 where none is given)."""
    wanted = np.ones(len(sources))
    for name, weight in weights:
        wanted[np.asarray(pc.equal(sources, name))] = weight
    # The numbers that shuffle the first copies, scattered once, shuffle the second ones: where there may be second
    # copies, their number is drawn from those of another seed. Else second copies would all be at the end of training.
    once = scattered(random_numbers(seed, first, len(sources)))
    drawn = np.where(wanted > 1, random_numbers(~seed, first, len(sources)), once) / 2.0**64
    return (wanted + drawn).astype(np.int64)


def repeat(records: np.ndarray, starts: np.ndarray, copies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Repeat each document `copies` times, each time with a random number of its own; the first keeps its own."""
    owner = np.repeat(np.arange(len(records)), copies)
    records, starts = records[owner], starts[owner]
    number = np.arange(len(owner)) - np.searchsorted(owner, owner)
    for copy in range(1, int(copies.max(initial=0))):
        records["key"][number >= copy] = scattered(records["key"][number >= copy])
    return records, starts
