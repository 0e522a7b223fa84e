"""Resume a killed stage: parts that an earlier attempt finished are kept and not made again.

Parts lie in `unfinished/` of the stage's output and are written atomically. The files of a finished
piece of work are on the disk, under their names, before the note that says so. The folder is
removed at the end: the output is equal however often the stage was killed.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from dreamer_study.pipeline.errors import (
    InputError,
    is_full_disk,
    is_short_of_memory,
    short_of_memory,
)
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.storage.documents import DocumentWriter, find_shards, shards, sum_counts
from dreamer_study.pipeline.storage.files import atomic_file, sync
from dreamer_study.pipeline.storage.parallel import Progress, Workers, serial
from dreamer_study.pipeline.wording import counted

UNFINISHED = "unfinished"
_KINDS = ("documents", "dropped")
# DuckDB names this setting, whose default is the free disk, where the disk is full.
_OFFLOADED = "max_temp_directory_size"


@contextmanager
def resumable_parts(
    output: Path, settings: Any, files: Sequence[os.PathLike], *, kinds: Sequence[str] = _KINDS
) -> Iterator[Path]:
    """Yield the folder of a stage's parts.

    Parts that were made from other settings or input files are removed first, and with them the
    folders `kinds` of the output, to which finished shards go. Raises InputError as `within_means`
    does.
    """
    folder = output / UNFINISHED
    states = []
    for file in files:
        stat = os.stat(file)
        states.append([os.fspath(file), stat.st_size, stat.st_mtime_ns])
    made_from = folder / digest([settings, states])
    folders = [folder, *(output / kind for kind in kinds)]
    if not made_from.exists():
        for old in folders:
            shutil.rmtree(old, ignore_errors=True)
    for path in folders:
        path.mkdir(parents=True, exist_ok=True)
    made_from.touch()
    with within_means(output):
        yield folder
    # The mark goes first: a folder that is removed in part would be taken for a whole one.
    made_from.unlink()
    shutil.rmtree(folder)


@contextmanager
def within_means(output: Path) -> Iterator[None]:
    """Raise InputError when a stage fills the disk, or DuckDB's memory: what is finished stays."""
    try:
        yield
    except (OSError, duckdb.Error) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else str(error).splitlines()[0]
        if is_full_disk(error) or _OFFLOADED in str(error):
            problem = "the disk is full"
            advice = "free some space"
        elif is_short_of_memory(error):
            raise InputError(f"{output}: {short_of_memory(error)}") from error
        elif isinstance(error, duckdb.OutOfMemoryException):
            problem = "too little memory"
            advice = "raise data.memory"
        else:
            raise
        raise InputError(
            f"{output}: {problem} ({reason}): {advice} and run again, finished stages and finished"
            " shards are kept"
        ) from error


def make_once(path: Path, write: Callable[[Path], None]) -> Path:
    """Return `path`; a missing file is written by `write(partial path)` first."""
    if not path.exists():
        with atomic_file(path) as partial:
            write(partial)
    return path


def results_once(note: Path, work: Callable[[], Any], *files: Path) -> Any:
    """Return the results of `work`, from the file `note` where a killed attempt has done the work.

    The results have made a round trip through JSON. The `files` that `work` writes are synced
    before the note: after a loss of power a note means whole files. Raises InputError for a damaged
    note.
    """

    def write(partial: Path) -> None:
        results = work()
        for path in files:
            sync(path)
        partial.write_text(json.dumps(results), encoding="utf-8")

    text = make_once(note, write).read_bytes()
    try:
        return json.loads(text)
    except ValueError:
        raise InputError(
            f"{note} is damaged; remove the folder {note.parent}, and the stage is made again"
        ) from None


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array, for `np.load`.

    `np.save` and `tofile` are silent where a full disk cuts off the end of a file.
    """
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


def save_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Write named arrays, for `np.load`."""
    # `np.savez` of a path does not distinguish a full disk from other errors
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle


def write_document_shard(
    output: Path, folder: Path, number: int, write: Callable[[DocumentWriter], Any]
) -> dict[str, Any]:
    """Write shard `number` of the output, unless that is done: `write` keeps and drops documents.

    Returns "counts" and "results", the value that `write` returned, after a round trip through
    JSON.
    """

    def work() -> dict[str, Any]:
        partial = folder / f"documents-{number}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            with DocumentWriter(partial, shard_bytes=sys.maxsize) as writer:
                results = write(writer)
            for kind in _KINDS:
                for path in shards(partial, kind):
                    sync(path)
                    path.rename(output / kind / f"{number:05d}.parquet")
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return {"counts": writer.counts(), "results": results}

    return results_once(folder / f"written-{number}.json", work)


def shard_by_shard(
    source: Path | str,
    output: Path | str,
    settings: Any,
    work: Callable[[Path, DocumentWriter], Counter[tuple[str, str]]],
    *,
    kind: str,
    run: Workers = serial,
    progress: Progress,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run a stage that sees one document at a time, shard by shard.

    `work` keeps and drops the documents of one shard of `source`; it has to be picklable where
    `run` uses other processes. Returns the counts of documents, and the numbers that `work` counted
    by (source, `kind`), as rows with the columns source, `kind` and documents.
    """
    output = Path(output)
    files = find_shards([Path(source)])
    written = []
    with resumable_parts(output, settings, files) as folder:
        tasks = [
            (output, folder, number, functools.partial(_counted, work, shard.path))
            for number, shard in enumerate(files)
        ]
        for shard, results in zip(files, run(write_document_shard, tasks), strict=True):
            written.append(results)
            progress(len(written) / len(files), counted(shard.stop, "document"))
    totals: Counter[tuple[str, str]] = Counter()
    for results in written:
        for name, what, count in results["results"]:
            totals[name, what] += count
    rows = [
        {"source": name, kind: what, "documents": count}
        for (name, what), count in sorted(totals.items())
    ]
    return sum_counts(results["counts"] for results in written), rows


def _counted(
    work: Callable[[Path, DocumentWriter], Counter[tuple[str, str]]],
    path: Path,
    writer: DocumentWriter,
) -> list[tuple[str, str, int]]:
    return [(*key, count) for key, count in sorted(work(path, writer).items())]
