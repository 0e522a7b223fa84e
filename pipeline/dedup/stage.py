"""Deduplication of whole documents (question and response): exact first, then near, then a cap per question.

1. describe: a key of each document's normal form, and what decides who survives.
2. exact: DuckDB groups the keys; of equal documents the best one goes on.
3. sign: word n-grams -> MinHash signatures -> band hashes, shard by shard, in numpy; only of documents that share all
   their digits with another, as no others have the same numbers.
4. join: documents that share a band, one band at a time, and a part of it where memory is short.
5. verify: exact Jaccard similarity of the candidates' n-grams, and the guards of `guards.py`.
6. clusters: connected components; the best document of each goes on.
7. write: kept and dropped documents, shard by shard.

Of a group the document survives that comes first by source (order of `sources`), then by having an answer, then by the
longer text (white space not counted), then by id. The result depends neither on the number of processes nor on the
order of files. Documents of fewer words than an n-gram are compared as a whole only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.dedup.clusters import REASONS, Clusters, memory_bytes
from pipeline.dedup.exact import exact_keys
from pipeline.dedup.guards import GUARDS, digit_sequences
from pipeline.dedup.minhash import choose_bands
from pipeline.dedup.near import find_near
from pipeline.errors import InputError
from pipeline.progress import quiet
from pipeline.storage.documents import DocumentWriter, sum_counts
from pipeline.storage.numbered_shards import Shard, find_shards, numbered_batches
from pipeline.storage.parallel import Run, workers
from pipeline.storage.resumable import make_once, resumable_parts, write_document_shard
from pipeline.text.ngrams import text_column


@dataclass(frozen=True)
class DedupSettings:
    """What counts as a duplicate.

    `near=False` leaves it at exact duplicates. `words` is the length of the n-grams, `threshold` the Jaccard similarity
    from which on two documents are near duplicates. `permutations` and `seed` are datasketch's; `bands` of `rows`
    values are chosen for the threshold unless both are given (`minhash.choose_bands`). `guards` are those of
    `guards.py` to apply. `responses_per_question` keeps at most so many of the documents that ask the same (None: all).
    `engine="datasketch"` finds candidates with datasketch's own MinHash and MinHashLSH, for small inputs and to compare
    with.
    """

    near: bool = True
    words: int = 5
    threshold: float = 0.7
    permutations: int = 128
    seed: int = 1
    bands: int | None = None
    rows: int | None = None
    guards: tuple[str, ...] = GUARDS
    responses_per_question: int | None = None
    engine: Literal["vectorised", "datasketch"] = "vectorised"

    def __post_init__(self) -> None:
        object.__setattr__(self, "guards", tuple(self.guards))
        unknown = set(self.guards) - set(GUARDS)
        for wrong, rule in (
            (not 1 <= self.words <= 1000, f"words={self.words}: need 1 to 1000"),
            (not 0 < self.threshold <= 1, f"threshold={self.threshold}: need 0 < threshold <= 1"),
            (not 1 <= self.permutations <= 2**16, f"permutations={self.permutations}: need 1 to {2**16}"),
            (not 0 <= self.seed < 2**32, f"seed={self.seed}: need 0 to {2**32 - 1}"),
        ):
            if wrong:
                raise InputError(f"deduplicate: {rule}")
        bands, rows = self.banding
        for wrong, rule in (
            ((self.bands is None) != (self.rows is None), "give both bands and rows, or neither"),
            (bands < 1 or rows < 1, f"bands={bands}, rows={rows}: need at least 1 of each"),
            (bands * rows > self.permutations, f"bands={bands} x rows={rows} exceed permutations={self.permutations}"),
            (unknown, f"guards={list(self.guards)}: choose from {', '.join(GUARDS)}"),
            (
                self.responses_per_question is not None and self.responses_per_question < 1,
                f"responses_per_question={self.responses_per_question}: need at least 1, or none for no cap",
            ),
            (self.engine not in ("vectorised", "datasketch"), f"engine={self.engine!r}: vectorised or datasketch"),
        ):
            if wrong:
                raise InputError(f"deduplicate: {rule}")

    @property
    def banding(self) -> tuple[int, int]:
        """Bands and rows per band."""
        if self.bands is not None and self.rows is not None:
            return self.bands, self.rows
        return choose_bands(self.threshold, self.permutations)


def deduplicate(
    sources: Sequence[Path],
    output: Path,
    settings: DedupSettings,
    *,
    memory: str = "4GB",
    processes: int = 1,
    progress: Callable[[float, str], None] = quiet,
) -> dict[str, Any]:
    """Remove duplicates among the documents of all `sources`, whose order is their priority.

    Writes `documents/`, `dropped/` (because: the id of the document kept instead) and, for audit,
    `near_duplicates.parquet` (id, because, similarity) under `output`. Each shard is read and written as one. What is
    done lies in `unfinished/` of `output` until the end, about 200 bytes for each document and 16 for each word of a
    candidate, so that a stage that was killed goes on from its finished shards.

    Returns "counts", "candidates" (pairs compared), "verified" (pairs found alike), "refused" (pairs alike but for a
    guard, by guard), "drifted" (near duplicates less similar than the threshold to the one kept, joined to it through
    others), "clusters" (number by size) and "signature" (what the signatures were made with).
    Raises InputError for a shard that cannot be read, for a memory size that makes no sense and for a full disk.
    """
    output = Path(output)
    files = find_shards(sources)
    limit = memory_bytes(memory)
    with (
        resumable_parts(output, asdict(settings), files) as folder,
        workers(processes) as run,
        closing(Clusters(folder, limit)) as table,
    ):
        found: dict[str, Any] = {}
        if files:
            _find_exact(table, files, folder, settings, run, progress)
            if settings.near:
                found = find_near(table, files, folder, output, settings, run, progress)
            if settings.responses_per_question is not None:
                table.drop_too_many(settings.responses_per_question)
            table.decide()
        counts = []
        for done, some in enumerate(run(_write, _writing(table, files, output, folder))):
            counts.append(some["counts"])
            progress(0.8 + 0.2 * (done + 1) / len(files), "writing")
        return {"counts": sum_counts(counts), **found}


def _find_exact(
    table: Clusters, files: list[Shard], folder: Path, settings: DedupSettings, run: Run, progress: Callable
) -> None:
    described = []
    tasks = ((shard, folder / f"rows-{number}.parquet", settings) for number, shard in enumerate(files))
    for done, path in enumerate(run(_describe, tasks)):
        described.append(path)
        progress(0.2 * (done + 1) / len(files), "exact duplicates")
    table.rank(described)


def _describe(shard: Shard, path: Path, settings: DedupSettings) -> Path:
    """Write id, rank and keys of every document of a shard."""
    return make_once(path, lambda partial: _write_keys(shard, partial, settings))


def _write_keys(shard: Shard, path: Path, settings: DedupSettings) -> None:
    schema = pa.schema(
        {
            **{"doc": pa.int64(), "id": pa.string(), "priority": pa.int32(), "quality": pa.int64()},
            **{"key0": pa.uint64(), "key1": pa.uint64(), "digits": pa.uint64()},
            **{"asked": pa.bool_(), "question0": pa.uint64(), "question1": pa.uint64()},
        }
    )
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for first, batch in numbered_batches(shard, ["id", "question", "response", "answer"]):
            texts = text_column(batch["question"], batch["response"])
            keys, lengths = exact_keys(texts)
            nothing = np.zeros_like(keys)
            capped = settings.responses_per_question is not None
            questions = exact_keys(text_column(batch["question"]))[0] if capped else nothing
            guarded = "numbers" in settings.guards and settings.engine == "vectorised"
            answered = _not_blank(batch["answer"])
            columns = {
                "doc": np.arange(first, first + len(batch)),
                "id": batch["id"],
                "priority": np.full(len(batch), shard.source, np.int32),
                "quality": lengths + (answered.astype(np.int64) << 40),
                "key0": keys[:, 0],
                "key1": keys[:, 1],
                "digits": digit_sequences(texts) if guarded else nothing[:, 0],
                "asked": _not_blank(batch["question"]),
                "question0": questions[:, 0],
                "question1": questions[:, 1],
            }
            writer.write_batch(pa.RecordBatch.from_pydict(columns, schema))


def _not_blank(texts: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.not_equal(pc.ascii_trim_whitespace(texts), ""), False), bool)


def _writing(table: Clusters, files: list[Shard], output: Path, folder: Path) -> Iterator[tuple]:
    for number, shard in enumerate(files):
        decided = folder / f"decided-{number}.parquet"
        pq.write_table(table.dropped(shard.start, shard.stop), decided)
        yield shard, number, decided, output, folder


def _write(shard: Shard, number: int, decided: Path, output: Path, folder: Path) -> dict[str, Any]:
    """Write the kept and the dropped documents of a shard; `decided` holds which and why. Returns their counts."""
    table = pq.read_table(decided)
    docs, because = table["doc"].to_numpy(), table["because"].combine_chunks()
    reasons = pa.DictionaryArray.from_arrays(table["reason"].combine_chunks(), pa.array(REASONS)).cast(pa.string())

    def write(writer: DocumentWriter) -> None:
        for first, batch in numbered_batches(shard):
            start, end = np.searchsorted(docs, (first, first + len(batch)))
            gone = np.zeros(len(batch), bool)
            gone[docs[start:end] - first] = True
            writer.keep(batch.filter(pa.array(~gone)))
            writer.drop(batch.filter(pa.array(gone)), reasons[start:end], because[start:end])

    return write_document_shard(output, folder, number, write)
