"""Write a packed folder of random tokens, and a run over it: what speed is measured on without
data.

Tokens follow Zipf's law, as in text: on uniform tokens the experts of a new model would be better
balanced, and faster.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from dreamer_study.model.config import DreamerConfig
from dreamer_study.model.training.config import TrainingRun, read_run


def write_random_stream(
    folder: Path,
    *,
    sequence_length: int,
    vocabulary_size: int,
    rows: int,
    document_lengths: tuple[int, int],
) -> Path:
    """Write `rows` full rows of documents, in the format of the packing stage, and return `folder`.

    Lengths of documents are uniform within `document_lengths`, both included; the final document of
    a row is cut to fit. The response is the final quarter of a document, at least one token.
    """
    generator = np.random.default_rng(0)
    shortest, longest = (min(length, sequence_length) for length in document_lengths)
    spans = []
    for row in range(rows):
        place, end = row * sequence_length, (row + 1) * sequence_length
        while place < end:
            size = min(int(generator.integers(shortest, longest + 1)), end - place)
            spans.append((place, place + size - max(1, size // 4), place + size))
            place += size
    tokens = (1 / (np.arange(vocabulary_size) + 2.7)).cumsum()
    tokens = np.searchsorted(tokens / tokens[-1], generator.random(rows * sequence_length))
    dtype = "uint16" if vocabulary_size <= 2**16 else "uint32"
    folder.mkdir(parents=True)
    tokens.clip(max=vocabulary_size - 1).astype(np.dtype(dtype).newbyteorder("<")).tofile(
        folder / "tokens-00000.bin"
    )
    np.save(folder / "index-00000.npy", np.array(spans, dtype=np.int64).reshape(-1, 3))
    packed = {
        "dtype": dtype,
        "sequence_length": sequence_length,
        "shards": [{"rows": rows, "documents": len(spans)}],
        "tokens": sum(end - start for start, _, end in spans),
        "documents": len(spans),
        "end_token": 0,
        "mark": 1,
        "vocabulary_size": vocabulary_size,
    }
    (folder / "packed.json").write_text(json.dumps(packed))
    return folder


def write_run(folder: Path, data: Path, config: DreamerConfig, **training: Any) -> TrainingRun:
    """Describe an endless run over packed data in a new folder, and read its description."""
    folder.mkdir(parents=True)
    recipe = {"tokens": 10**12, **training}
    values = {
        "run_id": folder.name,
        "model": dataclasses.asdict(config),
        "training": recipe,
        "data": str(data),
    }
    (folder / "run.json").write_text(json.dumps(values))
    return read_run(folder)
