"""Find near duplicates.

MinHash finds candidates, exact Jaccard similarity and the guards verify them, and what is verified
is clustered.

Example: documents a, b and c are long problems of equal numbers; b has one word of a exchanged, c
has another name. All three pairs have a Jaccard similarity above the threshold; the guard "names"
refuses (a, c) and (b, c); the cluster {a, b} is left, in which b gives way to a; c is kept.

A document gives way only to a document that resembles it: at the end of a chain of documents, each
like the next, stands one that is not like the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dreamer_study.pipeline.dedup.contradictions import (
    Facts,
    answer_ids,
    contradictions,
    facts,
    function_ids,
)
from dreamer_study.pipeline.dedup.document_table import DocumentTable
from dreamer_study.pipeline.dedup.settings import GUARDS, DedupSettings
from dreamer_study.pipeline.dedup.signing import words_of_documents, write_bands
from dreamer_study.pipeline.storage.documents import Shard
from dreamer_study.pipeline.storage.parallel import Progress, Workers
from dreamer_study.pipeline.storage.resumable import make_once, save_arrays
from dreamer_study.pipeline.text.arrays import bounds, distinct, jaccard

AUDIT = "near_duplicates.parquet"
# A cluster is told of that drops more documents than this, or this share of a source.
_LARGE = 100
_LARGE_SHARE = 0.1
_LEAST_LARGE = 5  # documents, of a small source


def find_near(
    table: DocumentTable,
    output: Path,
    settings: DedupSettings,
    bands: Sequence[Path],
    run: Workers,
    progress: Progress,
) -> dict[str, Any]:
    """Mark near duplicates in `table` and write `AUDIT` under `output`.

    `bands` are files, one a shard, of the band hashes that the signing of its source has computed;
    documents that have none there are signed here. Returns the part of `deduplicate`'s results that
    is about near duplicates.
    """

    def write(path: Path) -> None:
        table.add_signed(table.files, bands)
        plans = list(_plans(table, "signing", table.unsigned()))
        tasks = [
            (shard, plan, plan.with_suffix(".parquet"), settings.signing) for shard, plan in plans
        ]
        for done, ((shard, _), signed) in enumerate(
            zip(plans, run(write_bands, tasks), strict=True), 1
        ):
            table.add_signed([shard], [signed])
            progress(0.2 + 0.4 * done / len(plans), "signatures")
        save_arrays(path, pairs=table.candidates(settings.signing.bands))

    pairs = np.load(make_once(table.folder / "candidates.npz", write))["pairs"]
    progress(0.65, "comparing candidates")
    comparison = Comparison(table, pairs, settings, run)
    progress(0.75, "comparing candidates")
    alike = comparison.similarity(pairs[:, 0], pairs[:, 1]) >= settings.threshold
    refused = comparison.refused(pairs[:, 0], pairs[:, 1])
    verified = pairs[alike & (refused == 0)]
    nodes, survivors = clusters(verified, comparison.are_apart)
    table.drop_near(nodes, survivors)
    final = comparison.similarity(survivors, nodes)
    audit = pa.table({"id": table.ids(nodes), "because": table.ids(survivors), "similarity": final})
    pq.write_table(audit, output / AUDIT, compression="zstd")
    refused_by = {
        guard: int((refused[alike] == code).sum()) for code, guard in enumerate(GUARDS, 1)
    }
    return {
        "candidates": len(pairs),
        "verified": len(verified),
        "refused": refused_by,
        "drifted": int((final < settings.threshold).sum()),
        "clusters": _sizes(survivors),
        "large_clusters": _large_clusters(table, nodes, survivors),
    }


def _sizes(survivors: np.ndarray) -> dict[str, int]:
    """Count the clusters by size, given the survivor of each dropped document."""
    _, dropped = np.unique(survivors, return_counts=True)
    counts = np.bincount(dropped)
    return {str(size + 1): int(count) for size, count in enumerate(counts) if count}


def _large_clusters(
    table: DocumentTable, nodes: np.ndarray, survivors: np.ndarray
) -> list[dict[str, Any]]:
    """Describe the clusters that take many documents, or much of a source, the largest first.

    Such a cluster may be what many different documents have in common, as a long preamble.
    """
    starts = np.array([shard.start for shard in table.files])
    of_shards = np.array([shard.source for shard in table.files])
    documents_of = [shard.stop - shard.start for shard in table.files]
    sizes = np.bincount(of_shards, documents_of)
    documents, dropped = table.docs_of(nodes)
    order = np.argsort(nodes)
    kept = survivors[order][np.searchsorted(nodes[order], dropped)]
    sources = of_shards[np.searchsorted(starts, documents, "right") - 1]
    pairs, first, counts = np.unique(
        np.stack([kept, sources], axis=1), axis=0, return_index=True, return_counts=True
    )
    share = np.maximum(_LARGE_SHARE * sizes[pairs[:, 1]], _LEAST_LARGE)
    large = np.flatnonzero((counts > _LARGE) | (counts >= share))
    large = large[np.argsort(-counts[large], kind="stable")]
    return [
        {"dropped": int(count), "of": int(size), "because": because, "example": example}
        for count, size, because, example in zip(
            counts[large],
            sizes[pairs[large, 1]],
            table.ids(pairs[large, 0]).to_pylist(),
            table.ids(dropped[first[large]]).to_pylist(),
            strict=True,
        )
    ]


class Comparison:
    """Compare candidates by their n-grams and facts, read from the shards once.

    N-grams stay in a mapped file.
    """

    def __init__(
        self, table: DocumentTable, pairs: np.ndarray, settings: DedupSettings, run: Workers
    ) -> None:
        """Describe the nodes of `pairs` int64 [P, 2], which are all that will be compared."""
        self.settings = settings
        documents, self.nodes = table.docs_of(pairs)
        self.order = np.argsort(self.nodes)
        parts: list[Facts] = []
        sizes = [np.zeros(0, np.int64)]
        with (table.folder / "ngrams").open("wb") as file:
            plans = _plans(table, "describing", documents)
            for path in run(_describe, ((shard, plan, settings.words) for shard, plan in plans)):
                with np.load(path) as described:
                    file.write(described["ngrams"].data)
                    sizes.append(described["sizes"])
                    parts.append(
                        Facts(**{name: described[name] for name in Facts.__dataclass_fields__})
                    )
        self.offsets = bounds(np.concatenate(sizes))
        self.facts = Facts.concatenate(parts)
        self.ngrams = np.empty(0, np.uint64)
        if self.offsets[-1]:  # an empty file cannot be mapped
            self.ngrams = np.memmap(file.name, np.uint64, "r")

    def similarity(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Compute the exact Jaccard similarity float64 [P] of pairs of nodes."""
        return jaccard(self.ngrams, self.offsets, self._places(left), self._places(right))

    def refused(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Find the guard that keeps two nodes apart, uint8 [P] as `contradictions`."""
        return contradictions(
            self.facts, self._places(left), self._places(right), self.settings.guards
        )

    def are_apart(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Test, bool [P], whether the second node may not give way to the first."""
        unlike = self.similarity(left, right) < self.settings.threshold
        return unlike | (self.refused(left, right) > 0)

    def _places(self, nodes: np.ndarray) -> np.ndarray:
        return self.order[np.searchsorted(self.nodes, nodes, sorter=self.order)]


def _plans(table: DocumentTable, name: str, documents: np.ndarray) -> Iterator[tuple[Shard, Path]]:
    """Write for each shard which of these documents to read: files wait without taking memory."""
    for number, shard in enumerate(table.files):
        start, stop = np.searchsorted(documents, (shard.start, shard.stop))
        if start < stop:
            plan = table.folder / f"{name}-{number}.npz"
            save_arrays(plan, documents=documents[start:stop])
            yield shard, plan


def _describe(shard: Shard, plan: Path, n: int) -> Path:
    """Write the different n-grams and the facts of the documents of a shard that `plan` lists."""

    def write(partial: Path) -> None:
        ngrams, sizes, parts = [], [], []
        for _, batch, words in words_of_documents(shard, plan, ("question", "response", "answer")):
            ids, offsets = distinct(*words.ngrams(n))
            ngrams.append(ids)
            sizes.append(np.diff(offsets))
            parts.append(facts(words, answer_ids(batch["answer"]), function_ids(batch["question"])))
        all_facts = vars(Facts.concatenate(parts))
        save_arrays(
            partial, ngrams=np.concatenate(ngrams), sizes=np.concatenate(sizes), **all_facts
        )

    return make_once(plan.with_name(plan.name.replace("describing", "facts")), write)


def clusters(
    pairs: np.ndarray, contradict: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Find connected components of verified pairs int64 [P, 2].

    Returns the dropped nodes and the survivor of each. Components chain: a and c may be joined
    through b only. Members that `contradict(survivors, members)` bool rules out do not go with
    their component; they form components of their own by the pairs among them.

    Documents are nodes, numbered in the order in which they survive: the smallest node of a cluster
    is its survivor.

    Here 3 and 4 contradict 1:

    >>> pairs = np.array([[1, 2], [2, 3], [3, 4], [7, 9]])
    >>> nodes, survivors = clusters(pairs, lambda first, member: (first == 1) & (member >= 3))
    >>> sorted(zip(nodes.tolist(), survivors.tolist()))
    [(2, 1), (4, 3), (9, 7)]
    """
    # The import takes a tenth of a second, for which plans and states need not wait.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    dropped = [np.empty(0, np.int64)]
    survivors = [np.empty(0, np.int64)]
    while len(pairs):
        nodes, places = np.unique(pairs, return_inverse=True)
        places = places.reshape(-1, 2)
        edges = (np.ones(len(pairs), bool), tuple(places.T))
        graph = coo_array(edges, shape=(len(nodes), len(nodes)))
        _, labels = connected_components(graph, directed=False)
        # Nodes ascend, so the first of a component is the smallest.
        _, first_places = np.unique(labels, return_index=True)
        survivor = nodes[first_places][labels]
        is_member = survivor != nodes
        contradicts = np.zeros(len(nodes), bool)
        contradicts[is_member] = contradict(survivor[is_member], nodes[is_member])
        gives_way = is_member & ~contradicts
        dropped.append(nodes[gives_way])
        survivors.append(survivor[gives_way])
        pairs = pairs[contradicts[places].all(axis=1)]
    return np.concatenate(dropped), np.concatenate(survivors)
