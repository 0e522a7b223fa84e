"""Documents as packed tokens: encode all of a corpus, shuffle it, pack it into rows.

The shuffle sorts documents by a random number each, out of core: documents are encoded in pieces, every piece is laid
down sorted, and every shard gathers its range of random numbers from all pieces. So the documents' order, the seed and
the size of shards decide every byte, the number of processes none, and each process needs the memory of one piece or
shard however large the corpus is. Finished pieces and shards are not made again after an interruption.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.progress import Progress, quiet
from pipeline.storage.documents import KEPT, shards
from pipeline.storage.files import write_text_atomically
from pipeline.storage.parallel import workers
from pipeline.tokens.packing import Documents, copy_spans, write_shard
from pipeline.tokens.tokenizer import read_meta, read_tokenizer, take_tokenizer, train_tokenizer, training_parts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["pack", "take_tokenizer", "train_tokenizer"]

BATCH = 1024  # documents encoded at a time: larger batches only take memory
PIECE_BYTES = 2**27
SHARD_BYTES = 2**27
RECORD = np.dtype([("key", "<u8"), ("prompt", "<u4"), ("length", "<u4")])


@dataclass(frozen=True)
class _Job:
    """What every worker needs to know: how to encode, where to write, and how many parts there are."""

    tokenizer: str
    output: str
    sequence_length: int
    seed: int
    pieces: int
    shards: int
    dtype: str
    end_token: int

    @property
    def scratch(self) -> Path:
        return Path(self.output) / "scratch"

    @property
    def bounds(self) -> list[int]:
        """The random numbers at which the shards begin, and 2**64."""
        return [(number << 64) // self.shards for number in range(self.shards + 1)]


@dataclass(frozen=True)
class _Piece:
    """Neighbouring row groups of one Parquet file; `first` is the number of its first document in the corpus."""

    number: int
    path: str
    row_groups: tuple[int, ...]
    first: int


def pack(
    source: Path,
    tokenizer: Path,
    output: Path,
    *,
    sequence_length: int,
    seed: int,
    processes: int = 1,
    cluster: str | None = None,
    shard_bytes: int = SHARD_BYTES,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Encode, shuffle and pack all documents; `pipeline.tokens.packing` describes the files.

    Returns {"tokens", "documents", "rows", "padding", "counts": by source with tokens}. Tokens are real ones, end marks
    included and padding not. About `shard_bytes` of text make a shard; a process takes some four times that in memory.
    `cluster` names other machines to work on (`pipeline.storage.workers`).
    Raises InputError when there are no documents, no tokenizer, or rows of less than 2 tokens.
    """
    if sequence_length < 2:
        raise InputError(f"sequence_length={sequence_length}: a row needs at least 2 tokens")
    source, output, tokenizer = Path(source), Path(output), Path(tokenizer)
    meta = read_meta(tokenizer)
    read_tokenizer(tokenizer)  # a damaged one fails here in one line, and not in every worker
    text_bytes = sum(_bytes_of_text(path) for path in shards(source))
    pieces = _pieces(source, max(2**22, min(PIECE_BYTES, text_bytes // 64)))
    if not pieces:
        raise InputError(f"nothing to pack in {source}: it holds no documents")
    job = _Job(
        tokenizer=str(tokenizer),
        output=str(output),
        sequence_length=sequence_length,
        seed=seed,
        pieces=len(pieces),
        shards=max(1, -(-text_bytes // shard_bytes)),
        dtype="uint16" if meta["vocabulary_size"] <= 2**16 else "uint32",
        end_token=meta["end_token"],
    )
    _clear_unless_same(job, pieces)
    counted, packed = [], []
    with workers(processes, cluster) as run:
        for done, counts in enumerate(run(_encode_piece, [(job, piece) for piece in pieces]), 1):
            counted += counts
            progress(0.9 * done / len(pieces), "tokenising")
        for shard in run(_pack_shard, [(job, number) for number in range(job.shards)]):
            packed.append(shard)
            progress(0.9 + 0.1 * len(packed) / job.shards, "packing")
    counts = _total(counted)
    tokens, rows = sum(row["tokens"] for row in counts), sum(shard["rows"] for shard in packed)
    described = {
        "dtype": job.dtype,
        "sequence_length": sequence_length,
        "shards": packed,
        "tokens": tokens,
        "documents": sum(shard["documents"] for shard in packed),
        "end_token": job.end_token,
        "vocabulary_size": meta["vocabulary_size"],
    }
    (output / "packed.json").write_text(json.dumps(described, indent=1))
    shutil.rmtree(job.scratch)
    return {
        "tokens": tokens,
        "documents": sum(row["documents"] for row in counts),
        "rows": rows,
        "padding": 1 - tokens / (rows * sequence_length),
        "counts": counts,
    }


# --- the parts of the work, each a function of files ---


def _encode_piece(job: _Job, piece: _Piece) -> list[dict[str, Any]]:
    """Encode a piece and lay it down sorted by random number; return rows of counts by source."""
    done = job.scratch / f"piece-{piece.number:05d}.json"
    if done.exists():
        return json.loads(done.read_text())
    codec = _tokenizer(job.tokenizer)
    tokens, prompts, lengths, counts = [], [], [], []
    with pq.ParquetFile(piece.path) as file:
        for batch in file.iter_batches(BATCH, row_groups=piece.row_groups, columns=["source", "question", "response"]):
            found = _encode(codec, batch, job)
            tokens.append(found.tokens)
            prompts.append(found.prompt_lengths)
            lengths.append(found.lengths)
            counts += _counts(batch, found.lengths)
    records = np.empty(sum(map(len, lengths)), RECORD)
    records["prompt"], records["length"] = np.concatenate(prompts), np.concatenate(lengths)
    records["key"] = _random_numbers(job.seed, piece.first, len(records))
    starts = np.cumsum(records["length"], dtype=np.int64) - records["length"]
    order = np.argsort(records["key"], kind="stable")
    tokens, records, starts = np.concatenate(tokens), records[order], starts[order]
    stem = job.scratch / f"piece-{piece.number:05d}"
    np.save(f"{stem}.tokens.npy", _in_order(tokens, starts, records["length"]))
    np.save(f"{stem}.records.npy", records)
    np.save(f"{stem}.bounds.npy", _places(records, job.bounds))
    totals = _total(counts)
    write_text_atomically(done, json.dumps(totals))
    return totals


def _pack_shard(job: _Job, number: int) -> dict[str, int]:
    """Gather one shard's documents from all pieces, in the order of their random numbers, and pack them."""
    done = job.scratch / f"shard-{number:05d}.json"
    if done.exists():
        return json.loads(done.read_text())
    tokens, records = [], []
    for piece in range(job.pieces):
        stem = job.scratch / f"piece-{piece:05d}"
        (first, first_token), (last, last_token) = np.load(f"{stem}.bounds.npy")[number : number + 2]
        tokens.append(np.load(f"{stem}.tokens.npy", mmap_mode="r")[first_token:last_token])
        records.append(np.load(f"{stem}.records.npy", mmap_mode="r")[first:last])
    gathered, found = np.concatenate(tokens), np.concatenate(records)
    starts = np.cumsum(found["length"], dtype=np.int64) - found["length"]
    order = np.argsort(found["key"], kind="stable")
    documents = Documents(gathered, starts[order], found["prompt"][order], found["length"][order])
    shard = write_shard(Path(job.output), number, documents, job.sequence_length, job.end_token, np.dtype(job.dtype))
    write_text_atomically(done, json.dumps(shard))
    return shard


def _encode(codec: Tokenizer, batch: pa.RecordBatch, job: _Job) -> Documents:
    texts = map(training_parts, batch["question"].to_pylist(), batch["response"].to_pylist())
    prompts, responses = (
        [encoding.ids for encoding in codec.encode_batch_fast(column, add_special_tokens=False)]
        for column in zip(*texts, strict=True)
    )
    prompt_lengths = np.fromiter(map(len, prompts), np.int64, len(prompts))
    lengths = prompt_lengths + np.fromiter(map(len, responses), np.int64, len(responses)) + 1
    end = (job.end_token,)
    flat = chain.from_iterable(chain(*parts, end) for parts in zip(prompts, responses, strict=True))
    tokens = np.fromiter(flat, np.dtype(job.dtype), int(lengths.sum()))
    return Documents(tokens, np.cumsum(lengths) - lengths, prompt_lengths, lengths)


def _counts(batch: pa.RecordBatch, lengths: np.ndarray) -> list[dict[str, Any]]:
    characters = pc.add(*(pc.fill_null(pc.utf8_length(batch[name]), 0) for name in ("question", "response")))
    table = pa.table({"source": batch["source"], "characters": characters, "tokens": lengths})
    groups = table.group_by("source").aggregate([([], "count_all"), ("characters", "sum"), ("tokens", "sum")])
    return [
        {
            "source": group["source"],
            "reason": KEPT,
            "documents": group["count_all"],
            "characters": group["characters_sum"],
            "tokens": group["tokens_sum"],
        }
        for group in groups.to_pylist()
    ]


def _total(counts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row of counts for each source, sorted."""
    totals: dict[str, dict[str, Any]] = {}
    for row in counts:
        total = totals.setdefault(row["source"], {**row, "documents": 0, "characters": 0, "tokens": 0})
        for name in ("documents", "characters", "tokens"):
            total[name] += row[name]
    return [totals[source] for source in sorted(totals)]


def _random_numbers(seed: int, first: int, count: int) -> np.ndarray:
    """The 64-bit random numbers of documents `first` to `first + count`, whoever computes them (SplitMix64)."""
    with np.errstate(over="ignore"):
        state = np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)
        state = state * np.uint64(0x9E3779B97F4A7C15) + _mixed(np.array([seed % 2**64], np.uint64))
        return _mixed(state)


def _mixed(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _in_order(tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The spans of `tokens` laid end to end."""
    lengths = lengths.astype(np.int64)
    ordered = np.empty(int(lengths.sum()), tokens.dtype)
    copy_spans(tokens, starts, ordered, np.cumsum(lengths) - lengths, lengths)
    return ordered


def _places(records: np.ndarray, bounds: list[int]) -> np.ndarray:
    """Where each shard begins in a sorted piece: int64 [shards + 1, 2], number of documents and of tokens before it."""
    inner = np.searchsorted(records["key"], np.array(bounds[1:-1], np.uint64))
    documents = np.concatenate([[0], inner, [len(records)]])
    return np.stack([documents, np.concatenate([[0], np.cumsum(records["length"], dtype=np.int64)])[documents]], axis=1)


@cache
def _tokenizer(folder: str) -> Tokenizer:
    return read_tokenizer(folder)


def _bytes_of_text(path: Path) -> int:
    with pq.ParquetFile(path) as file:
        batches = file.iter_batches(columns=["question", "response"])
        return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for batch in batches for column in batch.columns)


def _pieces(source: Path, piece_bytes: int) -> list[_Piece]:
    """The corpus in pieces of whole row groups, each of about `piece_bytes` before compression."""
    pieces: list[_Piece] = []
    first = 0
    for path in shards(source):
        metadata = pq.read_metadata(path)
        groups, rows, size = [], 0, 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            groups.append(number)
            rows, size = rows + group.num_rows, size + group.total_byte_size
            if size >= piece_bytes or number == metadata.num_row_groups - 1:
                if rows:
                    pieces.append(_Piece(len(pieces), str(path), tuple(groups), first))
                first, groups, rows, size = first + rows, [], 0, 0
    return pieces


def _clear_unless_same(job: _Job, pieces: list[_Piece]) -> None:
    """Keep what an interrupted attempt left in the output if it was this very job; else start with nothing."""
    plan = json.dumps([asdict(job), [asdict(piece) for piece in pieces]])
    path = job.scratch / "plan.json"
    if path.exists() and path.read_text() == plan:
        return
    shutil.rmtree(job.scratch, ignore_errors=True)
    job.scratch.mkdir(parents=True)
    for old in [*Path(job.output).glob("tokens-*.bin"), *Path(job.output).glob("index-*.npy")]:
        old.unlink()
    path.write_text(plan)
