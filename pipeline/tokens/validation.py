"""Hold documents out of training, by question.

The loss on the validation split is measured at every checkpoint. Settings are chosen on the tuning
split: a setting chosen on the split that is measured would flatter itself.

Held out is every document whose question has a hash below a bound; the validation split has the
lowest hashes. The hash is of the normalised question, so that no question is on two sides: many
sources hold several solutions to one question. Of a document without a question, it is the hash of
its response. The choice depends on the documents alone: not on the seed, their order, or how many
processes there are.

Files in the folder of the packed tokens: `dropped/` with every held-out document; of those of the
lowest hashes of each split, three files of plain items for `model/evaluation/held_out.py`. In
`validation.responses.items.jsonl` the target is the response after the prompt, in
`validation.answers.items.jsonl` the word before the last mark of an answer, in
`validation.all.items.jsonl` the training text after its first word: what is scored is what is
learned.
"""

from __future__ import annotations

import heapq
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.storage.documents import DROPPED, SCHEMA, read_shard, shards
from dreamer_study.pipeline.storage.integrity import read_manifest
from dreamer_study.pipeline.text.ngrams import sequence_ids
from dreamer_study.pipeline.text.words import text_column, word_blocks
from dreamer_study.pipeline.tokens.random_numbers import scattered
from dreamer_study.pipeline.tokens.tokenizer import MARK, read_tokenizer, training_parts

VALIDATION = "validation"  # the task and the benchmark in the results, and the reason in the counts
TUNING = "tuning"
SPLITS = (VALIDATION, TUNING)
LOSSES = ("all", "responses", "answers")  # what a training has its loss on
LEAST_PACKED = 50  # documents for each one that a split is expected to hold out
HELD_OUT = DROPPED.append(pa.field("hash", pa.uint64()))


def hash_bounds(documents: int, wanted: Sequence[int], *, first: int = 0) -> tuple[int, ...]:
    """Compute the bounds of the hashes of each split, which is to hold about `wanted` documents.

    A split has 2 % of the documents at most, and the hashes between the bound before it and its
    own. All documents of one question have one hash: where few questions have many documents, more
    or fewer are held out. Hashes below `first` are those of the validation split in any case.
    """
    shares = accumulate(min(most, documents // LEAST_PACKED) for most in wanted)
    return tuple(first + (share << 64) // max(documents, 1) for share in shares)


def hold_out(documents: pa.RecordBatch, bounds: Sequence[int]) -> tuple[np.ndarray, pa.Table]:
    """Find the split of each document, "" for one that trains; tabulate those that are held out."""
    hashes = np.zeros(len(documents), np.uint64)
    if bounds[-1]:
        hashes = question_hashes(documents)
    numbers = np.searchsorted(np.array(bounds, np.uint64), hashes, side="right")
    splits = np.array([*SPLITS, ""])[numbers]
    held_out = splits != ""
    chosen = pa.Table.from_batches([documents]).filter(pa.array(held_out))
    reasons = pa.array(splits[held_out], pa.string())
    because = pa.nulls(len(chosen), pa.string())
    columns = [*chosen.select(SCHEMA.names).columns, reasons, because, pa.array(hashes[held_out])]
    return splits, pa.table(columns, schema=HELD_OUT)


def bound_of(packed: Path) -> int:
    """Return a bound of the hashes of the validation split of a packed folder."""
    highest = -1
    for path in shards(packed, "dropped"):
        for batch in read_shard(path):
            chosen = batch.filter(pc.equal(batch["reason"], VALIDATION))
            if len(chosen):
                highest = max(highest, int(question_hashes(chosen).max()))
    return highest + 1


def held_out_digest(packed: Path) -> str:
    """Return a digest of the held-out documents of a packed folder."""
    files = read_manifest(packed)["files"]
    names = sorted(name for name in files if name.startswith((f"{VALIDATION}.", "dropped/")))
    return digest([[name, files[name]["blake2b"]] for name in names])


def take_held_out(packed: Path, output: Path) -> int:
    """Copy the items of the validation split of another packed folder; return their number."""
    for loss_on in LOSSES:
        shutil.copyfile(items_file(packed, loss_on), items_file(output, loss_on))
    with items_file(output, LOSSES[0]).open(encoding="utf-8") as file:
        return sum(1 for _ in file)


def question_hashes(documents: pa.RecordBatch) -> np.ndarray:
    """Hash each document's normalised question, or else its response, uint64 [D]."""
    ids = _text_ids(documents["question"])
    unasked = np.flatnonzero(ids == 0)
    if len(unasked):
        ids[unasked] = _text_ids(documents["response"].take(pa.array(unasked)))
    return scattered(ids)


def _text_ids(texts: pa.Array) -> np.ndarray:
    """Compute an id uint64 [D] of the words of each text; 0 where there are none."""
    ids = []
    for _, words in word_blocks(text_column(texts)):
        ids.append(sequence_ids(words.ids, words.offsets[:-1], words.offsets[1:]))
    return np.concatenate(ids)


def write_held_out(
    parts: Iterable[Path], output: Path, wanted: Mapping[str, int]
) -> dict[str, int]:
    """Write the held-out documents of `parts`, tables of `hold_out`, in the order of the corpus.

    All go to `dropped/`, and of each split up to `wanted` with a response to the files of items.
    Returns the number of items of each split.
    """
    (output / "dropped").mkdir(exist_ok=True)
    chosen: dict[str, list[dict[str, Any]]] = {split: [] for split in wanted}
    path = output / "dropped" / "00000.parquet"
    with pq.ParquetWriter(path, DROPPED, compression="zstd") as writer:
        for part in parts:
            held_out = pq.read_table(part)
            writer.write_table(held_out.select(DROPPED.names))
            for split, most in wanted.items():
                of_split = held_out.filter(pc.equal(held_out["reason"], split)).to_pylist()
                answered = [row for row in of_split if row["response"]]
                # `nsmallest` is stable: equal hashes stay in the order of the corpus
                chosen[split] = heapq.nsmallest(
                    most, [*chosen[split], *answered], key=itemgetter("hash")
                )
    for split, rows in chosen.items():
        for loss_on in LOSSES:
            with items_file(output, loss_on, split).open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(_item(row, loss_on)) + "\n" for row in rows)
    return {split: len(rows) for split, rows in chosen.items()}


def items_file(packed: Path, loss_on: str, split: str = VALIDATION) -> Path:
    """Return the path of a split's items, for a training whose loss is on `loss_on`."""
    return packed / f"{split}.{loss_on}.items.jsonl"


def bytes_per_token(items: Path, tokenizer: Path) -> float:
    """Count the bytes of the average token of the targets in a file of items.

    These are the tokens that a loss is on, without the space before a target.
    """
    codec = read_tokenizer(tokenizer)
    size = 0
    count = 0
    with items.open(encoding="utf-8") as lines:
        for line in lines:
            item = json.loads(line)
            target = item["target"]
            prompt = item["prompt"]
            whole = f"{prompt} {target}" if prompt else target
            before = codec.encode(prompt, add_special_tokens=False).ids
            count += len(codec.encode(whole, add_special_tokens=False).ids) - len(before)
            size += len(target.encode())
    return size / count


def _item(document: dict[str, Any], loss_on: str) -> dict[str, str]:
    """Make the plain item of a document.

    Evaluation puts a space between prompt and target, as training does.
    """
    prompt, response = training_parts(document["question"], document["response"])
    text, mark, _ = (prompt + response).rpartition(MARK)
    if loss_on == "answers" and mark:
        before, _, answer = text.rpartition(" ")
        return {"id": document["id"], "prompt": before, "target": answer}
    # Training has no loss on a first token, and never reads behind an end mark.
    if loss_on == "all" or not prompt:
        whole = prompt + response
        first, _, rest = whole.partition(" ")
        if first.strip() and rest.strip():
            return {"id": document["id"], "prompt": first, "target": rest}
        return {"id": document["id"], "prompt": "", "target": whole}
    return {"id": document["id"], "prompt": prompt, "target": document["response"]}


def held_out_specification(packed: Path, loss_on: str, split: str = VALIDATION) -> dict[str, Any]:
    """Describe the task of a split for evaluation, which plain items make, without lm-eval."""
    return {
        "benchmark": split,
        "task": split,
        "metric": "bits_per_byte",
        "filter": "none",
        "chance": None,
        "plain": str(items_file(packed, loss_on, split).resolve()),
    }
