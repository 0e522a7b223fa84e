"""Measure folders that other processes change meanwhile, and the disk under them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def folder_size(folder: Path) -> int:
    """Count the bytes of all files below a folder."""
    size = 0
    # which passes over folders that vanish, where `glob` may fail
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(place, name)).st_size
    return size


def free_bytes(folder: Path) -> int:
    """Return the bytes that are free where a folder is, or will be made."""
    place = folder.absolute()
    return shutil.disk_usage(
        next(there for there in (place, *place.parents) if there.is_dir())
    ).free
