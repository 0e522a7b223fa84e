"""Look at files and folders that other processes rename or remove meanwhile: what has vanished counts as absent."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def written_at(path: Path) -> float | None:
    """Return the time at which a file was last written; None where no file is there."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return path.stat().st_mtime
    return None


def folder_size(folder: Path) -> int:
    """Count the bytes of all files below a folder."""
    size = 0
    for place, _, names in os.walk(folder):  # which passes over folders that vanish, where `glob` may fail
        for name in names:
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(place, name)).st_size
    return size


def free_bytes(folder: Path) -> int:
    """Return the bytes that are free where a folder is, or will be made."""
    place = folder.absolute()
    return shutil.disk_usage(next(there for there in (place, *place.parents) if there.is_dir())).free


def found_in(folder: Path, pattern: str) -> list[Path]:
    """List the paths in a folder that fit a pattern; none where the folder vanishes."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return list(folder.glob(pattern))
    return []
