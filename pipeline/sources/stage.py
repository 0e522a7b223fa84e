"""Read a source: convert the rows of its files into documents, file by file, and resume after an interruption.

This first stage does not judge quality. It drops rows that are no documents (malformed, empty question or response) and
rows that the source's own flags and filters exclude.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.progress import Progress, quiet
from pipeline.sources.files.readers import count_rows, open_rows
from pipeline.sources.rows import RowConverter
from pipeline.sources.source import Source
from pipeline.storage.documents import DocumentWriter, sum_counts
from pipeline.storage.files import sync
from pipeline.storage.parallel import Run, serial
from pipeline.storage.resumable import do_once, resumable_parts

FIRST_ROWS = 100  # that are looked at before any work

Report = Callable[[int, float, int], None]  # number of the file, the fraction of the file that is read, rows in all


def read_source(
    source: Source,
    files: Sequence[Path],
    output: Path,
    *,
    limit: int | None = None,
    commit: str | None = None,
    run: Run = serial,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Run the stage: rows of a source's files become `documents/` and `dropped/` under `output`.

    A document's id is `<name>/<row>`, or `<name>@<revision>/<row>` for a pinned revision; `.<number>` follows where a
    row gives several documents. `row` counts from 0 over the files in their order, malformed rows included. White space
    around the three texts is removed. A malformed row is dropped with its text as the response.

    Files that have been read survive an interruption. `limit` (or the source's) reads that many rows: of Parquet files
    evenly from all row groups, because some sets are sorted by topic; of other files the first. `run` may read several
    files at once, where the numbers of their first rows can be known beforehand. `commit` is what the files are known
    to be of their repository. Raises InputError for a file that is cut off, missing columns, and a source without rows.
    """
    limit = limit if limit is not None else source.limit
    sizes = [max(path.stat().st_size, 1) for path in files]
    before = [0, *accumulate(sizes)]

    def report(number: int, of_file: float, rows: int) -> None:
        progress((before[number] + of_file * sizes[number]) / before[-1], f"{source.name}: {rows:,} rows")

    with resumable_parts(output, {"source": repr(replace(source, weight=1.0)), "limit": limit}, files) as folder:
        if planned := _planned(source, files, limit, run) if run is not serial else []:
            plans = enumerate(zip(files, planned, strict=True))
            tasks = [(source, path, output, folder, number, *plan) for number, (path, plan) in plans]
            found = []
            for number, read in enumerate(run(_read_once, tasks)):
                found.append(read)
                report(number, 1.0, sum(one["seen"] for one in found))
        else:
            found = _read_in_turn(source, files, output, folder, limit, report)
    seen = sum(one["seen"] for one in found)
    if not seen:
        raise InputError(f"source {source.name!r} has no rows in {', '.join(map(str, files)) or 'no files'}")
    progress(1.0, f"{source.name}: {seen:,} rows")
    return {
        "counts": sum_counts(one["counts"] for one in found),
        "rows": seen,
        "files": len(files),
        "repository": source.repository,
        "revision": source.revision,
        "commit": commit,
        "licence": source.licence,
    }


def check_rows(source: Source, files: Sequence[Path]) -> None:
    """Convert the first rows of a source and keep nothing: wrong columns and delimiters are told before any work.

    Raises InputError as `read_source` does.
    """
    for path in files[:1]:
        reader = open_rows(path, delimiter=source.delimiter, longest=source.longest)
        if len(reader.schema):
            converter = RowConverter(source, reader)
            for block in islice(reader.blocks(converter.columns, FIRST_ROWS), 1):
                converter.check(block.table)


def _read_in_turn(
    source: Source, files: Sequence[Path], output: Path, folder: Path, limit: int | None, report: Report
) -> list[dict[str, Any]]:
    """Read files one after the other: where a file's rows begin follows from the files before."""
    quotas = _quotas(files, limit)
    found: list[dict[str, Any]] = []
    for number, path in enumerate(files):
        first_row, seen = (sum(one[key] for one in found) for key in ("rows", "seen"))

        def report_rows(of_file: float, rows: int, number: int = number, before: int = seen) -> None:
            report(number, of_file, before + rows)

        report_rows(0.0, 0)
        quota = quotas[number] if quotas else None if limit is None else limit - seen
        found.append(_read_once(source, path, output, folder, number, first_row, quota, report_rows))
    return found


def _planned(source: Source, files: Sequence[Path], limit: int | None, run: Run) -> list[tuple[int, int | None]]:
    """Find the number of each file's first row, and its quota of the limit; empty where that takes reading the files.

    Rows of Parquet are known and those of JSON lines are counted, which is fast; others are read one after the other.
    """
    quotas = _quotas(files, limit)
    if (limit is not None and not quotas) or len(files) < 2:
        return []
    rows = list(run(count_rows, [(path, source.longest) for path in files]))
    if None in rows[:-1]:
        return []
    first_rows = [0, *accumulate(rows[:-1])]
    return list(zip(first_rows, quotas or [None] * len(files), strict=True))


def _read_once(
    source: Source,
    path: Path,
    output: Path,
    folder: Path,
    number: int,
    first_row: int,
    quota: int | None,
    report: Callable[[float, int], None] = lambda done, rows: None,
) -> dict[str, Any]:
    """Write the documents of one file, as shards whose names begin with the file's number, unless it has been read.

    Returns the counts, the rows read ("seen") and the rows of the file ("rows"), after a round trip through JSON.
    """

    def shards() -> list[Path]:
        return [path for kind in ("documents", "dropped") for path in (output / kind).glob(f"{number:05d}-*")]

    def read() -> dict[str, Any]:
        for left in shards():
            left.unlink()  # of a killed attempt
        reader = open_rows(path, delimiter=source.delimiter, longest=source.longest)
        seen = end = 0
        with DocumentWriter(output, prefix=f"{number:05d}-") as writer:
            if len(reader.schema) and quota != 0:
                converter = RowConverter(source, reader)
                for block in reader.blocks(converter.columns, quota):
                    converter.write(block, first_row, writer)
                    end = block.end
                    seen += len(block.rows) + len(block.malformed)
                    report(block.done, seen)
        for written in shards():
            sync(written)
        return {"counts": writer.counts(), "seen": seen, "rows": end if reader.rows is None else reader.rows}

    return do_once(folder / f"read-{number}.json", read)


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
