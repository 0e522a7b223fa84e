"""Hold documents out of training, by question, to measure the loss on them at every checkpoint.

Held out is every document whose question has a hash below a bound. The hash is of the normalised question, so that no
question is on both sides: many sources hold several solutions to one question. Of a document without a question, it is
the hash of its response. The choice depends on the documents alone: not on the seed, their order, or how many processes
there are.

Files in the folder of the packed tokens: `dropped/` with every held-out document; of those of the lowest hashes, two
files of plain items for `model.evaluation.tasks`. In `validation.responses.items.jsonl` the target is the response
after the prompt, in `validation.all.items.jsonl` the whole training text: what is scored is what is learned.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.storage.documents import DROPPED, SCHEMA
from pipeline.text.ngrams import sequence_ids
from pipeline.text.words import text_column, word_blocks
from pipeline.tokens.random_numbers import scattered
from pipeline.tokens.tokenizer import training_parts

VALIDATION = "validation"  # the task and the benchmark in the results, and the reason in the counts
LEAST_PACKED = 50  # documents for each one that is expected to be held out
HELD_OUT = SCHEMA.append(pa.field("hash", pa.uint64()))


def hash_bound(documents: int, wanted: int) -> int:
    """Compute the hash below which about `wanted` of so many documents are expected, or 2 % where that is less.

    All documents of one question have one hash: where few questions have many documents, more or fewer are held out.
    """
    return (min(wanted, documents // LEAST_PACKED) << 64) // max(documents, 1)


def hold_out(documents: pa.RecordBatch, bound: int) -> tuple[np.ndarray, pa.Table]:
    """Choose the documents whose hash is below `bound`: bool [D], and a table of these documents with their hashes."""
    hashes = question_hashes(documents) if bound else np.zeros(len(documents), np.uint64)
    chosen = hashes < np.uint64(bound)
    table = pa.Table.from_batches([documents]).filter(pa.array(chosen))
    return chosen, table.append_column("hash", pa.array(hashes[chosen])).cast(HELD_OUT)


def question_hashes(documents: pa.RecordBatch) -> np.ndarray:
    """Hash each document's normalised question, or its response where the question has no words: uint64 [D]."""
    ids = _text_ids(documents["question"])
    unasked = np.flatnonzero(ids == 0)
    if len(unasked):
        ids[unasked] = _text_ids(documents["response"].take(pa.array(unasked)))
    return scattered(ids)


def _text_ids(texts: pa.Array) -> np.ndarray:
    """Compute an id uint64 [D] of the words of each text; 0 where there are none."""
    blocks = (words for _, words in word_blocks(text_column(texts)))
    ids = [sequence_ids(words.ids, words.offsets[:-1], words.offsets[1:]) for words in blocks]
    return np.concatenate(ids)


def write_validation(parts: Iterable[Path], output: Path, most: int) -> int:
    """Write the held-out documents of `parts`, tables of `hold_out`, in the order of the corpus.

    All go to `dropped/`, up to `most` with a response to the files of items. Returns the number of items.
    """
    (output / "dropped").mkdir(exist_ok=True)
    chosen: list[dict[str, Any]] = []
    with pq.ParquetWriter(output / "dropped" / "00000.parquet", DROPPED, compression="zstd") as writer:
        for part in parts:
            held_out = pq.read_table(part)
            reasons = pa.array([VALIDATION] * len(held_out), pa.string())
            because = pa.nulls(len(held_out), pa.string())
            dropped = held_out.select(SCHEMA.names).append_column("reason", reasons).append_column("because", because)
            writer.write_table(dropped.cast(DROPPED))
            answered = (row for row in held_out.to_pylist() if row["response"])
            chosen = heapq.nsmallest(most, chain(chosen, answered), key=itemgetter("hash"))  # stable: corpus order
    for loss_on in ("all", "responses"):
        with items_file(output, loss_on).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(_item(row, loss_on)) + "\n" for row in chosen)
    return len(chosen)


def items_file(packed: Path, loss_on: str) -> Path:
    """Return the path of the items for a training with its loss on "all" or on "responses"."""
    return packed / f"{VALIDATION}.{loss_on}.items.jsonl"


def _item(document: dict[str, Any], loss_on: str) -> dict[str, str]:
    """Make the plain item of a document; evaluation puts a space between prompt and target, as training does."""
    prompt, response = training_parts(document["question"], document["response"])
    if loss_on == "all" or not prompt:
        return {"id": document["id"], "prompt": "", "target": prompt + response}
    return {"id": document["id"], "prompt": prompt, "target": document["response"]}


def validation_specification(packed: Path, loss_on: str) -> dict[str, Any]:
    """Describe the task for evaluation; always asked from plain items, with or without lm-eval."""
    return {
        "benchmark": VALIDATION,
        "task": VALIDATION,
        "metric": "bits_per_byte",
        "filter": "none",
        "chance": None,
        "plain": str(items_file(packed, loss_on).resolve()),
    }
