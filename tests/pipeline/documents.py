"""Documents on disk: written from their texts, and read back as rows; rows as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from dreamer_study.pipeline.storage.documents import SCHEMA, DocumentWriter, read_documents


def table(texts: Iterable[tuple[str | None, ...]], source: str = "s", first: int = 0) -> pa.Table:
    """Documents of one source from (question, response) or (question, response, answer), numbered
    from `first` on."""
    rows = [
        {
            "id": f"{source}/{i}",
            "source": source,
            "row": i,
            "question": question,
            "response": response,
            "answer": answer,
        }
        for i, (question, response, answer) in enumerate(((*one, "")[:3] for one in texts), first)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write(folder: Path, *tables: pa.Table, **options: Any) -> Path:
    """Write tables as the documents of a stage."""
    with DocumentWriter(folder, **options) as writer:
        for one in tables:
            writer.keep(one)
    return folder


def lines(path: Path, rows: Iterable[Any]) -> Path:
    """Write rows as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(folder: Path, kind: str = "documents") -> list[dict[str, Any]]:
    """Read the kept or the dropped documents of a stage."""
    return [row for batch in read_documents(folder, kind=kind) for row in batch.to_pylist()]
