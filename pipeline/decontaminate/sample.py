"""Sample documents evenly from every source, so that the order of the sources decides nothing.

Of each source, the row groups are read whose smallest id has the smallest hashes, and rows evenly
from each.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.storage.documents import Shard, open_shard, read_shard

_MOST_GROUPS = 256  # row groups to decode: 2 GB of text
_LEAST_OF_SOURCE = 500  # documents


class RowGroup(NamedTuple):
    """A row group of one shard; `rank` is the hash of its smallest id, `size` its rows.

    Parquet's statistics have the smallest id, so that no row need be read.
    """

    rank: bytes
    path: Path
    number: int
    size: int


def sample_documents(
    files: Sequence[Shard], documents: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches of about `documents` documents in all.

    Of each source they are its share, at least a few hundred. The sample depends on the documents
    of each source, not on the order of sources.
    """
    by_source: dict[str, list[RowGroup]] = defaultdict(list)
    for source, group in _row_groups(files):
        by_source[source].append(group)
    total = sum(group.size for groups in by_source.values() for group in groups)
    for _, groups in sorted(by_source.items()):
        held = sum(group.size for group in groups)
        wanted = min(held, max(round(documents * held / total), _LEAST_OF_SOURCE))
        most = max(round(_MOST_GROUPS * held / total), 1)
        chosen = sorted(groups, key=lambda group: group.rank)[:most]
        share = min(wanted / sum(group.size for group in chosen), 1)
        for group in chosen:
            rows = max(round(share * group.size), 1)
            batches = read_shard(group.path, columns=columns, row_groups=[group.number])
            table = pa.Table.from_batches(batches)
            evenly = pa.array(np.arange(rows) * group.size // rows)
            yield from table.take(evenly).combine_chunks().to_batches()


def _row_groups(files: Sequence[Shard]) -> Iterator[tuple[str, RowGroup]]:
    """List the row groups with their source, of several sources the first one by name."""
    for shard in files:
        with open_shard(shard.path) as file:
            names = file.schema_arrow.names
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                source = str(group.column(names.index("source")).statistics.min)
                first_id = str(group.column(names.index("id")).statistics.min)
                rank = hashlib.blake2b(first_id.encode(), digest_size=8).digest()
                yield source, RowGroup(rank, shard.path, number, group.num_rows)
