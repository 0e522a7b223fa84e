"""Measure folders that other processes change meanwhile, and the disk under them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def folder_size(folder: Path) -> int:
    """Count the bytes of all files below a folder."""
    size = 0
    # os.walk passes over folders that vanish, where `glob` may fail
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(parent, name)).st_size
    return size


def free_bytes(folder: Path) -> int:
    """Return the bytes that are free where a folder is, or will be made."""
    path = folder.absolute()
    nearest = next(parent for parent in (path, *path.parents) if parent.is_dir())
    return shutil.disk_usage(nearest).free
