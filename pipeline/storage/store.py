"""The content-addressed store of stage outputs: a folder that exists is complete, and is never written again.

A stage's key is a hash of its name, version, configuration and the keys of its inputs: a changed setting changes the
keys of everything downstream. A stage works in `<key>.partial`, which is synced and renamed at the end; a lock on the
key lets several processes share one store.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL, replace_folder, write_text_atomically
from pipeline.storage.integrity import MANIFEST, REPAIR, damage, read_manifest, reopen
from pipeline.storage.locks import try_lock

POLL_SECONDS = 0.2
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Output:
    """One output of a stage, made or still to be made: what decides it, and its folder.

    `inputs` names the outputs that it is made of, `<stage>/<key>` each.
    """

    stage: str
    key: str
    path: Path
    version: int
    configuration: Mapping[str, Any]
    inputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """The place of the output in its store: <stage>/<key>."""
        return f"{self.stage}/{self.key}"

    @property
    def done(self) -> bool:
        """Whether the output has been made."""
        return (self.path / MANIFEST).exists()

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """The manifest of an output that has been made. Raises InputError for a damaged one, or none."""
        return read_manifest(self.path)

    @property
    def results(self) -> Mapping[str, Any]:
        """The values that the stage's work returned: counts, sizes, digests."""
        return self.manifest["results"]


def canonical(value: Any) -> str:
    """Write a value as JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """Hash the canonical JSON of `value` to 16 hexadecimal digits."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=8).hexdigest()


def file_digest(path: Path) -> str:
    """Hash a file's bytes to 32 hexadecimal digits; within one process an unchanged file is read once."""
    state = path.stat()
    return _digest_of(str(path.resolve()), state.st_size, state.st_mtime_ns, state.st_ino)


@lru_cache(maxsize=65_536)
def _digest_of(path: str, size: int, modified: int, inode: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


LARGE = 2**26  # digests of files of so many bytes are kept for other processes: 73 GB of sources take minutes
_DIGEST = re.compile("[0-9a-f]{32}")


class Store:
    """The folder `store/` of a study, with outputs in `<root>/<stage>/<key>/`; several studies may share one.

    `wait(seconds)` is called over and over while another process builds the output that is wanted.
    """

    def __init__(self, root: Path | str, *, wait: Callable[[float], object] = time.sleep) -> None:
        self.root = Path(root)
        self.wait = wait

    def check(self, output: Output) -> None:
        """Raise InputError for an output whose files are not those of its manifest (`damage`)."""
        for name, wrong in damage(output.path, output.manifest["files"], self.file_digest).items():
            raise InputError(f"{output.path / name} {wrong}; {REPAIR}")

    def file_digest(self, path: Path) -> str:
        """Hash a file as `file_digest` does; a large file's digest is kept in `digests/` until the file changes."""
        state = path.stat()
        if state.st_size < LARGE:
            return file_digest(path)
        kept = self.root / "digests" / digest([str(path.resolve()), state.st_size, state.st_mtime_ns, state.st_ino])
        with suppress(OSError):
            if _DIGEST.fullmatch(known := kept.read_text()):
                return known
        found = file_digest(path)
        with suppress(OSError):  # keeping the digest is optional
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomically(kept, found, shared=True)
        return found

    @staticmethod
    def key(stage: str, version: int, configuration: Mapping[str, Any], inputs: Sequence[str] = ()) -> str:
        """Hash stage, version, configuration and the names of the inputs to the key of an output."""
        return digest([stage, version, configuration, list(inputs)])

    def build(self, output: Output, work: Callable[[Path], Mapping[str, Any] | None], *, resumes: bool = False) -> None:
        """Check an output that has been made, and make a missing one by `work(folder)`.

        `work` fills the folder and returns the `results` of the manifest. With `resumes`, `work` finds the files of a
        killed attempt in the folder; else the folder is empty. Raises InputError when a finished output is damaged or
        the disk is full, and whatever `work` raises.
        """
        if output.done:
            self.check(output)
            return
        final, key = output.path, output.key
        partial = final.with_name(key + PARTIAL)
        with _lock(final.with_name(f"{key}.lock"), self.wait):
            if output.done:  # another process has finished the output meanwhile
                return
            if final.exists() and resumes and not partial.exists():  # without a manifest
                reopen(final)
            elif final.exists():
                shutil.rmtree(final)
            if not resumes:
                shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True, exist_ok=True)
            started = time.monotonic()
            try:
                results = work(partial) or {}
            except OSError as error:
                if error.errno not in FULL:
                    raise
                raise InputError(
                    f"{partial}: the disk is full ({os.strerror(error.errno)}); free some space and run the same "
                    "command again, finished stages are kept"
                ) from error
            manifest = {
                "stage": output.stage,
                "version": output.version,
                "key": key,
                "configuration": output.configuration,
                "inputs": list(output.inputs),
                "results": results,
                "seconds": round(time.monotonic() - started, 3),
                "files": {
                    str(path.relative_to(partial)): {"bytes": path.stat().st_size, "blake2b": file_digest(path)}
                    for path in sorted(partial.rglob("*"))
                    if path.is_file() and path.name != MANIFEST
                },
            }
            (partial / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True))
            replace_folder(partial, final)
        final.with_name(f"{key}.lock").unlink(missing_ok=True)


@contextmanager
def _lock(path: Path, wait: Callable[[float], object]) -> Iterator[None]:
    """Hold an operating-system lock on a file; the lock of a dead process is free at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as file:
            if not try_lock(file):
                wait(POLL_SECONDS)
                continue
            # The previous holder may have removed the file; a lock on a removed file excludes nobody.
            try:
                same = os.stat(path).st_ino == os.fstat(file.fileno()).st_ino
            except FileNotFoundError:
                same = False
            if same:
                yield
                return
