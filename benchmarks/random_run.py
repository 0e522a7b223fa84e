"""Write packed data of random tokens, and a run over them: what speed is measured on without a corpus.

Tokens follow Zipf's law, as in text: on uniform tokens the experts of a new model would be better balanced, and faster.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from model.config import DreamerConfig
from model.training.config import Run, read_run
from pipeline.tokens.packing import Documents, write_token_shard

END_TOKEN = 0


def write_random_data(
    folder: Path, config: DreamerConfig, rows: int, document_lengths: tuple[int, int] | None = None
) -> Path:
    """Pack about `rows` rows of documents for a model, and return `folder`.

    Lengths of documents are uniform within `document_lengths`, both included; by default a document is a whole row. The
    final quarter of a document is the response.
    """
    generator = np.random.default_rng(0)
    shortest, longest = document_lengths or (config.sequence_length, config.sequence_length)
    count = 2 * rows * config.sequence_length // (shortest + longest)
    lengths = generator.integers(shortest, longest + 1, count)
    frequency = (1 / (np.arange(config.vocabulary_size) + 2.7)).cumsum()
    tokens = np.searchsorted(frequency, frequency[-1] * generator.random(lengths.sum())).astype(np.uint32)
    documents = Documents(tokens, np.cumsum(lengths) - lengths, lengths - np.maximum(1, lengths // 4), lengths)
    folder.mkdir(parents=True)
    shard = write_token_shard(folder, 0, documents, config.sequence_length, END_TOKEN, tokens.dtype)
    packed = {
        "dtype": str(tokens.dtype),
        "sequence_length": config.sequence_length,
        "shards": [shard],
        "tokens": len(tokens),
        "documents": shard["documents"],
        "end_token": END_TOKEN,
        "vocabulary_size": config.vocabulary_size,
    }
    (folder / "packed.json").write_text(json.dumps(packed))
    return folder


def write_run(folder: Path, data: Path, config: DreamerConfig, **training: Any) -> Run:
    """Describe an endless run over packed data in a new folder, and read its description."""
    folder.mkdir(parents=True)
    recipe = {"tokens": 10**12, **training}
    values = {"run_id": folder.name, "model": dataclasses.asdict(config), "training": recipe, "data": str(data)}
    (folder / "run.json").write_text(json.dumps(values))
    return read_run(folder)
