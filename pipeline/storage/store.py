"""The content-addressed store of stage outputs.

A folder that exists is complete, and is never written again. A stage's key is a hash of its name,
version, configuration and the keys of its inputs: a changed setting changes the keys of everything
downstream. A stage works in `<key>.partial`, which is synced and renamed at the end; a lock on the
key lets several processes share one store.

An output `clean/b75c1a6e1e8b8a40/` holds `documents/`, `dropped/` and `manifest.json`, which other
processes read:

    {
     "configuration": {"shortest_question": 3, ...},
     "files": {
      "documents/00000.parquet": {"blake2b": "2f9d...", "bytes": 81234},
      "dropped/00000.parquet": {"blake2b": "91c0...", "bytes": 1377}
     },
     "inputs": ["read/0f3c5d1be4a7c2d9"],
     "key": "b75c1a6e1e8b8a40",
     "results": {"counts": [{"source": "gsm8k", "reason": "kept", "documents": 7473, ...}], ...},
     "seal": "53e1f0c6a2b94d87",
     "seconds": 2.481,
     "stage": "clean",
     "version": 3
    }

`files` has every other file of the folder, `results` what the stage returned, `seal` a digest of
all the rest (`integrity`).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import digest, file_digest
from dreamer_study.pipeline.storage.files import PARTIAL, replace_folder, write_text_atomically
from dreamer_study.pipeline.storage.integrity import MANIFEST, check, read_manifest, write_manifest
from dreamer_study.pipeline.storage.locks import hold
from dreamer_study.pipeline.storage.resumable import within_means


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
        """The manifest of an output that has been made.

        Raises InputError for a damaged one, or none.
        """
        return read_manifest(self.path)

    @property
    def results(self) -> Mapping[str, Any]:
        """The values that the stage's work returned: counts, sizes, digests."""
        return self.manifest["results"]


# Digests of files from this size on, in bytes, are kept for other processes: 73 GB of sources take
# minutes.
LARGE = 2**26


class Store:
    """The folder `store/` of a study, with outputs in `<root>/<stage>/<key>/`.

    Several studies may share one. `tell` gets a line where a call waits for another process that
    makes the wanted output.
    """

    def __init__(self, root: Path | str, *, tell: Callable[[str], object] = print) -> None:
        self.root = Path(root)
        self.tell = tell

    def file_digest(self, path: Path) -> str:
        """Hash a file as `file_digest` does.

        A large file's digest is kept in `digests/` until the file changes.
        """
        stat = path.stat()
        if stat.st_size < LARGE:
            return file_digest(path)
        state = digest([str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino])
        kept = self.root / "digests" / state
        with suppress(OSError):
            return kept.read_text()
        hashed = file_digest(path)
        with suppress(OSError):  # the next process hashes the file again where none is kept
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomically(kept, hashed, shared=True)
        return hashed

    def check_files(self, files: Sequence[Path], digests: Sequence[str]) -> None:
        """Raise InputError for a file that differs from its digest.

        The digest may have been kept from an earlier run.
        """
        for path, expected in zip(files, digests, strict=False):
            if file_digest(path) != expected:
                shutil.rmtree(self.root / "digests", ignore_errors=True)
                raise InputError(
                    f"{path} was changed, while its size and time stayed: fetch the file again; the"
                    " next run takes it as it is"
                )

    @staticmethod
    def key(
        stage: str, version: int, configuration: Mapping[str, Any], inputs: Sequence[str] = ()
    ) -> str:
        """Hash what decides an output to its key."""
        return digest([stage, version, configuration, list(inputs)])

    def build(
        self,
        output: Output,
        work: Callable[[Path], Mapping[str, Any] | None],
        *,
        resumes: bool = False,
        uses: Sequence[Output] = (),
    ) -> None:
        """Make an output, unless it is there, by `work(folder)`.

        `work` fills the folder and returns the `results` of the manifest. With `resumes`, `work`
        finds the files of a killed attempt in the folder; else the folder is empty. `uses` are
        outputs that `work` reads though they are no inputs. Raises InputError when one of the
        outputs read is damaged, when the output's own manifest is, or the disk is full, and
        whatever `work` raises.
        """
        if output.done:
            read_manifest(output.path)
            return
        final = output.path
        partial = final.with_name(output.key + PARTIAL)
        lock = final.with_name(f"{output.key}.lock")
        with hold(lock, self.tell):
            if output.done:  # another process has finished the output meanwhile
                return
            shutil.rmtree(final, ignore_errors=True)  # without a manifest it is nothing
            if not resumes:
                shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True, exist_ok=True)
            started = time.monotonic()
            for name in (*output.inputs, *(used.name for used in uses)):
                check(self.root / name)
            with within_means(partial):
                results = work(partial) or {}
            made = {
                "stage": output.stage,
                "version": output.version,
                "key": output.key,
                "configuration": output.configuration,
                "inputs": list(output.inputs),
                "results": results,
                "seconds": round(time.monotonic() - started, 3),
            }
            write_manifest(partial, made)
            replace_folder(partial, final)
        lock.unlink(missing_ok=True)
