"""Paths that a person writes, and atomic writes: a file under its final name is complete.

That holds after a crash or a loss of power too. Data are written under a partial name beside the
final place, synced and renamed.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dreamer_study.pipeline.errors import InputError

PARTIAL = ".partial"


def from_home(path: Path) -> Path:
    """Replace ~ at the start of a path by the user's home.

    Raises InputError for a user that does not exist.
    """
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise InputError(f"{path}: there is no such user; write the whole path") from error


@contextmanager
def naming(path: Path, partial: Path | None = None) -> Iterator[None]:
    """Let an OSError of the block name `path` where it names no file, or the `partial` one.

    The error of a disk that gets full names none.
    """
    unhelpful = {None, str(partial)} if partial else {None}
    try:
        yield
    except OSError as error:
        if error.errno and error.filename in unhelpful:
            error.filename = str(path)
        raise


@contextmanager
def atomic_file(path: Path, *, shared: bool = False, durable: bool = True) -> Iterator[Path]:
    """Yield a partial path beside `path` to write to, then rename that file to `path`.

    With `shared`, several processes may write `path` at once: each gets a partial path of its own.
    Without `durable`, the file is not synced: readers still see the old file or the new one, but a
    loss of power may leave an empty one. On an error the partial file is removed, and `path` stays
    as it was.
    """
    own = f".{uuid.uuid4().hex}" if shared else ""
    partial = path.with_name(f"{path.name}{own}{PARTIAL}")
    try:
        with naming(path, partial):
            partial.unlink(missing_ok=True)  # a link there would be followed
            yield partial
            if durable:
                sync(partial)
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text_atomically(
    path: Path, text: str, *, shared: bool = False, durable: bool = True
) -> None:
    """Replace the text of `path` in one step; `shared` and `durable` as in `atomic_file`."""
    with atomic_file(path, shared=shared, durable=durable) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a new, empty partial folder to fill, then rename it to `folder`, which must not exist.

    On an error the partial folder is removed: on a full disk, half-written files only take space.
    """
    partial = folder.with_name(folder.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with naming(folder):
            yield partial
            replace_folder(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def replace_folder(partial: Path, final: Path) -> None:
    """Sync everything in the folder `partial`, then rename it to `final`.

    `final` must be empty or not exist.
    """
    for path in (*partial.rglob("*"), partial):
        sync(path)
    partial.rename(final)
    sync(final.parent)  # the folder above holds the name


def sync(path: Path) -> None:
    """Flush one file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
