"""Write packed random tokens: what the speed of a training is measured on without data.

Tokens follow Zipf's law, as in text: on uniform tokens the experts of a new model would be better
balanced, and faster.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def write_random_stream(
    folder: Path,
    *,
    sequence_length: int,
    vocabulary_size: int,
    rows: int,
    document_lengths: tuple[int, int],
) -> Path:
    """Write `rows` full rows of documents, in the format of the packing stage; return `folder`.

    Lengths of documents are uniform within `document_lengths`, both included; the final document of
    a row is cut to fit. The response is the final quarter of a document, at least one token.
    """
    generator = np.random.default_rng(0)
    shortest, longest = (min(length, sequence_length) for length in document_lengths)
    spans = []
    for row in range(rows):
        start = row * sequence_length
        row_end = start + sequence_length
        while start < row_end:
            length = min(int(generator.integers(shortest, longest + 1)), row_end - start)
            response = start + length - max(1, length // 4)
            spans.append((start, response, start + length))
            start += length

    # Zipf's law with Mandelbrot's shift of 2.7: a token's weight is one over its shifted rank.
    cumulated = (1 / (np.arange(vocabulary_size) + 2.7)).cumsum()
    drawn = generator.random(rows * sequence_length)
    tokens = np.searchsorted(cumulated / cumulated[-1], drawn).clip(max=vocabulary_size - 1)

    dtype = "uint16" if vocabulary_size <= 2**16 else "uint32"
    folder.mkdir(parents=True)
    tokens.astype(np.dtype(dtype).newbyteorder("<")).tofile(folder / "tokens-00000.bin")
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
