"""Lock files through the operating system, which frees the locks of a process that dies."""

from __future__ import annotations

import fcntl
from typing import IO, Any


def try_lock(file: IO[Any], *, shared: bool = False) -> bool:
    """Lock an open file until it is closed. Returns False at once where the file is locked by another opening of it.

    A `shared` lock excludes only locks that are not shared; over NFS it can be taken on a file open for reading.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
