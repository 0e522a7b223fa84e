"""Deduplicate whole documents: exact duplicates, near duplicates, a cap per question.

A document is its question and response. The steps:

1. sign: a key of each document's normal text and what decides who survives (`exact`), and the band
   hashes of most of the documents that need them: source by source, so that a new source leaves the
   others as they are (`signing`).
2. exact duplicates: DuckDB groups the keys; of equal documents the best one is kept
   (`document_table`).
3. candidates: n-grams -> MinHash signatures -> band hashes -> equal hashes (`minhash`, `near`);
   only of documents that share all their digits with another one, as no others have equal numbers.
4. verify: exact Jaccard similarity of the candidates' n-grams, and the guards (`near`,
   `contradictions`). Numbers that only label a problem, in a book or a contest, are left out of all
   this (`signing`).
5. cluster: connected components; the best document of each is kept, and those that are not like it
   (`near`).
6. write: kept and dropped documents, shard by shard.

Of a group the document survives that comes first by source (order of `sources`), then by having an
answer, then by the longer text (white space not counted), then by id. The result depends neither on
the number of processes nor on the order of files. Documents of fewer words than an n-gram, or of
fewer than 20 bytes, are compared as a whole only, the latter with their variables in their case
(`exact`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dreamer_study.pipeline.dedup.document_table import REASONS, DocumentTable
from dreamer_study.pipeline.dedup.near import find_near
from dreamer_study.pipeline.dedup.settings import DedupSettings
from dreamer_study.pipeline.dedup.signing import sign_source
from dreamer_study.pipeline.storage.documents import (
    DocumentWriter,
    Shard,
    find_shards,
    numbered_batches,
    sum_counts,
)
from dreamer_study.pipeline.storage.parallel import Progress, Workers, memory_bytes, quiet, workers
from dreamer_study.pipeline.storage.resumable import resumable_parts, write_document_shard


def deduplicate(
    sources: Sequence[Path],
    output: Path,
    settings: DedupSettings,
    *,
    signed: Sequence[Path] = (),
    memory: str = "4GB",
    processes: int = 1,
    cluster: str | None = None,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Remove duplicates among the documents of all `sources`, whose order is their priority.

    Writes `documents/`, `dropped/` (because: the id of the document kept instead) and, for audit,
    `near_duplicates.parquet` (id, because, similarity) under `output`. Finished parts lie in
    `unfinished/` of `output` until the end, about 200 bytes per document and 16 per word of a
    candidate; a killed stage continues from them. `signed` are the outputs of `sign_source`, one
    for each of `sources` and made with `settings.signing`; without them the documents are signed
    here. `cluster` as in `pipeline/storage/parallel.py`.

    Returns "counts", "candidates" (pairs compared), "verified" (near duplicates found), "refused"
    (pairs alike but for a guard, by guard), "drifted" (near duplicates below the threshold to the
    document kept: none), "clusters" (number by size) and "large_clusters" (those that drop many
    documents of a source: "dropped", "of" this many of the source, "because" and an "example").
    Raises InputError for a shard that cannot be read, for a memory size that makes no sense and for
    a full disk.
    """
    output = Path(output)
    files = find_shards(sources)
    limit = memory_bytes(memory)
    with (
        resumable_parts(output, asdict(settings), files) as folder,
        workers(processes, cluster) as run,
        closing(DocumentTable(files, folder, limit)) as table,
    ):
        near: dict[str, Any] = {}
        if files:
            signed = signed or _sign_all(sources, folder, settings, limit, run, progress)
            table.rank(_files_of(signed, "keys", files))
            progress(0.2, "exact duplicates")
            if settings.remove:
                table.drop_exact()
            if settings.remove and settings.near:
                bands = _files_of(signed, "bands", files)
                near = find_near(table, output, settings, bands, run, progress)
            table.decide(settings.responses_per_question if settings.remove else None)
        counts = []
        for written in run(_write, _plans(table, output)):
            counts.append(written["counts"])
            progress(0.8 + 0.2 * len(counts) / len(files), "writing")
        return {"counts": sum_counts(counts), **near}


def _sign_all(
    sources: Sequence[Path],
    folder: Path,
    settings: DedupSettings,
    memory: int,
    run: Workers,
    progress: Progress,
) -> list[Path]:
    """Sign the documents of all sources into `folder`."""
    signed = []
    for number, source in enumerate(sources):
        signed.append(folder / f"signed-{number}")
        sign_source(source, signed[-1], settings.signing, memory=memory, run=run)
        progress(0.2 * (number + 1) / len(sources), "signatures")
    return signed


def _files_of(signed: Sequence[Path], kind: str, files: Sequence[Shard]) -> list[Path]:
    """List the files with the keys or band hashes of these shards, in order.

    There are none of band hashes for `near=False`.
    """
    paths: list[Path] = []
    for folder in signed:
        paths += sorted((folder / kind).glob("*.parquet"))
    assert len(paths) in (0, len(files)), f"{len(paths)} files of {kind} for {len(files)} shards"
    return paths


def _plans(table: DocumentTable, output: Path) -> Iterator[tuple]:
    """Yield the arguments of `_write` for each shard; a file takes no memory while it waits."""
    for number, shard in enumerate(table.files):
        decided = table.folder / f"decided-{number}.parquet"
        pq.write_table(table.dropped(shard), decided)
        yield shard, number, decided, output, table.folder


def _write(shard: Shard, number: int, decided: Path, output: Path, folder: Path) -> dict[str, Any]:
    """Write the kept and the dropped documents of a shard, and return the counts.

    `decided` lists what is dropped.
    """
    table = pq.read_table(decided)
    documents = table["doc"].to_numpy()
    because = table["because"].combine_chunks()
    reason_numbers = table["reason"].combine_chunks()
    reasons = pa.DictionaryArray.from_arrays(reason_numbers, pa.array(REASONS)).cast(pa.string())

    def write(writer: DocumentWriter) -> None:
        for first, batch in numbered_batches(shard):
            start, stop = np.searchsorted(documents, (first, first + len(batch)))
            is_dropped = np.zeros(len(batch), bool)
            is_dropped[documents[start:stop] - first] = True
            dropped = batch.filter(pa.array(is_dropped))
            writer.keep(batch.filter(pa.array(~is_dropped)))
            writer.drop(dropped, reasons[start:stop], because[start:stop])

    return write_document_shard(output, folder, number, write)
