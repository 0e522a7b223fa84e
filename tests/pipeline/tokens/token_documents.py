"""Documents and a foreign tokenizer for the tests of tokens, and packed folders read back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.storage.documents import SCHEMA
from tests.pipeline.documents import write as write_tables

DOCUMENTS = [
    (f"{name} has {number} {thing}. How many {thing} does {name} have?", str(number))
    for name in ("Ann", "Ben", "Zoë")
    for thing in ("coins", "pens", "keys", "plums")
    for number in range(10)
] + [("", "A text without a question, of \\frac{1}{2} and more.\n"), ("Is 12345 odd?", "yes " * 40)]


def write(
    folder: Path, documents: list[tuple[str | None, str | None]], *, rows: int = 10**6, **options
) -> Path:
    """Documents on disk, `rows` to a row group."""
    values = [
        {
            "id": f"d{i}",
            "source": "world" if asked else "text",
            "row": i,
            "question": asked,
            "response": response,
        }
        for i, (asked, response) in enumerate(documents)
    ]
    table = pa.Table.from_pylist(values, schema=SCHEMA)
    return write_tables(
        folder, *(table.slice(first, rows) for first in range(0, len(documents), rows)), **options
    )


def foreign(folder: Path, special: list[str], eos: str | dict | None = None) -> Path:
    """A tokenizer as others publish them: marks put around every text, long texts cut."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    codec = Tokenizer(models.BPE())
    codec.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    codec.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    codec.train_from_iterator(
        ["one two"],
        trainers.BpeTrainer(
            special_tokens=["<s>", *special], initial_alphabet=alphabet, show_progress=False
        ),
    )
    codec.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    codec.enable_truncation(4)
    codec.enable_padding()
    folder.mkdir()
    codec.save(str(folder / "tokenizer.json"))
    if eos:
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    return folder


def unpacked(folder: Path) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(prompt tokens, response tokens) of every piece, in the order of the shards; checks what the
    files promise."""
    packed = json.loads((folder / "packed.json").read_text())
    row, found, real = packed["sequence_length"], [], 0
    for number, shard in enumerate(packed["shards"]):
        tokens = np.fromfile(
            folder / f"tokens-{number:05d}.bin", np.dtype(packed["dtype"]).newbyteorder("<")
        )
        index = np.load(folder / f"index-{number:05d}.npy")
        assert len(tokens) == shard["rows"] * row
        assert index.shape == (shard["documents"], 3)
        assert (index[:, 0] // row == (index[:, 2] - 1) // row).all(), "no piece crosses a row"
        assert (index[:, 0] <= index[:, 1]).all()
        assert (index[:, 1] <= index[:, 2]).all()
        assert (index[1:, 0] >= index[:-1, 2]).all()
        padding = np.ones(len(tokens), bool)
        for start, response, end in index:
            found.append(
                (tuple(tokens[start:response].tolist()), tuple(tokens[response:end].tolist()))
            )
            padding[start:end] = False
        assert (tokens[padding] == packed["end_token"]).all()
        real += int((~padding).sum())
    assert real == packed["tokens"]
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
