"""Sign the documents of one source: what deduplication compares.

A signature does not depend on other sources. Every document gets keys (of its text, its digits, its
question). Only a document that shares all its digits with another one can be a near duplicate, so
only such documents get band hashes. Which ones do within their source is known here; deduplication
signs those that share their digits with documents of other sources only.

Files are named by the number of the document's shard in its source: `keys/00000.parquet`, a row for
each document, and `bands/00000.parquet`, with the column `place`, the number of a document in its
shard.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

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
from dreamer_study.pipeline.text.frames import MAY_FRAME, without_frame
from dreamer_study.pipeline.text.instructions import USUAL, column_without_instructions
from dreamer_study.pipeline.text.number_words import read_numbers
from dreamer_study.pipeline.text.words import Words, text_column, word_blocks

_KEYS = pa.schema(
    {
        "id": pa.string(),
        "quality": pa.int64(),
        "key0": pa.uint64(),
        "key1": pa.uint64(),
        "digits": pa.uint64(),
        "asked": pa.bool_(),
        "question0": pa.uint64(),
        "question1": pa.uint64(),
    }
)
LEAST_MEMORY = 64_000_000  # bytes that DuckDB gets in any case
_BLOCKS_AT_ONCE = 256  # signed blocks written as one row group, about ten thousand documents
# What only labels a problem: marks of a page, its number in a book, the contest that it is from.
_LABELS = (
    r"</?(?:p|br|div|span|b|i|strong|em)\s*/?>",
    r"^[\s*#>]*(?:Problem|Exercise|Question|Task|Q)\s*:",
    (
        r"^\s*(?:(?:Problem|Exercise|Question|Example)\s+#?\d+(?:\.\d+)*[.:)]?"
        r"|\d{1,3}(?:\.\d+)*[.)])\s+"
    ),
    (
        r"\((?:(?:19|20)\d\d,?\s+[A-Z][A-Za-z]|"
        r"[A-Z][A-Za-z]+[\w .,'-]{0,40}\b(?:19|20)\d\d\b)[^()\n]{0,80}\)"
    ),
)
# Digits of documents with different texts, and the documents of one file that have such.
_SHARED = """
create table shared as
select digits from read_parquet($files) group by digits having min(key0) <> max(key0)
"""
_SHARING = """
select file_row_number as place from read_parquet($file, file_row_number=true)
semi join shared using (digits) order by place
"""


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
    files = find_shards([source])
    keys = []
    signed = 0
    with within_means(output):
        for folder in ("keys", "bands", "plans"):
            (output / folder).mkdir(parents=True, exist_ok=True)
        tasks = [
            (shard, _named(output, "keys", number), signing) for number, shard in enumerate(files)
        ]
        for path in run(_write_keys, tasks):
            keys.append(path)
            progress(0.5 * len(keys) / len(files), "keys")
        if signing.near and files:
            plans = _plans(files, keys, output, memory, signing)
            for number, path in enumerate(run(write_bands, plans), 1):
                signed += pq.read_metadata(path).num_rows
                progress(0.5 + 0.5 * number / len(files), "signatures")
        shutil.rmtree(output / "plans")
    return {"documents": files[-1].stop if files else 0, "signed": signed}


def _named(output: Path, folder: str, number: int) -> Path:
    return output / folder / f"{number:05d}.parquet"


def _plans(
    files: Sequence[Shard], keys: Sequence[Path], output: Path, memory: int, signing: Signing
) -> Iterator[tuple[Shard, Path, Path, Signing]]:
    """Plan the signing of each shard.

    Signed are its documents that share all digits with a document of other text.
    """
    config: dict[str, Any] = {
        "memory_limit": f"{max(memory // 2, LEAST_MEMORY)}B",
        "temp_directory": str(output / "plans"),
    }
    with duckdb.connect(config=config) as connection:
        connection.execute(_SHARED, {"files": [str(file) for file in keys]})
        for number, (shard, path) in enumerate(zip(files, keys, strict=True)):
            sharing = connection.execute(_SHARING, {"file": str(path)}).fetchnumpy()
            places = np.asarray(sharing["place"])
            # a file takes no memory while it waits for a worker
            plan = output / "plans" / f"{number:05d}.npz"
            save_arrays(plan, documents=places + shard.start)
            yield shard, plan, _named(output, "bands", number), signing


def _write_keys(shard: Shard, path: Path, signing: Signing) -> Path:
    """Write id, rank and keys of every document of a shard."""

    def write(partial: Path) -> None:
        with pq.ParquetWriter(partial, _KEYS, compression="zstd") as writer:
            for _, batch in numbered_batches(shard, ["id", "question", "response", "answer"]):
                writer.write_batch(_keys_of(batch, signing))

    return make_once(path, write)


def _keys_of(batch: pa.RecordBatch, signing: Signing) -> pa.RecordBatch:
    texts = text_column(batch["question"], batch["response"])
    keys, lengths = exact_keys(texts, literal=SHORT)
    questions = np.zeros_like(keys)
    if signing.questions:
        questions, _ = exact_keys(text_column(batch["question"]))
    digits = np.zeros(len(batch), np.uint64)
    if signing.numbers:
        digits = digit_sequences(_unlabelled(batch, texts))
    has_answer = _not_blank(batch["answer"]).astype(np.int64)
    columns = {
        "id": batch["id"],
        "quality": lengths + (has_answer << 40),  # an answer outweighs any length
        "key0": keys[:, 0],
        "key1": keys[:, 1],
        "digits": digits,
        "asked": _not_blank(batch["question"]),
        "question0": questions[:, 0],
        "question1": questions[:, 1],
    }
    return pa.RecordBatch.from_pydict(columns, _KEYS)


def without_labels(questions: pa.Array) -> pa.Array:
    """Remove from each question what only labels the problem, and the usual instructions behind it.

    "12) Find 3 + 4. (2019 AMC 8 Problems, Question #18)" gives "Find 3 + 4."; "Find 3 + 4 (in
    2019)." stays. "Question: Find 3 + 4. Think step by step." gives "Find 3 + 4."
    """
    for label in _LABELS:
        questions = pc.replace_substring_regex(questions, pattern=label, replacement="")
    questions = column_without_instructions(questions, USUAL)
    framed = pc.fill_null(pc.match_substring_regex(questions, MAY_FRAME), False)
    if not pc.any(framed).as_py():
        return questions
    plain = [without_frame(question) for question in pc.filter(questions, framed).to_pylist()]
    return pc.replace_with_mask(questions, framed, pa.array(plain, questions.type))


def _unlabelled(batch: pa.RecordBatch, texts: pa.Array) -> pa.Array:
    """Return the texts without the labels of problems: `texts` itself where there are none."""
    questions = without_labels(batch["question"])
    is_labelled = pc.fill_null(pc.not_equal(questions, batch["question"]), False)
    if not pc.any(is_labelled).as_py():
        return texts
    # Few questions have labels, and most of the time is spent on folding texts.
    plain = text_column(questions.filter(is_labelled), batch["response"].filter(is_labelled))
    return pc.replace_with_mask(texts, is_labelled, plain)


def _not_blank(texts: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.not_equal(pc.ascii_trim_whitespace(texts), ""), False), bool)


def write_bands(shard: Shard, plan: Path, path: Path, signing: Signing) -> Path:
    """Write place and band hashes of the documents of a shard that `plan` lists.

    There is a column for each band. The hashes of a document without n-grams are null.
    """
    names = [str(band) for band in range(signing.bands)]
    schema = pa.schema([("place", pa.int64()), *((name, pa.uint64()) for name in names)])

    def write(partial: Path) -> None:
        blocks = _signed_blocks(shard, plan, signing)
        options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
        with pq.ParquetWriter(partial, schema, **options) as file:
            while group := list(islice(blocks, _BLOCKS_AT_ONCE)):
                places = np.concatenate([block.places for block in group])
                hashes = np.concatenate([block.hashes for block in group], axis=-1)
                too_short = np.concatenate([block.too_short for block in group])
                columns = [pa.array(places), *(pa.array(band, mask=too_short) for band in hashes)]
                file.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))

    return make_once(path, write)


class _SignedBlock(NamedTuple):
    """The band hashes of D documents."""

    places: np.ndarray  # int64 [D], in the shard
    hashes: np.ndarray  # uint64 [bands, D]
    too_short: np.ndarray  # bool [D]: for any band hash


def _signed_blocks(shard: Shard, plan: Path, signing: Signing) -> Iterator[_SignedBlock]:
    """Yield the band hashes of the documents of a shard that `plan` lists.

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
            hashes ^= words.number_sequences(ones=False)
        too_short = (np.diff(offsets) == 0) | (np.diff(words.text_offsets) < SHORT)
        yield _SignedBlock(documents - shard.start, hashes, too_short)


def words_of_documents(
    shard: Shard, plan: Path, columns: Sequence[str] = ("question", "response")
) -> Iterator[tuple[np.ndarray, pa.RecordBatch, Words]]:
    """Yield the documents of a shard that `plan` lists in blocks: numbers, rows, words.

    The words are those of question and response without the labels of the problem.
    """
    with np.load(plan) as listed:
        documents = listed["documents"]
    if not len(documents):
        return  # the shard need not be read
    for place, batch in batches_of(shard, documents, columns):
        texts = text_column(without_labels(batch["question"]), batch["response"])
        for rows, split in word_blocks(texts):
            words = read_numbers(split)
            block = slice(place.start + rows.start, place.start + rows.stop)
            yield documents[block], batch.slice(rows.start, rows.stop - rows.start), words
