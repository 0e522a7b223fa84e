"""`dreamer preview`: rows of the packed stream as a run reads them, decoded."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from flows.stages.outputs import find_output, recall
from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.tokens.tokenizer import read_tokenizer


def print_preview(study: Study, *, rows: int = 3, seed: int | None = None) -> None:
    """The first rows that a run with this seed trains on: each document, with what carries loss in «».

    The default is the study's first seed. Raises InputError when the study has no packed data yet.
    """
    if rows < 1:
        raise InputError(f"--rows is {rows}: it must be at least 1")
    if seed is not None and not 0 <= seed < 2**63:
        raise InputError(f"--seed is {seed}: it must not be negative, and below 2^63")
    study_id, outputs = recall(study)
    packed, tokenizer = (find_output(study, outputs, stage) for stage in ("tokens", "tokenizer"))
    seed = seed if seed is not None else study.training.seeds[0]
    print(f"{study_id}: {packed.results['tokens']:,} tokens of {packed.results['documents']:,} documents in", end=" ")
    print(f"{packed.results['rows']:,} rows; the first that seed {seed} reads. «What carries loss» is marked.")
    for line in preview(packed.path, tokenizer.path, seed, rows, study.training.loss_on):
        print(line)


def preview(packed: Path, tokenizer: Path, seed: int, rows: int, loss_on: str) -> list[str]:
    """Lines of text: for each row of the stream how full it is, then one paragraph for each of its documents."""
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
    """Decoded tokens, runs of those that carry loss in «»."""
    borders = [0, *(np.flatnonzero(np.diff(learned)) + 1).tolist(), len(tokens)]
    text = ""
    for start, end in itertools.pairwise(borders):
        part = codec.decode(tokens[start:end].tolist(), skip_special_tokens=False)
        text += f"«{part}»" if learned[start] else part
    return text
