"""Who is the same document as whom: rankings and joins in DuckDB, out of core, and clusters by scipy.

Documents are numbered as `node` by the rule that decides who survives: priority of the source, then quality, then id.
So the smallest node of any group is its survivor, and nothing depends on the order of files or the number of workers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pipeline.errors import InputError

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


def memory_bytes(memory: str) -> int:
    """`4GB`, `512 MiB` as bytes. Raises InputError for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])(i?)B\s*", memory, re.IGNORECASE)
    if not found:
        raise InputError(f"memory: {memory!r} is no size: write it like 4GB or 512MiB")
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** ("KMGT".index(found[2].upper()) + 1))


class Clusters:
    """The documents of one run of the stage, by `doc`, their place in reading order, and `node`, their rank."""

    def __init__(self, folder: Path, memory: int) -> None:
        """`folder` takes the database and what it spills; DuckDB gets half of `memory` bytes, arrays the rest."""
        self.memory = max(memory // 2, 64_000_000)
        database = folder / "clusters.duckdb"
        for left in (database, folder / "clusters.duckdb.wal"):
            left.unlink(missing_ok=True)  # by an attempt that was killed: all of it is made again from the parts
        self.connection = duckdb.connect(
            database,
            config={
                "memory_limit": f"{self.memory}B",
                "temp_directory": str(folder / "spilled"),
                "preserve_insertion_order": False,
            },
        )

        self.connection.execute("pragma disable_checkpoint_on_shutdown; pragma disable_progress_bar")

    def close(self) -> None:
        """Let go of the database."""
        self.connection.close()

    def rank(self, files: Iterable[Path]) -> None:
        """Number the documents described in Parquet files and mark exact duplicates.

        Columns: doc, id, priority, quality, key0, key1 (of the whole text), digits (documents that differ in this are
        no near duplicates), asked, question0, question1.
        """
        self.connection.execute(_RANK, {"files": [str(file) for file in files]})
        self.connection.execute(_EXACT)
        self.connection.execute(_ALONE)
        self.connection.execute("create table pairs (earlier bigint, later bigint)")

    def remaining(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Documents `first:last` in reading order that may be near duplicates: doc and node, int64 [R] each."""
        return self._columns(
            "select doc, node from ranked anti join dropped using (node) anti join alone using (node) "
            "where doc between $1 and $2 order by doc",
            [first, last - 1],
        )

    def join(self, files: Iterable[Path], bands: int) -> None:
        """Find the candidates of each band in turn, from Parquet files with columns node, 0, 1, ... of band hashes."""
        files = [str(file) for file in files]
        (documents,) = self._columns("select count(*) from read_parquet($1)", [files])
        parts = 1 + int(documents[0]) * _BYTES_JOINED // self.memory
        for band in range(bands):
            query = f'select "{band}" as hash, node from read_parquet($1) where "{band}" % {parts} = $2'
            for number in range(parts):
                self.add_pairs(bucket_pairs(*self._columns(query, [files, number])))

    def add_pairs(self, pairs: np.ndarray) -> None:
        """Add candidates int64 [P, 2] found in another way."""
        table = pa.table({"earlier": pairs.min(axis=1), "later": pairs.max(axis=1)})
        self.connection.from_arrow(table).insert_into("pairs")

    def candidates(self) -> np.ndarray:
        """All different candidates int64 [P, 2], smaller node first, sorted."""
        return np.stack(
            self._columns("select distinct earlier, later from pairs where earlier < later order by earlier, later"),
            axis=1,
        )

    def places(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The documents of these nodes in reading order, and their nodes: int64 [R] each."""
        wanted = pa.table({"node": nodes.ravel()})
        self.connection.register("wanted", wanted)
        found = self._columns("select doc, node from ranked semi join wanted using (node) order by doc")
        self.connection.unregister("wanted")
        return found

    def drop_near(self, nodes: np.ndarray, survivors: np.ndarray) -> None:
        """Mark near duplicates: `nodes[p]` gives way to `survivors[p]`."""
        table = pa.table({"node": nodes, "because": survivors, "reason": np.ones(len(nodes), np.uint8)})
        self.connection.from_arrow(table).insert_into("dropped")

    def drop_too_many(self, most: int) -> None:
        """Mark what goes beyond `most` remaining documents per question."""
        self.connection.execute(_TOO_MANY, {"most": most})

    def ids(self, nodes: np.ndarray) -> pa.Array:
        """The ids of these nodes, in their order."""
        wanted = pa.table({"node": nodes, "place": np.arange(len(nodes))})
        self.connection.register("wanted", wanted)
        result = self.connection.sql("select id from ranked join wanted using (node) order by place").to_arrow_table()
        self.connection.unregister("wanted")
        return result["id"].combine_chunks()

    def decide(self) -> None:
        """Settle what every dropped document gave way to: one that is kept itself."""
        self.connection.execute(_DECIDE)

    def dropped(self, first: int, last: int) -> pa.Table:
        """What of the documents `first:last` in reading order is dropped: doc, reason (place in REASONS), because."""
        query = "select doc, reason, because from decided where doc >= $first and doc < $last order by doc"
        return self.connection.sql(query, params={"first": first, "last": last}).to_arrow_table()

    def _columns(self, query: str, parameters: Sequence[Any] = ()) -> tuple[np.ndarray, ...]:
        return tuple(self.connection.execute(query, parameters).fetchnumpy().values())


def bucket_pairs(hashes: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Candidates int64 [P, 2] among nodes of equal hashes, smaller node first.

    In a bucket each document is paired with the first one (star) and with the one before it (chain), so that the number
    of pairs grows with the bucket and not with its square.
    """
    order = np.argsort(hashes)
    same = np.concatenate([[False], np.diff(hashes[order]) == 0, [False]])
    met = order[(same[1:] | same[:-1])[: len(order)]]
    met = met[np.lexsort((nodes[met], hashes[met]))]
    hashes, nodes = hashes[met], nodes[met]
    new = np.append(True, np.diff(hashes) != 0)[: len(met)]
    first = nodes[new][np.cumsum(new) - 1]
    later = np.flatnonzero(~new)
    earlier = np.concatenate([first[later], nodes[later - 1]])
    return np.stack([earlier, np.tile(nodes[later], 2)], axis=1)


def clusters(
    pairs: np.ndarray, contradict: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Connected components of verified pairs int64 [P, 2]: who is dropped, and the survivor of each.

    Components chain: a and c may be joined through b only. A member that `contradict(survivors, members)` bool rules
    out does not go with its component; the members ruled out form components of their own by the pairs among them.
    """
    dropped, survivors = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    while len(pairs):
        nodes, places = np.unique(pairs, return_inverse=True)
        places = places.reshape(-1, 2)
        ones = np.ones(len(pairs), bool)
        graph = coo_array((ones, (places[:, 0], places[:, 1])), shape=(len(nodes), len(nodes)))
        _, labels = connected_components(graph, directed=False)
        first = nodes[np.unique(labels, return_index=True)[1]][labels]  # nodes ascend, so the first is the smallest
        member = first != nodes
        out = np.zeros(len(nodes), bool)
        out[member] = contradict(first[member], nodes[member])
        gone = member & ~out
        dropped.append(nodes[gone])
        survivors.append(first[gone])
        pairs = pairs[out[places].all(axis=1)]
    return np.concatenate(dropped), np.concatenate(survivors)
