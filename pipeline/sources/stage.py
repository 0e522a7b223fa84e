"""Read a source: convert the rows of its files into documents, file by file, and resume after an interruption.

This first stage does not judge quality. It drops rows that are no documents (malformed, empty question or response) and
rows that the source's own flags and filters exclude.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.progress import Progress, quiet
from pipeline.sources.file_readers import open_rows
from pipeline.sources.rows import RowConverter
from pipeline.sources.source import Source
from pipeline.storage.documents import DocumentWriter, sum_counts
from pipeline.storage.files import sync, write_text_atomically
from pipeline.storage.resumable import resumable_parts


def read_source(
    source: Source,
    files: Sequence[Path],
    output: Path,
    *,
    limit: int | None = None,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Run the stage: rows of a source's files become `documents/` and `dropped/` under `output`.

    A document's id is `<name>/<row>`, or `<name>@<revision>/<row>` for a pinned revision; `.<number>` follows where a
    row gives several documents. `row` counts from 0 over the files in their order, malformed rows included. White space
    around the three texts is removed. A malformed row is dropped with its text as the response.

    Files that have been read survive an interruption. `limit` (or the source's) reads that many rows: of Parquet files
    evenly from all row groups, because some sets are sorted by topic; of other files the first. Raises InputError for a
    file that is cut off, missing columns, and a source without a row.
    """
    limit = limit if limit is not None else source.limit
    sizes = [max(path.stat().st_size, 1) for path in files]
    quotas = _quotas(files, limit)
    counts = []
    first_row = seen = 0
    with resumable_parts(output, {"source": repr(source), "limit": limit}, files) as folder:
        for number, path in enumerate(files):
            done, part = sum(sizes[:number]) / sum(sizes), sizes[number] / sum(sizes)

            def report(of_file: float, rows: int, done: float = done, part: float = part, before: int = seen) -> None:
                progress(done + of_file * part, f"{source.name}: {before + rows:,} rows")

            report(0.0, 0)
            note = folder / f"read-{number}.json"
            if not note.exists():
                quota = quotas[number] if quotas else None if limit is None else limit - seen
                found = _read_file(source, path, output, number, first_row, quota, report)
                write_text_atomically(note, json.dumps(found))
            read = json.loads(note.read_text())
            counts.append(read["counts"])
            first_row, seen = first_row + read["rows"], seen + read["seen"]
    if not seen:
        raise InputError(f"source {source.name!r} has no rows in {', '.join(map(str, files)) or 'no files'}")
    progress(1.0, f"{source.name}: {seen:,} rows")
    return {
        "counts": sum_counts(counts),
        "rows": seen,
        "files": len(files),
        "revision": source.revision,
        "licence": source.licence,
    }


def _read_file(
    source: Source,
    path: Path,
    output: Path,
    number: int,
    first_row: int,
    quota: int | None,
    report: Callable[[float, int], None],
) -> dict[str, Any]:
    """Write the documents of one file, as shards whose names begin with the file's number.

    Returns the counts, the rows read ("seen") and the rows of the file ("rows").
    """
    for kind in ("documents", "dropped"):
        for left in (output / kind).glob(f"{number:05d}-*"):
            left.unlink()  # of a killed attempt
    reader = open_rows(path)
    seen = end = 0
    with DocumentWriter(output, prefix=f"{number:05d}-") as writer:
        if reader.columns and quota != 0:
            converter = RowConverter(source, reader, writer)
            for block in reader.blocks(converter.paths, quota):
                converter.write(block, first_row)
                end = block.end
                seen += len(block.rows) + len(block.malformed)
                report(block.done, seen)
    for kind in ("documents", "dropped"):
        for written in (output / kind).glob(f"{number:05d}-*"):
            sync(written)
    return {"counts": writer.counts(), "seen": seen, "rows": end if reader.rows is None else reader.rows}


def _quotas(files: Sequence[Path], limit: int | None) -> list[int]:
    """Divide the limit among Parquet files by their rows; empty without a limit, or for files of unknown length."""
    if limit is None or not all(path.suffix == ".parquet" for path in files):
        return []
    rows = [open_rows(path).rows or 0 for path in files]
    total, before, quotas = sum(rows), 0, []
    for count in rows:
        quotas.append(count if limit >= total else (before + count) * limit // total - before * limit // total)
        before += count
    return quotas
