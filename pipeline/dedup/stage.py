"""Deduplicate whole documents (question and response): exact duplicates, near duplicates, a cap per question.

1. describe: a key of each document's normal text, and what decides who survives (`exact`).
2. exact duplicates: DuckDB groups the keys; of equal documents the best one is kept (`document_table`).
3. candidates: n-grams -> MinHash signatures -> band hashes, shard by shard (`candidates`, `minhash`); only of documents
   that share all their digits with another one, as no others have equal numbers.
4. verify: exact Jaccard similarity of the candidates' n-grams, and the guards (`near`, `contradictions`).
   Numbers that only label a problem, in a book or a contest, are left out of all this (`labels`).
5. cluster: connected components; the best document of each is kept (`clusters`).
6. write: kept and dropped documents, shard by shard.

Of a group the document survives that comes first by source (order of `sources`), then by having an answer, then by the
longer text (white space not counted), then by id. The result depends neither on the number of processes nor on the
order of files. Documents of fewer words than an n-gram are compared as a whole only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.dedup.contradictions import digit_sequences
from pipeline.dedup.document_table import REASONS, DocumentTable
from pipeline.dedup.exact import exact_keys
from pipeline.dedup.labels import without_labels
from pipeline.dedup.near import find_near
from pipeline.dedup.settings import DedupSettings
from pipeline.progress import Progress, quiet
from pipeline.storage.documents import KEPT, DocumentWriter, count_documents, is_shard, sum_counts
from pipeline.storage.memory import memory_bytes
from pipeline.storage.numbered_shards import Shard, find_shards, numbered_batches
from pipeline.storage.parallel import workers
from pipeline.storage.resumable import make_once, resumable_parts, write_document_shard
from pipeline.text.words import text_column

_DESCRIPTION = pa.schema(
    {
        **{"doc": pa.int64(), "id": pa.string(), "priority": pa.int32(), "quality": pa.int64()},
        **{"key0": pa.uint64(), "key1": pa.uint64(), "digits": pa.uint64()},
        **{"asked": pa.bool_(), "question0": pa.uint64(), "question1": pa.uint64()},
    }
)


def deduplicate(
    sources: Sequence[Path],
    output: Path,
    settings: DedupSettings,
    *,
    memory: str = "4GB",
    processes: int = 1,
    cluster: str | None = None,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Remove duplicates among the documents of all `sources`, whose order is their priority.

    Writes `documents/`, `dropped/` (because: the id of the document kept instead) and, for audit,
    `near_duplicates.parquet` (id, because, similarity) under `output`. Finished parts lie in `unfinished/` of `output`
    until the end, about 200 bytes per document and 16 per word of a candidate; a killed stage goes on from them.
    `cluster` as in `pipeline.storage.parallel.workers`.

    Returns "counts", "candidates" (pairs compared), "verified" (near duplicates found), "refused" (pairs alike but for
    a guard, by guard), "drifted" (near duplicates below the threshold to the document kept, joined through others),
    "clusters" (number by size) and "signature" (parameters of MinHash).
    Raises InputError for a shard that cannot be read, for a memory size that makes no sense and for a full disk.
    """
    output = Path(output)
    files = find_shards(sources)
    limit = memory_bytes(memory)
    with (
        resumable_parts(output, asdict(settings), files) as folder,
        workers(processes, cluster) as run,
        closing(DocumentTable(files, folder, limit)) as table,
    ):
        found: dict[str, Any] = {}
        if files:
            described = []
            tasks = ((shard, folder / f"rows-{number}.parquet", settings) for number, shard in enumerate(files))
            for path in run(_describe, tasks):
                described.append(path)
                progress(0.2 * len(described) / len(files), "exact duplicates")
            table.rank(described)
            if settings.near:
                found = find_near(table, output, settings, run, progress)
            if settings.responses_per_question is not None:
                table.drop_too_many(settings.responses_per_question)
            table.decide()
        counts = []
        for written in run(_write, _plans(table, output)):
            counts.append(written["counts"])
            progress(0.8 + 0.2 * len(counts) / len(files), "writing")
        return {"counts": sum_counts(counts), **found}


def _describe(shard: Shard, path: Path, settings: DedupSettings) -> Path:
    """Write id, rank and keys of every document of a shard."""
    capped = settings.responses_per_question is not None
    guarded = "numbers" in settings.guards and settings.engine == "vectorised"

    def write(partial: Path) -> None:
        with pq.ParquetWriter(partial, _DESCRIPTION, compression="zstd") as writer:
            for first, batch in numbered_batches(shard, ["id", "question", "response", "answer"]):
                texts = text_column(batch["question"], batch["response"])
                keys, lengths = exact_keys(texts)
                nothing = np.zeros_like(keys)
                questions = exact_keys(text_column(batch["question"]))[0] if capped else nothing
                columns = {
                    "doc": np.arange(first, first + len(batch)),
                    "id": batch["id"],
                    "priority": np.full(len(batch), shard.source, np.int32),
                    "quality": lengths + (_not_blank(batch["answer"]).astype(np.int64) << 40),
                    "key0": keys[:, 0],
                    "key1": keys[:, 1],
                    "digits": digit_sequences(_unlabelled(batch, texts)) if guarded else nothing[:, 0],
                    "asked": _not_blank(batch["question"]),
                    "question0": questions[:, 0],
                    "question1": questions[:, 1],
                }
                writer.write_batch(pa.RecordBatch.from_pydict(columns, _DESCRIPTION))

    return make_once(path, write)


def _unlabelled(batch: pa.RecordBatch, texts: pa.Array) -> pa.Array:
    """Return the texts without the labels of problems: `texts` itself where there are none."""
    questions = without_labels(batch["question"])
    return texts if questions.equals(batch["question"]) else text_column(questions, batch["response"])


def _not_blank(texts: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.not_equal(pc.ascii_trim_whitespace(texts), ""), False), bool)


def _plans(table: DocumentTable, output: Path) -> Iterator[tuple]:
    for number, shard in enumerate(table.files):
        decided = table.folder / f"decided-{number}.parquet"
        pq.write_table(table.dropped(shard), decided)
        yield shard, number, decided, output, table.folder


def _write(shard: Shard, number: int, decided: Path, output: Path, folder: Path) -> dict[str, Any]:
    """Write the kept and the dropped documents of a shard; `decided` lists what is dropped. Returns the counts.

    A shard of which nothing is dropped is passed on as it is.
    """
    table = pq.read_table(decided)
    docs, because = table["doc"].to_numpy(), table["because"].combine_chunks()
    reasons = pa.DictionaryArray.from_arrays(table["reason"].combine_chunks(), pa.array(REASONS)).cast(pa.string())

    def write(writer: DocumentWriter) -> None:
        if not len(docs) and is_shard(shard.path):
            batches = numbered_batches(shard, ["source", "question", "response"])
            writer.pass_on(shard.path, sum_counts(count_documents(batch, KEPT) for _, batch in batches))
            return
        for first, batch in numbered_batches(shard):
            start, stop = np.searchsorted(docs, (first, first + len(batch)))
            gone = np.zeros(len(batch), bool)
            gone[docs[start:stop] - first] = True
            writer.keep(batch.filter(pa.array(~gone)))
            writer.drop(batch.filter(pa.array(gone)), reasons[start:stop], because[start:stop])

    return write_document_shard(output, folder, number, write)
