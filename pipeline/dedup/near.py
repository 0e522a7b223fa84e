"""Near duplicates: MinHash candidates from the shards, verified by exact Jaccard similarity and the guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.dedup.clusters import Clusters, clusters
from pipeline.dedup.guards import GUARDS, Facts, answer_ids, contradictions, facts, joined, number_sequences
from pipeline.dedup.minhash import SCHEME, band_hashes, datasketch_candidates, signatures
from pipeline.storage.numbered_shards import Shard, batches_of
from pipeline.storage.parallel import Run
from pipeline.storage.resumable import make_once, save_arrays
from pipeline.text.ngrams import Words, blocks, text_column
from pipeline.text.ragged import distinct, jaccard

if TYPE_CHECKING:
    from pipeline.dedup.stage import DedupSettings

AUDIT = "near_duplicates.parquet"
_BLOCKS_AT_ONCE = 256  # signed blocks written as one row group, some ten thousand documents


def find_near(
    table: Clusters,
    files: list[Shard],
    folder: Path,
    output: Path,
    settings: DedupSettings,
    run: Run,
    progress: Callable[[float, str], None],
) -> dict[str, Any]:
    """Mark near duplicates in `table` and write `AUDIT` under `output`; `folder` takes temporary files.

    Returns the part of `deduplicate`'s results that is about near duplicates.
    """
    bands, rows = settings.banding
    path = make_once(
        folder / "candidates.npz", lambda path: _find_candidates(table, files, folder, settings, run, progress, path)
    )
    pairs = np.load(path)["pairs"]
    progress(0.65, "comparing candidates")
    comparison = Comparison(table, pairs, files, folder, settings, run)
    progress(0.75, "comparing candidates")
    similarity = comparison.similarity(pairs[:, 0], pairs[:, 1])
    refused = comparison.refused(pairs[:, 0], pairs[:, 1])
    alike = similarity >= settings.threshold
    verified = pairs[alike & (refused == 0)]
    nodes, survivors = clusters(verified, lambda left, right: comparison.refused(left, right) > 0)
    table.drop_near(nodes, survivors)
    final = _similarities(np.stack([survivors, nodes], axis=1), pairs, similarity, comparison)
    audit = pa.table({"id": table.ids(nodes), "because": table.ids(survivors), "similarity": final})
    pq.write_table(audit, output / AUDIT, compression="zstd")
    members = np.bincount(np.unique(survivors, return_inverse=True)[1])
    return {
        "candidates": len(pairs),
        "verified": len(verified),
        "refused": {guard: int((refused[alike] == i).sum()) for i, guard in enumerate(GUARDS, 1)},
        "drifted": int((final < settings.threshold).sum()),
        "clusters": {str(size + 1): int(number) for size, number in enumerate(np.bincount(members)) if number},
        "signature": {
            "scheme": SCHEME,
            "words": settings.words,
            "permutations": settings.permutations,
            "seed": settings.seed,
            "bands": bands,
            "rows": rows,
        },
    }


def _similarities(wanted: np.ndarray, pairs: np.ndarray, known: np.ndarray, comparison: Comparison) -> np.ndarray:
    """The similarity float64 [W] of each wanted pair; `known` holds those of `pairs`, which are sorted."""
    base = int(pairs.max(initial=0)) + 1
    keys, of = (some[:, 0] * base + some[:, 1] for some in (pairs, wanted))
    place = np.minimum(np.searchsorted(keys, of), max(len(keys) - 1, 0))
    result = known[place]
    new = keys[place] != of
    result[new] = comparison.similarity(*wanted[new].T)
    return result


def _find_candidates(
    table: Clusters,
    files: list[Shard],
    folder: Path,
    settings: DedupSettings,
    run: Run,
    progress: Callable[[float, str], None],
    path: Path,
) -> None:
    """Write "pairs", the candidates of all shards."""
    bands, rows = settings.banding
    if settings.engine == "datasketch":
        documents = _ngrams_of_all(table, files, settings.words)
        pairs = datasketch_candidates(documents, settings.permutations, settings.seed, bands, rows)
        table.add_pairs(np.array(sorted(pairs), np.int64).reshape(-1, 2))
        save_arrays(path, pairs=table.candidates())
        return
    signed = []
    for done, signatures_of_shard in enumerate(run(_sign, _signing(table, files, folder, settings))):
        signed.append(signatures_of_shard)
        progress(0.2 + 0.4 * (done + 1) / len(files), "signatures")
    table.join(signed, bands)
    save_arrays(path, pairs=table.candidates())


def _signing(table: Clusters, files: list[Shard], folder: Path, settings: DedupSettings) -> Iterator[tuple]:
    for number, shard in enumerate(files):
        plan = folder / f"signing-{number}.npz"  # a file, so that plans waiting for a worker take no memory
        documents, nodes = table.remaining(shard.start, shard.stop)
        save_arrays(plan, documents=documents, nodes=nodes)
        yield shard, plan, settings, folder / f"bands-{number}.parquet"


def _sign(shard: Shard, plan: Path, settings: DedupSettings, path: Path) -> Path:
    """Write the band hashes of a shard's documents that have n-grams; `plan` holds the documents and their nodes."""
    return make_once(path, lambda partial: _write_bands(shard, np.load(plan), settings, partial))


def _write_bands(shard: Shard, plan: Mapping[str, np.ndarray], settings: DedupSettings, path: Path) -> None:
    """The hashes of each band as a column, and the nodes.

    With the guard for numbers, documents with different numbers never share a hash: on texts made from templates this
    is what keeps the buckets small.
    """
    documents, nodes = plan["documents"], plan["nodes"]
    bands, rows = settings.banding
    schema = pa.schema([("node", pa.int64()), *((str(band), pa.uint64()) for band in range(bands))])
    waiting: list[np.ndarray] = []
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, write_statistics=False) as writer:

        def write() -> None:
            if waiting:
                columns = np.concatenate(waiting, axis=1)
                arrays = [columns[0].view(np.int64), *columns[1:]]
                writer.write_batch(pa.RecordBatch.from_arrays([pa.array(array) for array in arrays], schema=schema))
                waiting.clear()

        for some, words, _ in _words(shard, documents):
            ids, offsets = words.ngrams(settings.words)
            signed = np.flatnonzero(np.diff(offsets))
            hashes = band_hashes(
                signatures(ids, offsets[[*signed, -1]], settings.permutations, settings.seed), bands, rows
            )
            if "numbers" in settings.guards:
                hashes ^= number_sequences(words)[signed]
            waiting.append(np.vstack([nodes[some][signed].view(np.uint64), hashes]))
            if len(waiting) == _BLOCKS_AT_ONCE:
                write()
        write()


def _words(shard: Shard, documents: np.ndarray) -> Iterator[tuple[slice, Words, np.ndarray]]:
    """Blocks of the documents at these places: which of them, their words and the ids of their answers."""
    for some, batch in batches_of(shard, documents, ["question", "response", "answer"]):
        answers = answer_ids(batch["answer"])
        for first, last, words in blocks(text_column(batch["question"], batch["response"])):
            yield slice(some.start + first, some.start + last), words, answers[first:last]


def _ngrams_of_all(table: Clusters, files: list[Shard], n: int) -> Iterator[tuple[int, np.ndarray]]:
    for shard in files:
        documents, nodes = table.remaining(shard.start, shard.stop)
        for some, words, _ in _words(shard, documents):
            ids, offsets = words.ngrams(n)
            for node, start, end in zip(nodes[some].tolist(), offsets[:-1], offsets[1:], strict=True):
                if start < end:
                    yield node, ids[start:end]


class Comparison:
    """The n-grams and facts of all candidates, read from the shards once; the n-grams stay in a mapped file."""

    def __init__(
        self,
        table: Clusters,
        pairs: np.ndarray,
        files: list[Shard],
        folder: Path,
        settings: DedupSettings,
        run: Run,
    ) -> None:
        """`pairs` int64 [P, 2] of nodes are all that will be compared."""
        self.settings = settings
        documents, self.nodes = table.places(pairs)
        self.order = np.argsort(self.nodes)
        parts: list[Facts] = []
        sizes = [np.zeros(1, np.int64)]
        with (folder / "ngrams").open("wb") as file:
            for path in run(_describe, _describing(documents, files, folder, settings)):
                with np.load(path) as described:
                    file.write(described["ids"].data)
                    sizes.append(described["sizes"])
                    parts.append(Facts(*(described[field.name] for field in fields(Facts))))
        self.offsets = np.cumsum(np.concatenate(sizes))
        self.facts = joined(parts)
        self.ids = np.memmap(folder / "ngrams", np.uint64, "r") if self.offsets[-1] else np.empty(0, np.uint64)

    def similarity(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Exact Jaccard similarity float64 [P] of pairs of nodes."""
        return jaccard(self.ids, self.offsets, self._places(left), self._places(right))

    def refused(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Which guard keeps two nodes apart, uint8 [P] as `guards.contradictions`."""
        return contradictions(self.facts, self._places(left), self._places(right), self.settings.guards)

    def _places(self, nodes: np.ndarray) -> np.ndarray:
        return self.order[np.searchsorted(self.nodes, nodes, sorter=self.order)]


def _describing(documents: np.ndarray, files: list[Shard], folder: Path, settings: DedupSettings) -> Iterator[tuple]:
    for number, shard in enumerate(files):
        start, end = np.searchsorted(documents, (shard.start, shard.stop))
        if start < end:
            plan = folder / f"describing-{number}.npz"
            save_arrays(plan, documents=documents[start:end])
            yield shard, plan, settings.words, folder / f"facts-{number}.npz"


def _describe(shard: Shard, plan: Path, n: int, path: Path) -> Path:
    """Write the different n-grams and the facts of the documents of a shard that `plan` holds."""

    def write(partial: Path) -> None:
        parts, ids, sizes = [], [], []
        for _, words, answers in _words(shard, np.load(plan)["documents"]):
            grams, offsets = distinct(*words.ngrams(n))
            ids.append(grams)
            sizes.append(np.diff(offsets))
            parts.append(facts(words, answers))
        save_arrays(partial, ids=np.concatenate(ids), sizes=np.concatenate(sizes), **vars(joined(parts)))

    return make_once(path, write)
