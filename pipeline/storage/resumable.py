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

from dreamer_study.pipeline.errors import DISK_FULL, InputError
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.storage.documents import DocumentWriter, find_shards, shards, sum_counts
from dreamer_study.pipeline.storage.files import atomic_file, sync, write_text_atomically
from dreamer_study.pipeline.storage.parallel import Progress, Run, serial

UNFINISHED = "unfinished"
_KINDS = ("documents", "dropped")
# DuckDB names this setting, by default the free disk, where the disk is full
_OFFLOADED = "max_temp_directory_size"


@contextmanager
def resumable_parts(
    output: Path, settings: Any, files: Sequence[os.PathLike], *, kinds: Sequence[str] = _KINDS
) -> Iterator[Path]:
    """Yield the folder of a stage's parts; parts made from other settings or input files are
    removed first.

    So are the folders `kinds` of the output, to which finished shards go. Raises InputError as
    `within_means` does.
    """
    folder = output / UNFINISHED
    states = [(os.fspath(file), os.stat(file)) for file in files]
    made_from = digest(
        [settings, [[path, state.st_size, state.st_mtime_ns] for path, state in states]]
    )
    if not (folder / made_from).exists():
        for old in (folder, *(output / kind for kind in kinds)):
            shutil.rmtree(old, ignore_errors=True)
    for path in (folder, *(output / kind for kind in kinds)):
        path.mkdir(parents=True, exist_ok=True)
    (folder / made_from).touch()
    with within_means(output):
        yield folder
    # first: a folder that is removed in part would be taken for a whole one
    (folder / made_from).unlink()
    shutil.rmtree(folder)


@contextmanager
def within_means(output: Path) -> Iterator[None]:
    """Raise InputError when the disk gets full, or DuckDB's memory, in a stage: what is finished
    stays."""
    try:
        yield
    except (OSError, duckdb.Error) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else str(error).splitlines()[0]
        full = (_OFFLOADED, *map(os.strerror, DISK_FULL))
        if number in DISK_FULL or any(words in str(error) for words in full):
            wrong, way = "the disk is full", "free some space"
        elif isinstance(error, duckdb.OutOfMemoryException):
            wrong, way = "too little memory", "raise data.memory"
        else:
            raise
        kept = "finished stages and finished shards are kept"
        raise InputError(f"{output}: {wrong} ({reason}): {way} and run again, {kept}") from error


def make_once(path: Path, write: Callable[[Path], None]) -> Path:
    """Return `path`; a missing file is written by `write(partial path)` first."""
    if not path.exists():
        with atomic_file(path) as partial:
            write(partial)
    return path


def do_once(note: Path, work: Callable[[], Any], *files: Path) -> Any:
    """Do `work`, unless a killed attempt has; returns what `work` returned, after a round trip
    through JSON.

    The `files` that `work` writes are synced before the note: after a loss of power a note stands
    for whole files.
    """
    if not note.exists():
        found = work()
        for path in files:
            sync(path)
        write_text_atomically(note, json.dumps(found))
    return json.loads(note.read_text())


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array, for `np.load`: `np.save` and `tofile` are silent where a full disk cuts off
    the end of a file."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


def save_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Write named arrays, for `np.load`."""
    # `np.savez` of a path does not tell a full disk from other errors
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is called allow_pickle


def write_document_shard(
    output: Path, folder: Path, number: int, write: Callable[[DocumentWriter], Any]
) -> dict[str, Any]:
    """Write shard `number` of the output: `write` keeps and drops documents. A finished shard is
    not written again.

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

    return do_once(folder / f"written-{number}.json", work)


def shard_by_shard(
    source: Path | str,
    output: Path | str,
    settings: Any,
    work: Callable[[Path, DocumentWriter], Counter[tuple[str, str]]],
    *,
    kind: str,
    run: Run = serial,
    progress: Progress,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run a stage that sees one document at a time: `work` keeps and drops the documents of one
    shard of `source`.

    `work` has to be picklable where `run` uses other processes. Returns the counts of documents,
    and the numbers that
    `work` counted by (source, `kind`), as rows with the columns source, `kind` and documents.
    """
    output, files = Path(output), find_shards([Path(source)])
    written = []
    with resumable_parts(output, settings, files) as folder:
        tasks = [
            (output, folder, n, functools.partial(_counted, work, shard.path))
            for n, shard in enumerate(files)
        ]
        for shard, done in zip(files, run(write_document_shard, tasks), strict=True):
            written.append(done)
            progress(len(written) / len(files), f"{shard.stop:,} documents")
    found: Counter[tuple[str, str]] = Counter()
    for shard in written:
        found.update({(name, what): count for name, what, count in shard["results"]})
    rows = [
        {"source": name, kind: what, "documents": count}
        for (name, what), count in sorted(found.items())
    ]
    return sum_counts(shard["counts"] for shard in written), rows


def _counted(
    work: Callable[[Path, DocumentWriter], Counter[tuple[str, str]]],
    path: Path,
    writer: DocumentWriter,
) -> list[tuple[str, str, int]]:
    return [(*key, count) for key, count in sorted(work(path, writer).items())]
