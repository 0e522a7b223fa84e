"""Parts of a stage that outlive it: what a killed attempt finished is not done again by the next one.

A stage keeps its parts in `unfinished/` of its output and works shard by shard: a part has its name only once it is
complete and on the disk, and a shard's documents come before the note that counts them. The folder goes when the stage
is done, so that an output is the same whether it was made in one go or in many.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from pipeline.errors import InputError
from pipeline.storage.documents import DocumentWriter, shards, total
from pipeline.storage.files import atomic_file, sync
from pipeline.storage.shards import Shard, find_shards
from pipeline.storage.store import FULL, digest

_KINDS = ("documents", "dropped")


@contextmanager
def unfinished(output: Path, settings: Any, files: Sequence[Shard]) -> Iterator[Path]:
    """The folder of a stage's parts, made from these settings and files; parts made from others are removed first.

    Raises InputError when the disk is full; what is finished stays for the next attempt.
    """
    folder = output / "unfinished"
    made_from = digest([settings, [[str(file.path), file.last, file.path.stat().st_mtime_ns] for file in files]])
    if not (folder / made_from).exists():
        for old in (folder, *(output / kind for kind in _KINDS)):
            shutil.rmtree(old, ignore_errors=True)
    for kind in _KINDS:
        (output / kind).mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    (folder / made_from).touch()
    try:
        yield folder
    except (OSError, duckdb.Error) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        if getattr(error, "errno", None) in FULL or any(os.strerror(number) in str(error) for number in FULL):
            raise InputError(
                f"{output}: the disk is full ({reason}): free some space and run again, finished shards are kept"
            ) from error
        raise
    shutil.rmtree(folder)


def part(path: Path, write: Callable[[Path], None]) -> Path:
    """`path`, a file that `write(partial)` makes unless it is there."""
    if not path.exists():
        with atomic_file(path) as partial:
            write(partial)
    return path


def save(path: Path, **arrays: np.ndarray) -> None:
    """Write named arrays, for `np.load`; a full disk is told as such, which `np.save` does not."""
    with path.open("wb") as file:
        np.savez(file, **arrays)


def write_shard(output: Path, folder: Path, number: int, write: Callable[[DocumentWriter], Any]) -> dict[str, Any]:
    """Let `write` keep and drop the documents of shard `number` of the output, unless that is done.

    Returns "counts" and "results", what `write` returned, which goes through JSON.
    """
    note = folder / f"written-{number}.json"
    if not note.exists():
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
        written = json.dumps({"counts": writer.counts(), "results": results})
        part(note, lambda path: path.write_text(written))
    return json.loads(note.read_text())


def shard_by_shard(
    source: Path | str,
    output: Path | str,
    settings: Any,
    work: Callable[[Path, DocumentWriter], Counter[tuple[str, str]]],
    *,
    kind: str,
    progress: Callable[[float, str], None],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A stage that sees one document at a time: `work` keeps and drops those of one shard of `source`.

    Returns the counts of documents, and what `work` counted by source and something else, as rows where that is `kind`.
    """
    output, files = Path(output), find_shards([Path(source)])
    written = []

    def write(shard: Shard, writer: DocumentWriter) -> list[tuple[str, str, int]]:
        return [(*key, count) for key, count in sorted(work(shard.path, writer).items())]

    with unfinished(output, settings, files) as folder:
        for number, shard in enumerate(files):
            written.append(write_shard(output, folder, number, partial(write, shard)))
            progress((number + 1) / len(files), f"{shard.last:,} documents")
    found: Counter[tuple[str, str]] = Counter()
    for one in written:
        found.update({(name, what): count for name, what, count in one["results"]})
    rows = [{"source": name, kind: what, "documents": count} for (name, what), count in sorted(found.items())]
    return total(one["counts"] for one in written), rows
