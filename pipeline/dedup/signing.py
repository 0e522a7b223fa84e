"""Sign the documents of one source: what deduplication compares, and what does not depend on the
other sources.

Every document gets keys (of its text, its digits, its question). Only a document that shares all
its digits with another one can be a near duplicate, so only such documents get band hashes. Which
ones do within their source is known here; deduplication signs those that share their digits with
documents of other sources only.

Files are named by the number of the document's shard in its source: `keys/00000.parquet`, a row for
each document, and `bands/00000.parquet`, with the column `place`, the number of a document in its
shard.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dreamer_study.pipeline.dedup.contradictions import digit_sequences
from dreamer_study.pipeline.dedup.exact import SHORT, exact_keys
from dreamer_study.pipeline.dedup.minhash import band_hashes, signatures
from dreamer_study.pipeline.dedup.settings import Signing
from dreamer_study.pipeline.storage.documents import (
    Shard,
    batches_of,
    find_shards,
    numbered_batches,
)
from dreamer_study.pipeline.storage.parallel import Progress, Workers, quiet, serial
from dreamer_study.pipeline.storage.resumable import make_once, save_arrays, within_means
from dreamer_study.pipeline.text.words import Words, text_column, word_blocks

_KEYS = pa.schema(
    {
        **{"id": pa.string(), "quality": pa.int64()},
        **{"key0": pa.uint64(), "key1": pa.uint64(), "digits": pa.uint64()},
        **{"asked": pa.bool_(), "question0": pa.uint64(), "question1": pa.uint64()},
    }
)
LEAST_MEMORY = 64_000_000  # bytes that DuckDB gets in any case
_BLOCKS_AT_ONCE = 256  # signed blocks written as one row group, about ten thousand documents
_LABELS = (  # what only labels a problem: its number in a book, and the contest that it is from
    r"^\s*(?:(?:Problem|Exercise|Question|Example)\s+#?\d+(?:\.\d+)*[.:)]?|\d{1,3}(?:\.\d+)*[.)])\s+",
    (
        r"\((?:(?:19|20)\d\d,?\s+[A-Z][A-Za-z]|"
        r"[A-Z][A-Za-z]+[\w .,'-]{0,40}\b(?:19|20)\d\d\b)[^()\n]{0,80}\)"
    ),
)
_SHARED = """create table shared as
    select digits from read_parquet($files) group by digits having min(key0) <> max(key0)"""
_SHARING = """select file_row_number as place from read_parquet($file, file_row_number=true) semi join shared
    using (digits) order by place"""


def sign_source(
    source: Path,
    output: Path,
    signing: Signing,
    *,
    memory: int = 4 * 10**9,
    run: Workers = serial,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Run the stage: write `keys/` and `bands/` of the documents of `source` under `output`.

    `memory` is in bytes. Returns the number of "documents", and how many of them are "signed" with
    band hashes. Finished files survive an interruption. Raises InputError for a shard that cannot
    be read, for a full disk and for too little memory.
    """
    files, keys, signed = find_shards([source]), [], 0
    with within_means(output):
        for folder in ("keys", "bands", "plans"):
            (output / folder).mkdir(parents=True, exist_ok=True)
        for path in run(
            _write_keys,
            [(shard, _named(output, "keys", n), signing) for n, shard in enumerate(files)],
        ):
            keys.append(path)
            progress(0.5 * len(keys) / len(files), "keys")
        if signing.near and files:
            for number, path in enumerate(
                run(write_bands, _plans(files, keys, output, memory, signing)), 1
            ):
                signed += pq.read_metadata(path).num_rows
                progress(0.5 + 0.5 * number / len(files), "signatures")
        shutil.rmtree(output / "plans")
    return {"documents": files[-1].stop if files else 0, "signed": signed}


def _named(output: Path, folder: str, number: int) -> Path:
    return output / folder / f"{number:05d}.parquet"


def _plans(
    files: Sequence[Shard], keys: Sequence[Path], output: Path, memory: int, signing: Signing
) -> Iterator[tuple[Shard, Path, Path, Signing]]:
    """Plan the signing of each shard: its documents that share all digits with a document of other
    text."""
    limit, place = f"{max(memory // 2, LEAST_MEMORY)}B", str(output / "plans")
    with duckdb.connect(config={"memory_limit": limit, "temp_directory": place}) as connection:
        connection.execute(_SHARED, {"files": [str(file) for file in keys]})
        for number, (shard, path) in enumerate(zip(files, keys, strict=True)):
            places = np.asarray(
                connection.execute(_SHARING, {"file": str(path)}).fetchnumpy()["place"]
            )
            # a file takes no memory while it waits for a worker
            plan = output / "plans" / f"{number:05d}.npz"
            save_arrays(plan, documents=places + shard.start)
            yield shard, plan, _named(output, "bands", number), signing


def _write_keys(shard: Shard, path: Path, signing: Signing) -> Path:
    """Write id, rank and keys of every document of a shard."""

    def write(partial: Path) -> None:
        with pq.ParquetWriter(partial, _KEYS, compression="zstd") as writer:
            for _, batch in numbered_batches(shard, ["id", "question", "response", "answer"]):
                texts = text_column(batch["question"], batch["response"])
                keys, lengths = exact_keys(texts, literal=SHORT)
                nothing = np.zeros_like(keys)
                questions = (
                    exact_keys(text_column(batch["question"]))[0] if signing.questions else nothing
                )
                columns = {
                    "id": batch["id"],
                    "quality": lengths + (_not_blank(batch["answer"]).astype(np.int64) << 40),
                    "key0": keys[:, 0],
                    "key1": keys[:, 1],
                    "digits": (
                        digit_sequences(_unlabelled(batch, texts))
                        if signing.numbers
                        else nothing[:, 0]
                    ),
                    "asked": _not_blank(batch["question"]),
                    "question0": questions[:, 0],
                    "question1": questions[:, 1],
                }
                writer.write_batch(pa.RecordBatch.from_pydict(columns, _KEYS))

    return make_once(path, write)


def without_labels(questions: pa.Array) -> pa.Array:
    """Remove a number at the beginning and the contest in parentheses from each question.

    "12) Find 3 + 4. (2019 AMC 8 Problems, Question #18)" gives "Find 3 + 4. "; "Find 3 + 4 (in
    2019)." stays.
    """
    for label in _LABELS:
        questions = pc.replace_substring_regex(questions, pattern=label, replacement="")
    return questions


def _unlabelled(batch: pa.RecordBatch, texts: pa.Array) -> pa.Array:
    """Return the texts without the labels of problems: `texts` itself where there are none."""
    questions = without_labels(batch["question"])
    return (
        texts if questions.equals(batch["question"]) else text_column(questions, batch["response"])
    )


def _not_blank(texts: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.not_equal(pc.ascii_trim_whitespace(texts), ""), False), bool)


def write_bands(shard: Shard, plan: Path, path: Path, signing: Signing) -> Path:
    """Write place and band hashes, a column for each band, of the documents of a shard that `plan`
    lists.

    The hashes of a document without n-grams are null.
    """
    names = [str(band) for band in range(signing.bands)]
    schema = pa.schema([("place", pa.int64()), *((name, pa.uint64()) for name in names)])

    def write(partial: Path) -> None:
        blocks = _signed_blocks(shard, plan, signing)
        options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with pq.ParquetWriter(partial, schema, **options) as file:
            while group := list(islice(blocks, _BLOCKS_AT_ONCE)):
                places, hashes, empty = (
                    np.concatenate(parts, axis=-1) for parts in zip(*group, strict=True)
                )
                columns = [pa.array(places), *(pa.array(band, mask=empty) for band in hashes)]
                file.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))

    return make_once(path, write)


def _signed_blocks(
    shard: Shard, plan: Path, signing: Signing
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield places int64 [D], band hashes uint64 [bands, D] and which documents are too short for
    any, bool [D].

    With the guard for numbers, documents with different numbers never share a hash: on texts made
    from templates this keeps the buckets small.
    """
    for documents, _, words in words_of_documents(shard, plan):
        ids, offsets = words.ngrams(signing.words)
        hashes = band_hashes(
            signatures(ids, offsets, signing.permutations, signing.seed),
            signing.bands,
            signing.rows,
        )
        if signing.numbers:
            hashes ^= words.number_sequences()
        short = (np.diff(offsets) == 0) | (np.diff(words.text_offsets) < SHORT)
        yield documents - shard.start, hashes, short


def words_of_documents(
    shard: Shard, plan: Path, columns: Sequence[str] = ("question", "response")
) -> Iterator[tuple[np.ndarray, pa.RecordBatch, Words]]:
    """Yield the documents of a shard that `plan` lists in blocks: their numbers, their rows, their
    words.

    The words are those of question and response without the labels of the problem.
    """
    with np.load(plan) as listed:
        documents = listed["documents"]
    for place, batch in batches_of(shard, documents, columns) if len(documents) else ():
        for rows, words in word_blocks(
            text_column(without_labels(batch["question"]), batch["response"])
        ):
            block = slice(place.start + rows.start, place.start + rows.stop)
            yield documents[block], batch.slice(rows.start, rows.stop - rows.start), words
