"""Compare finished outputs of the store with their manifests, and remove what is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.storage.files import PARTIAL

MANIFEST = "manifest.json"
# Work in the folders of these stages goes on where parts are missing: so many names of a file's path make a part, the
# training of one seed, the rows of one checkpoint. Of any other stage the whole output is made again.
PARTS = {"training": 1, "evaluation": 3}


def damage(
    folder: Path, files: Mapping[str, Mapping[str, Any]], digest_of: Callable[[Path], str], *, thorough: bool = False
) -> dict[str, str]:
    """Say what is wrong with the files of a finished output, by name, from the `files` of its manifest.

    Sizes are compared, and the digests of files that were changed after the manifest was written; with `thorough`,
    those of all files.
    """
    written = (folder / MANIFEST).stat().st_mtime_ns
    found = {}
    for name, known in files.items():
        try:
            state = (folder / name).stat()
        except OSError:
            found[name] = "is missing"
            continue
        if state.st_size != known["bytes"]:
            found[name] = f"has {state.st_size:,} bytes, not {known['bytes']:,}"
        elif (thorough or state.st_mtime_ns > written) and digest_of(folder / name) != known["blake2b"]:
            found[name] = "has other content than when it was written"
    return found


def remove_damage(stage: str, folder: Path, names: Mapping[str, str]) -> list[Path]:
    """Remove the damaged parts of an output, so that the next run makes them again; returns what was removed.

    The whole output goes, unless work in the folder can go on without some parts.
    """
    partial = folder.with_name(folder.name + PARTIAL)
    if stage not in PARTS or partial.exists():
        shutil.rmtree(folder)
        return [folder]
    parts = sorted({Path(*Path(name).parts[: PARTS[stage]]) for name in names if ".." not in Path(name).parts})
    for part in parts:
        if (folder / part).is_dir():
            shutil.rmtree(folder / part)
        else:
            (folder / part).unlink(missing_ok=True)
    reopen(folder)
    return [folder / part for part in parts]


def reopen(folder: Path) -> None:
    """Turn a finished output into an unfinished one, in which work goes on."""
    (folder / MANIFEST).unlink(missing_ok=True)
    folder.rename(folder.with_name(folder.name + PARTIAL))
