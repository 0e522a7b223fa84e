"""Write documents as a stage would, and read which of them a stage has dropped."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from dreamer_study.pipeline.storage.documents import SCHEMA, DocumentWriter, read_documents


def write_documents(folder: Path, documents: Iterable[tuple[str, ...]]) -> Path:
    """Write documents of these ids, sources, questions, responses and perhaps answers, and return
    `folder`."""
    names = ("id", "source", "question", "response", "answer")
    rows = [
        {"row": row, "answer": "", **dict(zip(names, each, strict=False))}
        for row, each in enumerate(documents)
    ]
    with DocumentWriter(folder) as writer:
        writer.keep(pa.Table.from_pylist(rows, schema=SCHEMA))
    return folder


def read_dropped(folder: Path) -> dict[str, tuple[str, str]]:
    """Read the ids of the documents that a stage dropped, each with the reason and the id of what
    caused it."""
    batches = read_documents(folder, kind="dropped", columns=["id", "reason", "because"])
    return {
        row["id"]: (row["reason"], row["because"]) for batch in batches for row in batch.to_pylist()
    }
