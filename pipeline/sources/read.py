"""Read a source: convert the rows of its files into documents, file by file.

An interrupted reading resumes. This first stage does not judge quality. It drops rows that are no
documents (malformed, empty question or response) and rows that the source's own flags and filters
exclude.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.readers import (
    Reader,
    check_not_all_malformed,
    open_rows,
)
from dreamer_study.pipeline.sources.rows import RowConverter
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.documents import DocumentWriter, sum_counts
from dreamer_study.pipeline.storage.files import sync
from dreamer_study.pipeline.storage.memory import USUAL_SHARE, share_of_memory
from dreamer_study.pipeline.storage.parallel import Progress, Workers, quiet, serial
from dreamer_study.pipeline.storage.resumable import results_once, resumable_parts
from dreamer_study.pipeline.wording import counted

FIRST_ROWS = 100  # that are looked at before any work


def read_source(
    source: Source,
    files: Sequence[Path],
    output: Path,
    *,
    limit: int | None = None,
    commit: str | None = None,
    run: Workers = serial,
    progress: Progress = quiet,
    memory: int = USUAL_SHARE,
) -> dict[str, Any]:
    """Run the stage: rows of a source's files become `documents/` and `dropped/` under `output`.

    A document's id is `<name>/<row>`, or `<name>@<revision>/<row>` for a pinned revision;
    `.<number>` follows where a row gives several documents. `row` counts from 0 over the files in
    their order, malformed rows included. White space around the three texts is removed. A malformed
    row is dropped with its text as the response.

    Files that have been read survive an interruption. `limit` (or the source's) reads that many
    rows: of Parquet files evenly from all row groups, because some sets are sorted by topic; of
    other files the first. `run` may read several files at once: their rows are counted first. A
    process that reads takes about `memory` bytes at most. `commit` is what the files are known to
    be of their repository. Raises InputError for a file that is cut off, missing columns, and a
    source without rows.
    """
    limit = limit if limit is not None else source.limit
    run = run if len(files) > 1 else serial
    made_from = {"source": repr(replace(source, weight=1.0)), "limit": limit}
    read: list[dict[str, Any]] = []
    sizes = [max(path.stat().st_size, 1) for path in files]
    bytes_before = [0, *accumulate(sizes)]

    def report(number: int, of_file: float, rows: int) -> None:
        done = (bytes_before[number] + of_file * sizes[number]) / bytes_before[-1]
        rows += sum(results["rows"] for results in read)
        progress(done, f"{source.name}: {counted(rows, 'row')}")

    with resumable_parts(output, made_from, files) as folder:
        plans = _planned(source, files, limit, run, memory)
        tasks = []
        for number, (path, (first_row, quota)) in enumerate(zip(files, plans, strict=False)):
            task: tuple[Any, ...] = (source, path, output, folder, number, first_row, quota, memory)
            if run is serial:  # what a reader reports does not leave another process
                task += (partial(report, number),)
            tasks.append(task)
        for number, results in enumerate(run(_read_file, tasks)):
            read.append(results)
            report(number, 1.0, 0)
    rows = sum(results["rows"] for results in read)
    if not rows:
        raise InputError(
            f"source {source.name!r} has no rows in {', '.join(map(str, files)) or 'no files'}"
        )
    progress(1.0, f"{source.name}: {counted(rows, 'row')}")
    return {
        "counts": sum_counts(results["counts"] for results in read),
        "rows": rows,
        "objects": sum(results["objects"] for results in read),
        "files": len(files),
        "repository": source.repository,
        "revision": source.revision,
        "commit": commit,
        "licence": source.licence,
    }


def check_rows(source: Source, files: Sequence[Path]) -> None:
    """Convert the first rows of a source and keep nothing.

    So wrong columns and delimiters are reported before any work. Raises InputError as `read_source`
    does.
    """
    for path in files[:1]:
        try:
            _check_file(source, opened(source, path, FIRST_ROWS))
        except InputError:  # a column may begin later
            _check_file(source, opened(source, path))


def _check_file(source: Source, reader: Reader) -> None:
    if len(reader.schema):
        converter = RowConverter(source, reader)
        blocks = reader.blocks(converter.columns, FIRST_ROWS, converter.expressions)
        for block in islice(blocks, 1):
            check_not_all_malformed(reader, block)
            converter.check(block.table)


def opened(source: Source, path: Path, rows: int | None = None) -> Reader:
    """Open a file of a source; `rows` is how many of its first rows are read, if not all."""
    return open_rows(
        path,
        delimiter=source.delimiter,
        escape=source.escape,
        field=source.field,
        longest=source.longest,
        rows=rows,
    )


def _planned(
    source: Source, files: Sequence[Path], limit: int | None, run: Workers, memory: int
) -> list[tuple[int, int | None]]:
    """Find the number of each file's first row, and how many of its rows are read.

    That is all (None), or the file's part of the limit. Of two files of 30 and 10 rows, a limit of
    8 reads 6 and 2 rows where both are Parquet, else the first 8 of the first file.
    """
    spread = limit is not None and all(path.suffix == ".parquet" for path in files)
    counted = files if spread else files[:-1]
    counts = run(_count_rows, [(source, path, limit, memory) for path in counted])
    begins = [0, *accumulate(counts)]
    if limit is None:
        return [(begin, None) for begin in begins]
    if not spread:
        return [(begin, max(limit - begin, 0)) for begin in begins]
    total = max(begins[-1], 1)
    read_before = [begin * min(limit, total) // total for begin in begins]
    quotas = [after - before for before, after in pairwise(read_before)]
    return list(zip(begins, quotas, strict=False))


def _count_rows(source: Source, path: Path, limit: int | None, memory: int) -> int:
    with share_of_memory(memory):
        return opened(source, path).count(limit)


def _read_file(
    source: Source,
    path: Path,
    output: Path,
    folder: Path,
    number: int,
    first_row: int,
    quota: int | None,
    memory: int,
    report: Callable[[float, int], None] = lambda done, rows: None,
) -> dict[str, Any]:
    """Write the documents of one file, unless a killed attempt has.

    The names of its shards begin with the file's number. Returns the counts and the number of rows
    read, after a round trip through JSON.
    """

    def shards() -> list[Path]:
        name = f"{number:05d}-*"
        return [*(output / "documents").glob(name), *(output / "dropped").glob(name)]

    def read() -> dict[str, Any]:
        for shard in shards():
            shard.unlink()  # of a killed attempt
        with share_of_memory(memory):
            reader = opened(source, path, quota)
        rows = 0
        objects = 0
        with (
            share_of_memory(memory),
            DocumentWriter(output, prefix=f"{number:05d}-") as writer,
        ):
            if len(reader.schema) and quota != 0:
                converter = RowConverter(source, reader)
                for block in reader.blocks(converter.columns, quota, converter.expressions):
                    converter.write(block, first_row, writer)
                    rows += len(block.rows) + len(block.malformed) + len(block.not_text)
                    report(block.done, rows)
                objects = converter.objects
        for shard in shards():
            sync(shard)
        return {"counts": writer.counts(), "rows": rows, "objects": objects}

    return results_once(folder / f"read-{number}.json", read)
