"""Sample documents evenly from every source, so that the order of the sources decides nothing.

Of each source, row groups with the smallest hash of their first document's id are read, and rows evenly from each.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.storage.documents import open_shard
from pipeline.storage.numbered_shards import Shard, numbered_batches

_MOST_GROUPS = 256  # row groups to decode: 2 GB of text
_LEAST_OF_SOURCE = 500  # documents


@dataclass(frozen=True)
class RowGroup:
    """One row group: shard, its number and the number of its first document, how many documents, source, rank."""

    shard: Shard
    number: int
    start: int
    size: int
    source: str
    rank: bytes


def sample_documents(files: Sequence[Shard], documents: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield batches of about `documents` documents in all: of each source its share, at least a few hundred.

    The sample depends on the documents of each source, not on the order of sources.
    """
    by_source: dict[str, list[RowGroup]] = defaultdict(list)
    for group in _row_groups(files):
        by_source[group.source].append(group)
    total = sum(group.size for groups in by_source.values() for group in groups)
    for _, groups in sorted(by_source.items()):
        held = sum(group.size for group in groups)
        wanted = min(held, max(round(documents * held / total), _LEAST_OF_SOURCE))
        most = max(round(_MOST_GROUPS * held / total), 1)
        chosen = sorted(groups, key=lambda group: group.rank)[:most]
        share = min(wanted / sum(group.size for group in chosen), 1)
        for group in chosen:
            yield from _rows(group, max(round(share * group.size), 1), columns)


def _row_groups(files: Sequence[Shard]) -> Iterator[RowGroup]:
    """List the row groups; a row group of several sources counts as one of its first source by name."""
    for shard in files:
        with open_shard(shard.path) as file:
            names = file.schema_arrow.names
            start = shard.start
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                source, first = (str(group.column(names.index(name)).statistics.min) for name in ("source", "id"))
                rank = hashlib.blake2b(first.encode(), digest_size=8).digest()
                yield RowGroup(shard, number, start, group.num_rows, source, rank)
                start += group.num_rows


def _rows(group: RowGroup, wanted: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    places = group.start + np.arange(wanted) * group.size // wanted
    for first, batch in numbered_batches(group.shard, columns, rows=(group.number, group.start)):
        inside = places[(places >= first) & (places < first + len(batch))] - first
        if len(inside):
            yield batch if len(inside) == len(batch) else batch.take(pa.array(inside))
