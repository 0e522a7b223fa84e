"""Find candidates for near duplicates: word n-grams -> MinHash signatures -> band hashes -> equal hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.dedup.document_table import DocumentTable
from pipeline.dedup.labels import without_labels
from pipeline.dedup.minhash import band_hashes, datasketch_candidates, signatures
from pipeline.dedup.settings import DedupSettings
from pipeline.progress import Progress
from pipeline.storage.numbered_shards import Shard, batches_of
from pipeline.storage.parallel import Run
from pipeline.storage.resumable import make_once, save_arrays
from pipeline.text.words import Words, text_column, word_blocks

_BLOCKS_AT_ONCE = 256  # signed blocks written as one row group, about ten thousand documents


def find_candidates(table: DocumentTable, settings: DedupSettings, run: Run, progress: Progress) -> np.ndarray:
    """Find the candidates among all documents: pairs of nodes int64 [P, 2], smaller node first, sorted."""

    def write(path: Path) -> None:
        bands, rows = settings.banding
        if settings.engine == "datasketch":
            documents = _ngrams_of_all(table, settings.words)
            pairs = datasketch_candidates(documents, settings.permutations, settings.seed, bands, rows)
            table.add_pairs(np.array(sorted(pairs), np.int64).reshape(-1, 2))
        else:
            signed = []
            for path_of_bands in run(_sign, _plans(table, settings)):
                signed.append(path_of_bands)
                progress(0.2 + 0.4 * len(signed) / len(table.files), "signatures")
            table.join(signed, bands)
        save_arrays(path, pairs=table.candidates())

    return np.load(make_once(table.folder / "candidates.npz", write))["pairs"]


def _plans(table: DocumentTable, settings: DedupSettings) -> Iterator[tuple]:
    for number, shard in enumerate(table.files):
        plan = table.folder / f"signing-{number}.npz"  # a file, so that plans waiting for a worker take no memory
        documents, nodes = table.remaining(shard)
        save_arrays(plan, documents=documents, nodes=nodes)
        yield shard, plan, settings, table.folder / f"bands-{number}.parquet"


def _sign(shard: Shard, plan: Path, settings: DedupSettings, path: Path) -> Path:
    """Write node and band hashes, a column for each band, of the documents of a shard that `plan` lists."""
    bands, _ = settings.banding
    schema = pa.schema([("node", pa.int64()), *((str(band), pa.uint64()) for band in range(bands))])

    def write(partial: Path) -> None:
        blocks = _signed_blocks(shard, plan, settings)
        with pq.ParquetWriter(
            partial, schema, compression="none", use_dictionary=False, write_statistics=False
        ) as file:
            while group := list(islice(blocks, _BLOCKS_AT_ONCE)):
                nodes, *hashes = np.concatenate(group, axis=1)
                file.write_batch(
                    pa.RecordBatch.from_arrays([*map(pa.array, (nodes.view(np.int64), *hashes))], schema=schema)
                )

    return make_once(path, write)


def _signed_blocks(shard: Shard, plan: Path, settings: DedupSettings) -> Iterator[np.ndarray]:
    """Yield node and band hashes uint64 [1 + bands, D] of the documents that have n-grams.

    With the guard for numbers, documents with different numbers never share a hash: on texts made from templates this
    keeps the buckets small.
    """
    with np.load(plan) as listed:
        documents, nodes = listed["documents"], listed["nodes"]
    bands, rows = settings.banding
    for place, _, words in words_of_documents(shard, documents):
        ids, offsets = words.ngrams(settings.words)
        hashes = band_hashes(signatures(ids, offsets, settings.permutations, settings.seed), bands, rows)
        if "numbers" in settings.guards:
            hashes ^= words.number_sequences()
        yield np.vstack([nodes[place].view(np.uint64), hashes])[:, np.diff(offsets) > 0]


def words_of_documents(
    shard: Shard, documents: np.ndarray, columns: Sequence[str] = ("question", "response")
) -> Iterator[tuple[slice, pa.RecordBatch, Words]]:
    """Yield the listed documents of a shard in blocks: their slice of `documents`, their rows, their words.

    The words are those of question and response without the labels of the problem.
    """
    for place, batch in batches_of(shard, documents, columns):
        for rows, words in word_blocks(text_column(without_labels(batch["question"]), batch["response"])):
            here = slice(place.start + rows.start, place.start + rows.stop)
            yield here, batch.slice(rows.start, rows.stop - rows.start), words


def _ngrams_of_all(table: DocumentTable, n: int) -> Iterator[tuple[int, np.ndarray]]:
    for shard in table.files:
        documents, nodes = table.remaining(shard)
        for place, _, words in words_of_documents(shard, documents):
            ids, offsets = words.ngrams(n)
            for node, start, stop in zip(nodes[place].tolist(), offsets[:-1], offsets[1:], strict=True):
                if start < stop:
                    yield node, ids[start:stop]
