"""Small packed folders and runs for the tests of training."""

import dataclasses
import json

import numpy as np

from tests.model.tiny_network import DR_DA


def write_packed(
    folder,
    shards,
    length,
    *,
    dtype="uint16",
    end_token=0,
    vocabulary_size=32,
    shuffle_index=False,
    mark=None,
):
    """A packed folder; `shards` is a list of lists of rows, a row a list of (question length,
    response length)."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(7)
    described, total, documents = [], 0, 0
    for number, rows in enumerate(shards):
        tokens = np.full((len(rows), length), end_token, dtype=dtype)
        index = []
        for row, spans in enumerate(rows):
            place = 0
            for question, response in spans:
                size = question + response
                tokens[row, place : place + size] = generator.integers(1, vocabulary_size, size)
                start = row * length + place
                index.append((start, start + question, start + size))
                place += size
                total += size
            assert place <= length
        index = np.array(index, dtype=np.int64).reshape(-1, 3)
        if shuffle_index:
            index = generator.permutation(index)
        tokens.tofile(folder / f"tokens-{number:05d}.bin")
        np.save(folder / f"index-{number:05d}.npy", index)
        described.append({"rows": len(rows), "documents": len(index)})
        documents += len(index)
    packed = {
        "dtype": dtype,
        "sequence_length": length,
        "shards": described,
        "tokens": total,
        "documents": documents,
        "end_token": end_token,
        "vocabulary_size": vocabulary_size,
        "mark": mark,
    }
    (folder / "packed.json").write_text(json.dumps(packed))
    return folder


SMALL = dataclasses.replace(
    DR_DA, depth=2, vocabulary_size=32, expert_size=16, sequence_length=16
).to_dict()


def write_run(root, *, name="run", model=(), **training):
    """A run folder beside packed data `root/data`, which is made if it is not there."""
    if not (root / "data").exists():
        rows = [[(3, 5), (2, 4)], [(4, 12)], [(0, 9), (1, 2)]] * 9
        write_packed(root / "data", [rows, rows[:10]], 16)
    recipe = {
        "tokens": 2500,
        "batch_tokens": 64,
        "checkpoints": [700, 1500],
        "learning_rate": 0.01,
        "warmup_steps": 10,
        "save_every_seconds": 0,
        **training,
    }
    folder = root / name
    folder.mkdir()
    values = {
        "run_id": "small",
        "variant": "DR+DA",
        "depth": 2,
        "seed": 3,
        "model": {**SMALL, **dict(model)},
        "training": recipe,
        "data": "../data",
    }
    (folder / "run.json").write_text(json.dumps(values))
    return folder
