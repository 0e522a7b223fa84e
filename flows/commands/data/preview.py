"""`dreamer preview`: print decoded rows of the packed token stream, in the order in which a run
reads them."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from dreamer_study.flows.commands.tables import printable
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.documents import shards
from dreamer_study.pipeline.tokens.tokenizer import read_tokenizer
from dreamer_study.sql.definitions import FOLDER


def preview(options: argparse.Namespace) -> None:
    """Print the first rows that a run with this seed trains on: each document with its id, what
    carries loss in «».

    The default is the study's first seed. Raises InputError when the study has no such seed, or no
    packed data yet.
    """
    study, rows, seed = load_study(options.study, root=options.root), options.rows, options.seed
    if rows < 1:
        raise InputError(f"--rows is {rows}: it must be at least 1")
    if seed is not None and seed not in study.seeds:
        seeds = ", ".join(map(str, study.seeds))
        raise InputError(f"--seed is {seed}, but {study.name} trains with the seeds {seeds}")
    data = Plan(study).data
    packed, tokenizer = data.packed, data.tokenizer
    if not packed.done:
        raise InputError(
            f"{study.folder}: no packed tokens yet; `dreamer run {study.arguments}` goes on"
        )
    seed = seed if seed is not None else study.seeds[0]
    print(
        f"{study.study_id}: {packed.results['tokens']:,} tokens of {packed.results['documents']:,}"
        f" documents in {packed.results['rows']:,} rows; the first that seed {seed} reads. «What"
        " carries loss» is marked."
    )
    shown = list(
        _decoded_rows(
            packed.path, read_tokenizer(tokenizer.path), seed, rows, study.training.loss_on
        )
    )
    origins = _origins(
        data.curated.path, [text for _, documents in shown for _, text, _ in documents]
    )
    for words, documents in shown:
        print(f"\n── {words}")
        for tokens, text, marked in documents:
            print(
                printable(
                    f"[{tokens} tokens, {origins.get(text, 'of a document that was cut')}] {marked}"
                )
            )


def _decoded_rows(
    packed: Path, codec: Any, seed: int, rows: int, loss_on: str
) -> Iterator[tuple[str, list[tuple[int, str, str]]]]:
    """Decode the first rows that training with a seed reads: yield a sentence on each row's
    padding, and its documents.

    A document, or the part of a document in the row, is its number of tokens, its text, and its
    text with marks.
    """
    from dreamer_study.model.training.stream import TokenStream

    stream = TokenStream(packed, seed, 1, loss_on)
    for number in range(rows):
        batch = stream.batch(number)
        tokens, targets, documents = (
            part[0].numpy() for part in (batch.tokens, batch.targets, batch.documents)
        )
        found, labels = [], np.unique(documents[documents >= 0])
        for label in labels:
            (places,) = np.nonzero(documents == label)
            # a target stands one place before its token
            learned = np.append(False, targets[places[:-1]] >= 0)
            marked = _marked(codec, tokens[places], learned)
            found.append((len(places), codec.decode(tokens[places].tolist()), marked))
        words = (
            f"row {number + 1}: {len(labels)} documents; of {stream.sequence_length} tokens"
            f" {batch.target_tokens} carry loss, {int((documents < 0).sum())} are padding"
        )
        yield words, found


def _origins(curated: Path, texts: Sequence[str]) -> dict[str, str]:
    """Find id and source of the curated documents that stand in texts of the stream."""
    query = (FOLDER / "queries" / "documents_of_texts.sql").read_text()
    with duckdb.connect() as connection:
        connection.read_parquet([str(path) for path in shards(curated)]).create_view("documents")
        connection.register("texts", pa.table({"text": pa.array(texts, pa.string())}))
        return {
            text: f"{id} of {source}" for text, id, source in connection.execute(query).fetchall()
        }


def _marked(codec: Any, tokens: np.ndarray, learned: np.ndarray) -> str:
    """Decode tokens, with runs of tokens that carry loss in «»."""
    borders = [0, *(np.flatnonzero(np.diff(learned)) + 1).tolist(), len(tokens)]
    text = ""
    for start, end in itertools.pairwise(borders):
        part = codec.decode(tokens[start:end].tolist(), skip_special_tokens=False)
        text += f"«{part}»" if learned[start] else part
    return text
