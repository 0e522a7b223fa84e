"""`dreamer preview`: print decoded rows of the packed tokens, in the order a run reads them."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from dreamer_study.flows.commands.tables import console
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.documents import shards
from dreamer_study.pipeline.tokens.tokenizer import read_tokenizer
from dreamer_study.reports.text.numbers import counted
from dreamer_study.sql.definitions import FOLDER


def preview(options: argparse.Namespace) -> None:
    """Print the first rows that a run with this seed trains on.

    Each document has its id; what carries loss is in «». The default is the study's first seed.
    Raises InputError when the study has no such seed, or no packed data yet.
    """
    study = load_study(options.study, root=options.root)
    rows: int = options.rows
    seed: int | None = options.seed
    if rows < 1:
        raise InputError(f"--rows is {rows}: it must be at least 1")
    if seed is not None and seed not in study.seeds:
        seeds = ", ".join(map(str, study.seeds))
        raise InputError(f"--seed is {seed}, but {study.name} trains with the seeds {seeds}")
    data = Plan(study).data
    packed = data.packed
    if not packed.done:
        raise InputError(f"{study.folder}: no packed tokens yet; `{study.run_command}` packs them")
    if seed is None:
        seed = study.seeds[0]
    held = packed.results
    console.print(
        f"{study.study_id}: {counted(held['tokens'], 'token')} of"
        f" {counted(held['documents'], 'document')} in {counted(held['rows'], 'row')}; the first"
        f" that seed {seed} reads. «What carries loss» is marked."
    )
    tokenizer = read_tokenizer(data.tokenizer.path)
    decoded = list(_decoded_rows(packed.path, tokenizer, seed, rows, study.training.loss_on))
    texts = [document.text for _, documents in decoded for document in documents]
    origins = _origins(data.curated.path, texts)
    for sentence, documents in decoded:
        console.print(f"\n── {sentence}")
        for document in documents:
            origin = origins.get(document.text, "of a document that was cut")
            size = counted(document.tokens, "token")
            console.print(f"[{size}, {origin}] {document.marked}")


class Document(NamedTuple):
    """A document, or a part of one; in `marked` what counts in the loss is in «»."""

    tokens: int
    text: str
    marked: str


def _decoded_rows(
    packed: Path, codec: Any, seed: int, rows: int, loss_on: str
) -> Iterator[tuple[str, list[Document]]]:
    """Decode the first rows that training with a seed reads.

    Yields a sentence on the tokens of each row, and its documents.
    """
    from dreamer_study.model.training.stream import TokenStream

    stream = TokenStream(packed, seed, 1, loss_on)
    for number in range(rows):
        batch = stream.batch(number)
        tokens = batch.tokens[0].numpy()
        targets = batch.targets[0].numpy()
        labels = batch.documents[0].numpy()  # of the document of each token; negative for padding
        documents = []
        for label in np.unique(labels[labels >= 0]):
            (places,) = np.nonzero(labels == label)
            of_document = tokens[places]
            # a target stands one place before its token
            learned = np.append(False, targets[places[:-1]] >= 0)
            text = codec.decode(of_document.tolist())
            marked = _marked(codec, of_document, learned)
            documents.append(Document(len(places), text, marked))
        sentence = (
            f"row {number + 1}: {counted(len(documents), 'document')}; of"
            f" {counted(stream.sequence_length, 'token')}, {batch.target_tokens} with loss and"
            f" {int((labels < 0).sum())} of padding"
        )
        yield sentence, documents


def _origins(curated: Path, texts: Sequence[str]) -> dict[str, str]:
    """Find id and source of the curated documents whose texts are in the stream."""
    query = (FOLDER / "queries" / "documents_of_texts.sql").read_text()
    with duckdb.connect() as connection:
        connection.read_parquet([str(path) for path in shards(curated)]).create_view("documents")
        connection.register("texts", pa.table({"text": pa.array(texts, pa.string())}))
        return {
            text: f"{id} of {source}" for text, id, source in connection.execute(query).fetchall()
        }


def _marked(codec: Any, tokens: np.ndarray, learned: np.ndarray) -> str:
    """Decode tokens, with runs of tokens that count in the loss in «»."""
    borders = [0, *(np.flatnonzero(np.diff(learned)) + 1).tolist(), len(tokens)]
    text = ""
    for start, end in itertools.pairwise(borders):
        part = codec.decode(tokens[start:end].tolist(), skip_special_tokens=False)
        text += f"«{part}»" if learned[start] else part
    return text
