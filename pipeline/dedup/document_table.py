"""Keep the documents of one run in DuckDB, out of core: their ranks, what is dropped, and what each gave way to.

`doc` is a document's place in reading order. `node` is its rank by the rule that decides who survives: priority of the
source, then quality, then id. The smallest node of a group is its survivor, so that nothing depends on the order of
files or the number of processes.

Example: of the documents `a`, `B`, `b` of one source, `B` and `b` have equal text but for case, and only `b` has an
answer. `rank` numbers b=0, B=1, a=2 and drops B; `dropped` returns the row (doc 1, reason 0, because "b").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from pipeline.dedup.clusters import bucket_pairs
from pipeline.storage.numbered_shards import Shard

EXACT, NEAR, TOO_MANY = REASONS = ("exact_duplicate", "near_duplicate", "too_many_responses")

_BYTES_JOINED = 64  # memory that a document takes while a band is joined
_RANK = """create table ranked as
    select row_number() over (order by priority, quality desc, id, doc) - 1 as node, * exclude (priority, quality)
    from read_parquet($files) order by doc"""
_EXACT = """create table dropped as with copies as
    (select key0, key1, min(node) as because from ranked group by all having count(*) > 1)
    select node, because, 0::utinyint as reason from ranked join copies using (key0, key1) where node <> because"""
_ALONE = """create table alone as
    select min(node) as node from ranked anti join dropped using (node) group by digits having count(*) = 1"""
_TOO_MANY = """insert into dropped with kept as (select * from ranked anti join dropped using (node) where asked)
    select node, first_value(node) over question as because, 2 from kept
    window question as (partition by question0, question1 order by node)
    qualify row_number() over question > $most"""
_DECIDE = """create table decided as select ranked.doc, dropped.reason, survivor.id as because
    from dropped join ranked using (node)
    left join (from dropped where reason > 0) as second on second.node = dropped.because
    left join (from dropped where reason > 1) as third on third.node = coalesce(second.because, dropped.because)
    join ranked as survivor on survivor.node = coalesce(third.because, second.because, dropped.because)
    order by ranked.doc"""


class DocumentTable:
    """Hold the documents of the shards `files` by `doc` and `node`."""

    def __init__(self, files: Sequence[Shard], folder: Path, memory: int) -> None:
        """Open a database in `folder`; DuckDB gets half of `memory` bytes, arrays the rest."""
        self.files, self.folder = files, folder
        self.memory = max(memory // 2, 64_000_000)
        database = folder / "clusters.duckdb"
        for old in (database, folder / "clusters.duckdb.wal"):
            old.unlink(missing_ok=True)  # of a killed attempt: the table is made again from the finished parts
        self.connection = duckdb.connect(
            database,
            config={
                "memory_limit": f"{self.memory}B",
                "temp_directory": str(folder / "spilled"),
                "preserve_insertion_order": False,
            },
        )
        self.connection.execute("pragma disable_checkpoint_on_shutdown; pragma disable_progress_bar")
        self.connection.execute("create table pairs (earlier bigint, later bigint)")

    def close(self) -> None:
        """Close the database."""
        self.connection.close()

    def rank(self, files: Iterable[Path]) -> None:
        """Number the documents described in Parquet files and mark exact duplicates.

        Columns: doc, id, priority, quality, key0, key1 (of the whole text), digits (documents that differ in them are
        no near duplicates), asked, question0, question1.
        """
        self.connection.execute(_RANK, {"files": [str(file) for file in files]})
        self.connection.execute(_EXACT)
        self.connection.execute(_ALONE)

    def remaining(self, shard: Shard) -> tuple[np.ndarray, np.ndarray]:
        """Select the documents of a shard that may have near duplicates: doc and node, int64 [R] each."""
        return self._columns(
            "select doc, node from ranked anti join dropped using (node) anti join alone using (node) "
            "where doc >= $1 and doc < $2 order by doc",
            [shard.start, shard.stop],
        )

    def join(self, files: Iterable[Path], bands: int) -> None:
        """Add the candidates of each band, from Parquet files with columns node, 0, 1, ... of band hashes."""
        files = [str(file) for file in files]
        (documents,) = self._columns("select count(*) from read_parquet($1)", [files])
        parts = 1 + int(documents[0]) * _BYTES_JOINED // self.memory
        for band in range(bands):
            query = f'select "{band}" as hash, node from read_parquet($1) where "{band}" % {parts} = $2'
            for number in range(parts):
                self.add_pairs(bucket_pairs(*self._columns(query, [files, number])))

    def add_pairs(self, pairs: np.ndarray) -> None:
        """Add candidates int64 [P, 2]."""
        self._insert("pairs", earlier=pairs.min(axis=1), later=pairs.max(axis=1))

    def candidates(self) -> np.ndarray:
        """Select the different candidates int64 [P, 2], smaller node first, sorted."""
        query = "select distinct earlier, later from pairs where earlier < later order by earlier, later"
        return np.stack(self._columns(query), axis=1)

    def docs_of(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Select the documents of these nodes in reading order: doc and node, int64 [R] each."""
        found = self._joined("doc, node", "semi join", "doc", node=nodes.ravel())
        return found["doc"].to_numpy(), found["node"].to_numpy()

    def ids(self, nodes: np.ndarray) -> pa.Array:
        """Select the ids of these nodes, in their order."""
        return self._joined("id", "join", "place", node=nodes, place=np.arange(len(nodes)))["id"].combine_chunks()

    def drop_near(self, nodes: np.ndarray, survivors: np.ndarray) -> None:
        """Mark near duplicates: `nodes[p]` gives way to `survivors[p]`."""
        self._insert("dropped", node=nodes, because=survivors, reason=np.ones(len(nodes), np.uint8))

    def drop_too_many(self, most: int) -> None:
        """Mark what exceeds `most` remaining documents per question."""
        self.connection.execute(_TOO_MANY, {"most": most})

    def decide(self) -> None:
        """Resolve what every dropped document gave way to: a document that is kept."""
        self.connection.execute(_DECIDE)

    def dropped(self, shard: Shard) -> pa.Table:
        """Select the documents of a shard that are dropped: doc, reason (place in REASONS), because."""
        query = "select doc, reason, because from decided where doc >= $first and doc < $stop order by doc"
        return self.connection.sql(query, params={"first": shard.start, "stop": shard.stop}).to_arrow_table()

    def _columns(self, query: str, parameters: Sequence[Any] = ()) -> tuple[np.ndarray, ...]:
        return tuple(self.connection.execute(query, parameters).fetchnumpy().values())

    def _insert(self, table: str, **columns: np.ndarray) -> None:
        self.connection.from_arrow(pa.table(columns)).insert_into(table)

    def _joined(self, columns: str, join: str, order: str, **wanted: np.ndarray) -> pa.Table:
        """Join the ranked documents with a table of wanted nodes."""
        self.connection.register("wanted", pa.table(wanted))
        query = f"select {columns} from ranked {join} wanted using (node) order by {order}"
        found = self.connection.sql(query).to_arrow_table()
        self.connection.unregister("wanted")
        return found
