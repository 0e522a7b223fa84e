"""Content-addressed stage outputs: a folder that exists is complete, and is never written again.

A stage's key is a hash of its name, version, configuration and the keys of its inputs, so a changed setting changes the
keys of everything downstream and nothing else. Work happens in `<key>.partial` beside the final place, which is renamed
when everything in it has been synced; a lock on the key lets several processes share one store.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL, replace_folder, write_text_atomically

MANIFEST = "manifest.json"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Output:
    """One finished stage output: its folder and what its manifest says."""

    stage: str
    key: str
    path: Path
    manifest: Mapping[str, Any]

    @property
    def results(self) -> Mapping[str, Any]:
        """What the stage's work returned: counts, sizes, digests."""
        return self.manifest["results"]


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """16 hexadecimal digits over the canonical JSON of `value`."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=8).hexdigest()


def file_digest(path: Path) -> str:
    """32 hexadecimal digits over a file's bytes; within one process a file that has not changed is read once."""
    state = path.stat()
    return _digest_of(str(path.resolve()), state.st_size, state.st_mtime_ns, state.st_ino)


@lru_cache(maxsize=65_536)
def _digest_of(path: str, size: int, modified: int, inode: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


LARGE = 2**26
_DIGEST = re.compile("[0-9a-f]{32}")
"""Files of so many bytes are not read again in the next process either: 73 GB of sources take minutes."""


class Missing(Exception):
    """An output that a store which only finds was asked for is not there."""


class Store:
    """The folder `store/` of a study: `<root>/<stage>/<key>/`. Several studies may share one.

    With `builds=False` it only finds: asked for an output that is not there, it raises Missing.
    """

    def __init__(self, root: Path | str, *, builds: bool = True) -> None:
        self.root = Path(root)
        self.builds = builds

    def find(self, stage: str, key: str) -> Output | None:
        """The finished output of that key, or None."""
        path = self.root / stage / key
        try:
            manifest = json.loads((path / MANIFEST).read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise InputError(f"{path / MANIFEST} is damaged ({error}); remove {path} to make it again") from None
        if not isinstance(manifest, dict) or manifest.get("key") != key:
            raise InputError(f"{path / MANIFEST} is damaged; remove {path} to make it again")
        return Output(stage, key, path, manifest)

    def file_digest(self, path: Path) -> str:
        """`file_digest`, kept in `digests/` for a large file, until its size, time of change or place is another."""
        state = path.stat()
        if state.st_size < LARGE:
            return file_digest(path)
        kept = self.root / "digests" / digest([str(path.resolve()), state.st_size, state.st_mtime_ns, state.st_ino])
        with suppress(OSError):
            if _DIGEST.fullmatch(said := kept.read_text()):
                return said
        found = file_digest(path)
        with suppress(OSError):  # kept or not, it is known now
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomically(kept, found, shared=True)
        return found

    @staticmethod
    def key(stage: str, version: int, configuration: Mapping[str, Any], inputs: Sequence[Output]) -> str:
        """What an output is called: the same for the same stage, version, configuration and inputs, else another."""
        return digest([stage, version, configuration, [f"{i.stage}/{i.key}" for i in inputs]])

    def build(
        self,
        stage: str,
        version: int,
        configuration: Mapping[str, Any],
        inputs: Sequence[Output],
        work: Callable[[Path], Mapping[str, Any] | None],
        *,
        resumes: bool = False,
    ) -> Output:
        """The output for this configuration and these inputs, made by `work(folder)` if it is not there yet.

        `work` fills the folder and returns what the manifest shall hold as `results`. With `resumes`, what a killed
        earlier attempt left in the partial folder is kept for `work` to go on from; else it starts with an
        empty folder. Raises InputError when the disk is full, and whatever `work` raises.
        """
        key = self.key(stage, version, configuration, inputs)
        found = self.find(stage, key)
        if found:
            return found
        if not self.builds:
            raise Missing(f"{stage}/{key}")
        final = self.root / stage / key
        partial = final.with_name(key + PARTIAL)
        with _lock(final.with_name(f"{key}.lock")):
            found = self.find(stage, key)  # another process may have finished it while we waited
            if found:
                return found
            if not resumes:
                shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True, exist_ok=True)
            started = time.monotonic()
            results = _told_when_full(partial, work) or {}
            manifest = {
                "stage": stage,
                "version": version,
                "key": key,
                "configuration": configuration,
                "inputs": [f"{i.stage}/{i.key}" for i in inputs],
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
        return Output(stage, key, final, manifest)


def _told_when_full(folder: Path, work: Callable[[Path], Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    try:
        return work(folder)
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise InputError(
            f"{folder}: the disk is full ({os.strerror(error.errno)}); free some space and run the same command again, "
            "finished stages are kept"
        ) from error


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an operating-system lock, which a dead holder frees at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # The holder before us may have removed the file when it finished: then we hold a lock on nothing.
            try:
                same = os.stat(path).st_ino == os.fstat(file.fileno()).st_ino
            except FileNotFoundError:
                same = False
            if same:
                yield
                return
