"""`dreamer preview`: print decoded rows of the packed token stream, in the order in which a run reads them."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from flows.commands.tables import printable
from flows.plan import Plan
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.tokens.tokenizer import read_tokenizer


def preview(options: argparse.Namespace) -> None:
    """Print the first rows that a run with this seed trains on: each document, with what carries loss in «».

    The default is the study's first seed. Raises InputError when the study has no such seed, or no packed data yet.
    """
    study, rows, seed = load_study(options.study, root=options.root), options.rows, options.seed
    if rows < 1:
        raise InputError(f"--rows is {rows}: it must be at least 1")
    if seed is not None and seed not in study.training.seeds:
        seeds = ", ".join(map(str, study.training.seeds))
        raise InputError(f"--seed is {seed}, but {study.name} trains with the seeds {seeds}")
    data = Plan(study).data
    packed, tokenizer = data.packed, data.tokenizer
    if not packed.done:
        raise InputError(f"{study.folder}: no packed tokens yet; `dreamer run {study.arguments}` goes on")
    seed = seed if seed is not None else study.training.seeds[0]
    print(
        f"{study.study_id}: {packed.results['tokens']:,} tokens of {packed.results['documents']:,} documents in",
        end=" ",
    )
    print(f"{packed.results['rows']:,} rows; the first that seed {seed} reads. «What carries loss» is marked.")
    for line in decoded_rows(packed.path, tokenizer.path, seed, rows, study.training.loss_on):
        print(printable(line))


def decoded_rows(packed: Path, tokenizer: Path, seed: int, rows: int, loss_on: str) -> list[str]:
    """Decode rows of the stream: for each row one line on how full the row is, then one paragraph for each document."""
    from model.training.stream import TokenStream

    codec = read_tokenizer(tokenizer)
    stream = TokenStream(packed, seed, 1, loss_on)
    lines = []
    for number in range(rows):
        batch = stream.batch(number)
        tokens, targets, documents = (part[0].numpy() for part in (batch.tokens, batch.targets, batch.documents))
        labels = np.unique(documents[documents >= 0])
        length, padding = stream.sequence_length, int((documents < 0).sum())
        lines.append(
            f"\n── row {number + 1}: {len(labels)} documents; of {length} tokens "
            f"{batch.target_tokens} carry loss, {padding} are padding"
        )
        for label in labels:
            (places,) = np.nonzero(documents == label)
            learned = np.append(False, targets[places[:-1]] >= 0)  # a target stands one place before its token
            lines.append(f"[{len(places)} tokens] {_marked(codec, tokens[places], learned)}")
    return lines


def _marked(codec: Any, tokens: np.ndarray, learned: np.ndarray) -> str:
    """Decode tokens, with runs of tokens that carry loss in «»."""
    borders = [0, *(np.flatnonzero(np.diff(learned)) + 1).tolist(), len(tokens)]
    text = ""
    for start, end in itertools.pairwise(borders):
        part = codec.decode(tokens[start:end].tolist(), skip_special_tokens=False)
        text += f"«{part}»" if learned[start] else part
    return text
