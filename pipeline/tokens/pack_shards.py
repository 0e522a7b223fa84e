"""Tokenise documents: encode, hold some out, shuffle the others out of core, pack them into rows.

The shuffle sorts documents by a random number each. Chunks of the corpus are encoded and written
sorted; each shard then gathers its range of random numbers from all chunks. Every byte follows from
the documents' order, the seed and the size of shards, whatever the number of processes. A process
needs the memory of one chunk or shard. Finished chunks and shards survive an interruption.

Example: documents a, b, c with the numbers 7, 2, 5 become the chunk b, c, a; of two shards, the
first takes the numbers below half the range.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.documents import (
    KEPT,
    SCHEMA,
    Shard,
    count_documents,
    find_shards,
    open_shard,
    read_shard,
    sum_counts,
)
from dreamer_study.pipeline.storage.parallel import Progress, quiet, workers
from dreamer_study.pipeline.storage.resumable import (
    UNFINISHED,
    results_once,
    resumable_parts,
    save_array,
)
from dreamer_study.pipeline.tokens.packing import shard_files, write_token_shard
from dreamer_study.pipeline.tokens.random_numbers import LEFT_OUT, copies_of, random_numbers, repeat
from dreamer_study.pipeline.tokens.tokenizer import (
    MARK,
    encode_documents,
    read_meta,
    read_tokenizer,
)
from dreamer_study.pipeline.tokens.validation import (
    TUNING,
    VALIDATION,
    bound_of,
    hash_bounds,
    hold_out,
    take_held_out,
    write_held_out,
)

CHUNK_BYTES = 2**27
SHARD_BYTES = 2**27
CHUNK_FILES = ("tokens.npy", "records.npy", "bounds.npy", "held_out.parquet")
RECORD = np.dtype([("key", "<u8"), ("prompt", "<u4"), ("length", "<u4")])

_tokenizer = cache(read_tokenizer)  # once in each process


@dataclass(frozen=True)
class _Chunk:
    """Neighbouring row groups of one Parquet file.

    `first` is the number of its first document in the corpus.
    """

    number: int
    path: str
    row_groups: tuple[int, ...]
    first: int


@dataclass(frozen=True)
class _Job:
    """The parameters of a packing that every worker needs."""

    tokenizer: str
    output: str
    sequence_length: int
    seed: int
    chunks: int
    shards: int
    hash_bounds: tuple[int, ...]  # of each split that is held out
    dtype: str
    end_token: int
    weights: tuple[tuple[str, float], ...]  # of the sources that have another weight than 1

    def part(self, kind: str, number: int, what: str) -> Path:
        """Return the path of a part of a chunk or a shard."""
        return Path(self.output) / UNFINISHED / f"{kind}-{number:05d}.{what}"

    def chunk_files(self, number: int) -> list[Path]:
        """Return the paths of a chunk's tokens, records, bounds of shards, held-out documents."""
        return [self.part("chunk", number, what) for what in CHUNK_FILES]


def pack(
    source: Path,
    tokenizer: Path,
    output: Path,
    *,
    sequence_length: int,
    seed: int,
    validation: int = 0,
    tuning: int = 0,
    weights: Mapping[str, float] | None = None,
    held_out_like: Path | None = None,
    processes: int = 1,
    cluster: str | None = None,
    shard_bytes: int = SHARD_BYTES,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Run the stage: encode, shuffle and pack all documents.

    `pipeline/tokens/packing.py` describes the files. About `validation` documents are held out, and
    `tuning` others, or one in fifty where the corpus is small: chosen by question, so that many
    documents of one question may make more (`pipeline/tokens/validation.py`). At most about
    `shard_bytes` of text make a shard; a process needs about four times that in memory. `cluster`
    as in `pipeline/storage/parallel.py`. `held_out_like` is the folder of another packing, whose
    validation split is this one's too: no document of one of its questions is packed.

    Returns {"tokens", "documents", "rows", "padding", "validation" and, where wanted, "tuning": the
    items written, and "counts": by source and reason, with tokens}. Tokens include end marks, not
    padding; "padding" is the padded share of all positions.

    A document of a source with one of the `weights` is packed that often on average: as often as
    the whole part of the weight says, and once more with the probability of the rest. "counts"
    count each packed document once, and as `LEFT_OUT` those that a weight below 1 leaves out;
    "tokens" and "documents" count all that is packed.

    Raises InputError when there are no documents, no tokenizer, or rows of less than 2 tokens, and
    when all documents share one question that is held out; for a shard that cannot be read and for
    a full disk.
    """
    if sequence_length < 2:
        raise InputError(f"sequence_length={sequence_length}: a row needs at least 2 tokens")
    source = Path(source)
    output = Path(output)
    tokenizer = Path(tokenizer)
    meta = read_meta(tokenizer)
    # A damaged tokenizer fails here, in one line, before any worker starts.
    mark = read_tokenizer(tokenizer).encode(MARK, add_special_tokens=False).ids
    files = find_shards([source])
    text_bytes = sum(_bytes_of_text(shard.path) for shard in files)
    # A corpus of the heaviest source alone would be packed so often, and take as much memory.
    most = max([1.0, *(weights or {}).values()])
    chunk_bytes = max(2**22, min(CHUNK_BYTES, text_bytes // 64))
    chunks = _divide(files, int(chunk_bytes / most))
    if not chunks:
        raise InputError(f"nothing to pack in {source}: it holds no documents")
    first_bound = bound_of(held_out_like) if held_out_like else 0
    job = _Job(
        tokenizer=str(tokenizer),
        output=str(output),
        sequence_length=sequence_length,
        seed=seed,
        chunks=len(chunks),
        shards=max(1, -(-int(text_bytes * most) // shard_bytes)),
        hash_bounds=hash_bounds(files[-1].stop, [validation, tuning], first=first_bound),
        dtype="uint16" if meta["vocabulary_size"] <= 2**16 else "uint32",
        end_token=meta["end_token"],
        weights=tuple(sorted((weights or {}).items())),
    )
    counted = []
    packed = []
    tokens = documents = 0
    made_from = [asdict(job), [asdict(chunk) for chunk in chunks]]
    with resumable_parts(output, made_from, files, kinds=()), workers(processes, cluster) as run:
        encoding = [
            (
                job.part("chunk", chunk.number, "json"),
                partial(_encode_chunk, job, chunk),
                *job.chunk_files(chunk.number),
            )
            for chunk in chunks
        ]
        for done, encoded in enumerate(run(results_once, encoding), 1):
            counted.append(encoded["counts"])
            tokens += encoded["tokens"]
            documents += encoded["documents"]
            progress(0.9 * done / len(chunks), "tokenising")
        counts = sum_counts(counted)
        if not any(row["reason"] == KEPT for row in counts):
            raise InputError(
                f"{source}: nothing is left to pack, as all documents share a question that is held"
                " out or have a low weight; set data.validation and data.tuning to 0, or raise the"
                " weights of the sources"
            )
        packing = [
            (
                job.part("shard", number, "json"),
                partial(_pack_shard, job, number),
                *shard_files(output, number),
            )
            for number in range(job.shards)
        ]
        for shard in run(results_once, packing):
            packed.append(shard)
            progress(0.9 + 0.1 * len(packed) / job.shards, "packing")
        held_out = [job.chunk_files(chunk.number)[-1] for chunk in chunks]
        wanted = {VALIDATION: validation}
        if tuning:
            wanted[TUNING] = tuning
        items = dict.fromkeys(wanted, 0)
        if job.hash_bounds[-1]:
            items = write_held_out(held_out, output, wanted)
        if held_out_like:
            items[VALIDATION] = take_held_out(held_out_like, output)
        described = {
            "dtype": job.dtype,
            "sequence_length": sequence_length,
            "shards": packed,
            "tokens": tokens,
            "documents": sum(shard["documents"] for shard in packed),
            "end_token": job.end_token,
            "vocabulary_size": meta["vocabulary_size"],
            "mark": mark[0] if len(mark) == 1 else None,
        }
        (output / "packed.json").write_text(json.dumps(described, indent=1))
    rows = sum(shard["rows"] for shard in packed)
    return {
        "tokens": tokens,
        "documents": documents,
        "rows": rows,
        "padding": 1 - tokens / (rows * sequence_length),
        **items,
        "counts": counts,
    }


def _bytes_of_text(path: Path) -> int:
    """Sum the bytes of the questions and responses of a shard."""
    total = 0
    for batch in read_shard(path, columns=["question", "response"]):
        for column in batch.columns:
            total += pc.sum(pc.binary_length(column)).as_py() or 0
    return total


def _divide(files: Sequence[Shard], chunk_bytes: int) -> list[_Chunk]:
    """Divide the corpus into chunks of whole row groups.

    Each has about `chunk_bytes` before compression.
    """
    chunks: list[_Chunk] = []
    for shard in files:
        with open_shard(shard.path) as file:
            metadata = file.metadata
        first = shard.start
        groups: list[int] = []
        rows = size = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            groups.append(number)
            rows += group.num_rows
            size += group.total_byte_size
            if size >= chunk_bytes or number == metadata.num_row_groups - 1:
                if rows:
                    chunks.append(_Chunk(len(chunks), str(shard.path), tuple(groups), first))
                first += rows
                groups = []
                rows = size = 0
    return chunks


# --- the parts of the work, each a function of files ---


def _encode_chunk(job: _Job, chunk: _Chunk) -> dict[str, Any]:
    """Encode a chunk and write it sorted by random number, and apart what is held out.

    Returns "counts", rows as of `count_documents`, and the "tokens" and "documents" to pack.
    """
    tokens_file, records_file, bounds_file, held_out_file = job.chunk_files(chunk.number)
    codec = _tokenizer(job.tokenizer)
    tokens = []
    lengths_of_batches = []
    copies = []
    held_out = []
    counts = []
    first = chunk.first
    for batch in read_shard(Path(chunk.path), columns=SCHEMA.names, row_groups=chunk.row_groups):
        encoded, lengths = encode_documents(codec, batch)  # lengths of prompt and response
        ends = np.cumsum(lengths.sum(axis=1))
        lengths[:, 1] += 1  # the end mark
        tokens.append(np.insert(encoded.astype(job.dtype), ends, job.end_token))
        lengths_of_batches.append(lengths)
        splits, documents = hold_out(batch, job.hash_bounds)
        trains = splits == ""
        times = np.where(trains, copies_of(batch["source"], job.weights, job.seed, first), 0)
        first += len(batch)
        copies.append(times)
        held_out.append(documents)
        packed_or_not = np.where(times > 0, KEPT, LEFT_OUT)
        reasons = pa.array(np.where(trains, packed_or_not, splits))
        counts.append(count_documents(batch, reasons, lengths.sum(axis=1)))
    pq.write_table(pa.concat_tables(held_out), held_out_file)
    lengths = np.concatenate(lengths_of_batches)
    records = np.empty(len(lengths), RECORD)
    records["prompt"] = lengths[:, 0]
    records["length"] = lengths.sum(axis=1)
    records["key"] = random_numbers(job.seed, chunk.first, len(records))
    starts = np.cumsum(records["length"], dtype=np.int64) - records["length"]
    records, starts = repeat(records, starts, np.concatenate(copies))
    order = np.argsort(records["key"], kind="stable")
    records = records[order]
    starts = starts[order]
    corpus = np.concatenate(tokens)
    spans = zip(starts.tolist(), records["length"].tolist(), strict=True)
    shuffled = [corpus[start : start + length] for start, length in spans]
    save_array(tokens_file, np.concatenate([corpus[:0], *shuffled]))
    save_array(records_file, records)
    save_array(bounds_file, _places(records, job.shards))
    return {
        "counts": sum_counts(counts),
        "tokens": int(records["length"].sum(dtype=np.int64)),
        "documents": len(records),
    }


def _pack_shard(job: _Job, number: int) -> dict[str, int]:
    """Gather one shard's documents from all chunks, and pack them.

    They are packed in the order of their random numbers.
    """
    token_files, record_files, bound_files, _ = zip(
        *map(job.chunk_files, range(job.chunks)), strict=True
    )
    # int64 [chunks, 2, 2]: start and stop of the shard, by documents and by tokens
    spans = np.stack([np.load(path)[number : number + 2] for path in bound_files])
    records = _gather(record_files, spans[:, :, 0])
    tokens = _gather(token_files, spans[:, :, 1])
    starts = np.cumsum(records["length"], dtype=np.int64) - records["length"]
    order = np.argsort(records["key"], kind="stable")
    return write_token_shard(
        Path(job.output),
        number,
        tokens,
        starts[order].astype(np.int64),
        records["prompt"][order].astype(np.int64),
        records["length"][order].astype(np.int64),
        row=job.sequence_length,
        end_token=job.end_token,
    )


def _gather(files: Sequence[Path], spans: np.ndarray) -> np.ndarray:
    """Join a span of each file's array."""
    parts = []
    for file, (start, stop) in zip(files, spans, strict=True):
        # The copy lets the file close: a corpus has thousands of chunks.
        parts.append(np.load(file, mmap_mode="r")[start:stop].copy())
    return np.concatenate(parts)


def _places(records: np.ndarray, shards: int) -> np.ndarray:
    """Find where each shard begins in a sorted chunk, int64 [shards + 1, 2].

    That is how many documents and tokens are before it.
    """
    bounds = np.array([(number << 64) // shards for number in range(1, shards)], np.uint64)
    documents = np.concatenate([[0], np.searchsorted(records["key"], bounds), [len(records)]])
    tokens_before = np.concatenate([[0], np.cumsum(records["length"], dtype=np.int64)])
    return np.stack([documents, tokens_before[documents]], axis=1)
