"""Find the folder in which this user's files outlive a process."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path | None:
    """Return the user's cache, a folder into which nobody else can put a file.

    None where there is none: no home, a home that cannot be written, or a folder that others can
    write.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dreamer-study"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except (OSError, RuntimeError):  # Path.home() finds no home of a user without a name
        return None
    is_own = state.st_uid == os.getuid() and not state.st_mode & 0o022
    return folder if is_own and os.access(folder, os.W_OK) else None
