"""Measure the built-in world on a few hundred of its rows: bytes of text, what curation leaves, bytes of its items."""

from __future__ import annotations

import dataclasses
import gzip
import json
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pipeline.traces.strip import strip_trace
from pipeline.worlds.settings import WorldSettings
from pipeline.worlds.world import write_world

ROWS, ITEMS = 400, 20
DROPPED = ("broken", "exact", "leak", "near", "unclosed")  # kinds of rows that curation drops
FORM = len("Question: \nAnswer: ")


@dataclass(frozen=True)
class WorldSample:
    """Mean bytes of a document: as written, and as left by curation, which drops some; and what benchmarks ask for.

    `benchmarks` counts the benchmarks; `scored` is the mean number of bytes that an evaluation reads for an item.
    """

    text: float
    curated: float
    benchmarks: int
    scored: float


@lru_cache(maxsize=4)
def sample_world(settings: WorldSettings) -> WorldSample:
    """Write a small world with these settings and measure its rows and items."""
    few = dataclasses.replace(settings, documents=min(settings.documents, ROWS), items=min(settings.items, ITEMS))
    with tempfile.TemporaryDirectory() as place:
        write_world(Path(place), few)
        with gzip.open(next(Path(place).glob("builtin/world/default/train.jsonl.gz")), "rt") as file:
            rows = [json.loads(line) for line in file]
        kinds = [json.loads(line)["kind"] for line in (Path(place) / "truth.jsonl").read_text().splitlines()]
        tasks = [
            [json.loads(line) for line in path.read_text().splitlines()]
            for path in sorted(Path(place).glob("tasks/*.items.jsonl"))
        ]
    kept = [row for row, kind in zip(rows, kinds, strict=True) if kind not in DROPPED]
    items = [item for task in tasks for item in task if "prompt" in item]
    scored = [_size(item["prompt"]) * (len(item.get("choices", ())) or 2) for item in items]  # generated, and its gold
    return WorldSample(
        text=sum(_size(row["question"] or "") + _size(row["response"] or "") for row in rows) / len(rows),
        curated=sum(FORM + _size(row["question"]) + _size(strip_trace(row["response"]).text) for row in kept)
        / len(rows),
        benchmarks=sum("prompt" in task[0] for task in tasks),
        scored=sum(scored) / len(scored),
    )


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
