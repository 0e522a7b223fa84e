"""Keep the documents of one run in DuckDB, out of core: ranks, what is dropped, and why.

`doc` is a document's place in reading order. `node` is its rank by the rule that decides who
survives: priority of the source, then quality, then id. The smallest node of a group is its
survivor, so that nothing depends on the order of files or the number of processes.

Example: of the documents `a`, `B`, `b` of one source, `B` and `b` have equal text but for case, and
only `b` has an answer. `rank` numbers b=0, B=1, a=2 and drops B; `dropped` returns the row (doc 1,
reason 0, because "b").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.storage.documents import Shard

EXACT, NEAR, TOO_MANY = REASONS = ("exact_duplicate", "near_duplicate", "too_many_responses")

_SHARDS = (
    "(select unnest($files) as filename, unnest($starts) as start, unnest($sources) as priority)"
)
_RANK = f"""
create table ranked as
with shards as {_SHARDS},
documents as (
    select start + file_row_number as doc, priority, keys.* exclude (filename, file_row_number)
    from read_parquet($files, filename=true, file_row_number=true) as keys
    join shards using (filename)
)
select
    row_number() over (order by priority, quality desc, id, doc) - 1 as node,
    * exclude (priority, quality)
from documents order by doc
"""
_DROPPED = "create table dropped (node bigint, because bigint, reason utinyint)"
# Of documents with one key the smallest node survives.
_EXACT = """
insert into dropped
with copies as (
    select key0, key1, min(node) as because from ranked group by all having count(*) > 1
)
select node, because, 0::utinyint as reason
from ranked join copies using (key0, key1)
where node <> because
"""
# Documents with digits that no other one has are no near duplicates.
_ALONE = """
create table alone as
select min(node) as node from ranked anti join dropped using (node)
group by digits having count(*) = 1
"""
_REMAINING = """
create table remaining as
select doc, node from ranked anti join dropped using (node) anti join alone using (node)
"""
_SIGNED = f"""
select node, bands.* exclude (place, filename)
from read_parquet($files, filename=true) as bands
join {_SHARDS} as shards using (filename)
join remaining on remaining.doc = start + place
"""
# The documents with one hash are a bucket: each is paired with the first one and the one before.
_MEET = """
insert into pairs
with met as (select "{band}" as hash from signed group by all having count(*) > 1),
bucketed as (
    select node, first_value(node) over bucket as first, lag(node) over bucket as before
    from signed semi join met on "{band}" = hash
    window bucket as (partition by "{band}" order by node)
)
select unnest([first, before]), node from bucketed where before is not null
"""
_TOO_MANY = """
insert into dropped
with kept as (select * from ranked anti join dropped using (node) where asked)
select node, first_value(node) over question as because, 2 from kept
window question as (partition by question0, question1 order by node)
qualify row_number() over question > $most
"""
# What a document gave way to may have been dropped itself, for a later reason: two steps at most
# lead to a kept document, as reasons ascend.
_DECIDE = """
create table decided as
select ranked.doc, dropped.reason, survivor.id as because
from dropped
join ranked using (node)
left join (from dropped where reason > 0) as second on second.node = dropped.because
left join (from dropped where reason > 1) as third
    on third.node = coalesce(second.because, dropped.because)
join ranked as survivor
    on survivor.node = coalesce(third.because, second.because, dropped.because)
order by ranked.doc
"""


class DocumentTable:
    """Hold the documents of the shards `files` by `doc` and `node`."""

    def __init__(self, files: Sequence[Shard], folder: Path, memory: int) -> None:
        """Open a database in `folder`; DuckDB gets half of `memory` bytes, arrays the rest."""
        self.files = files
        self.folder = folder
        database = folder / "clusters.duckdb"
        for old in (database, folder / "clusters.duckdb.wal"):
            # of a killed attempt: the table is made again from the finished parts
            old.unlink(missing_ok=True)
        self.connection = duckdb.connect(
            database,
            config={
                "memory_limit": f"{max(memory // 2, 64_000_000)}B",
                "temp_directory": str(folder / "spilled"),
                "preserve_insertion_order": False,
            },
        )
        self.connection.execute(
            "pragma disable_checkpoint_on_shutdown; pragma disable_progress_bar"
        )
        self.connection.execute("create table pairs (earlier bigint, later bigint)")

    def close(self) -> None:
        """Close the database."""
        self.connection.close()

    def rank(self, files: Sequence[Path]) -> None:
        """Number the documents.

        They are described in Parquet files, one for each shard. Columns: id, quality, key0, key1
        (of the whole text), digits (documents that differ in them are no near duplicates), asked,
        question0, question1.
        """
        self.connection.execute(_RANK, _shards(self.files, files))
        self.connection.execute(_DROPPED)

    def drop_exact(self) -> None:
        """Mark exact duplicates, and note which of the other documents may be near ones."""
        for step in (_EXACT, _ALONE, _REMAINING):
            self.connection.execute(step)

    def add_signed(self, shards: Sequence[Shard], files: Sequence[Path]) -> None:
        """Add the band hashes of these shards' remaining documents.

        They are in a Parquet file for each shard. Columns: place (of a document in its shard), 0,
        1, ... (null where a document has no n-gram).
        """
        parameters = _shards(shards, files)
        create = f"create table if not exists signed as from ({_SIGNED}) limit 0"
        self.connection.execute(create, parameters)
        self.connection.execute(f"insert into signed {_SIGNED}", parameters)

    def unsigned(self) -> np.ndarray:
        """Select the remaining documents whose band hashes have not been added: doc, int64 [R]."""
        query = "select doc from remaining anti join signed using (node) order by doc"
        (documents,) = self._columns(query)
        return documents

    def candidates(self, bands: int) -> np.ndarray:
        """Join the bands: the different pairs int64 [P, 2] of documents that share a hash.

        The smaller node of a pair is first, and pairs are sorted. Each document of a bucket is
        paired with the first one (star) and with the one before it (chain), so that the number of
        pairs grows with the bucket and not with its square.
        """
        for band in range(bands):
            self.connection.execute(_MEET.format(band=band))
        pairs = self._columns("select distinct earlier, later from pairs order by all")
        return np.stack(pairs, axis=1)

    def docs_of(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Select the documents of these nodes in reading order: doc and node, int64 [R] each."""
        wanted = self.connection.from_arrow(pa.table({"node": nodes.ravel()}))
        ranked = self.connection.table("ranked").join(wanted, "node", "semi")
        return tuple(ranked.project("doc, node").order("doc").fetchnumpy().values())

    def ids(self, nodes: np.ndarray) -> pa.Array:
        """Select the ids of these nodes, in their order."""
        places = pa.table({"node": nodes, "place": np.arange(len(nodes))})
        wanted = self.connection.from_arrow(places)
        ranked = wanted.join(self.connection.table("ranked"), "node").order("place")
        return ranked.project("id").to_arrow_table()["id"].combine_chunks()

    def drop_near(self, nodes: np.ndarray, survivors: np.ndarray) -> None:
        """Mark near duplicates: `nodes[p]` gives way to `survivors[p]`."""
        reasons = np.full(len(nodes), REASONS.index(NEAR), np.uint8)
        rows = pa.table({"node": nodes, "because": survivors, "reason": reasons})
        self.connection.from_arrow(rows).insert_into("dropped")

    def decide(self, most: int | None = None) -> None:
        """Drop the documents beyond `most` of a question.

        Then name a kept document as cause of each dropped one.
        """
        if most is not None:
            self.connection.execute(_TOO_MANY, {"most": most})
        self.connection.execute(_DECIDE)

    def dropped(self, shard: Shard) -> pa.Table:
        """Select the documents of a shard that are dropped: doc, reason (in REASONS), because."""
        query = """
            select doc, reason, because from decided
            where doc >= $first and doc < $stop order by doc
        """
        bounds = {"first": shard.start, "stop": shard.stop}
        return self.connection.sql(query, params=bounds).to_arrow_table()

    def _columns(
        self, query: str, parameters: Mapping[str, Any] | None = None
    ) -> tuple[np.ndarray, ...]:
        columns: dict[str, Any] = self.connection.execute(query, parameters).fetchnumpy()
        return tuple(columns.values())


def _shards(shards: Sequence[Shard], files: Sequence[Path]) -> dict[str, list]:
    """Arrange shards, and the file that describes each, as parameters of a query."""
    pairs = list(zip(shards, files, strict=True))
    return {
        "files": [str(file) for _, file in pairs],
        "starts": [shard.start for shard, _ in pairs],
        "sources": [shard.source for shard, _ in pairs],
    }
