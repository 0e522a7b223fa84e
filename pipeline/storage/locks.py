"""Lock files through the operating system, which frees the locks of a process that dies."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from dreamer_study.pipeline.errors import InputError

POLL_SECONDS = 0.2
PATIENCE_SECONDS = 5.0  # of waiting without a word
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def try_lock(file: IO[Any], *, shared: bool = False) -> bool:
    """Lock an open file until it is closed; returns False at once where it is locked already.

    A `shared` lock excludes only locks that are not shared; over NFS it can be taken on a file open
    for reading. Raises InputError where the file system has no locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise InputError(
            f"{file.name}: its file system has no locks ({error.strerror}), by which processes keep"
            " from writing at once; mount it with locks (NFS: without `nolock`), or give a folder"
            " of another disk"
        ) from error
    return True


def wait_for_lock(file: IO[Any]) -> None:
    """Lock an open file until it is closed, after waiting for whoever holds the lock."""
    while not try_lock(file):
        time.sleep(POLL_SECONDS)


def open_lock(path: Path) -> IO[str]:
    """Open the file of a lock, which is made where there is none.

    Raises OSError where a link is at its place: signing the lock would empty another file.
    """

    def no_link(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o666)

    return open(path, "a+", encoding="utf-8", opener=no_link)


@contextmanager
def hold(path: Path, tell: Callable[[str], object]) -> Iterator[None]:
    """Hold the lock on a file while the block runs, after waiting for whoever holds the lock.

    After PATIENCE_SECONDS of waiting `tell` gets a line that names the holder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    told = False
    while True:
        with open_lock(path) as file:
            if try_lock(file) and _is_file_at(path, file):
                sign(file)
                yield
                return
        if not told and time.monotonic() - began >= PATIENCE_SECONDS:
            told = True
            tell(f"{path.with_suffix('')} is being made by {holder(path)}; waiting")
        time.sleep(POLL_SECONDS)


def _is_file_at(path: Path, file: IO[Any]) -> bool:
    """Tell whether the open file is still the one at `path`.

    The previous holder may have removed the file: a lock on a removed file excludes nobody.
    """
    return path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))


def sign(file: IO[str]) -> None:
    """Write into a locked file, open for appending, which process holds the lock."""
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now():%F %T}")
    file.flush()


def holder(path: Path) -> str:
    """Say which process holds the lock on a file, on which machine, and since when."""
    try:
        signature = path.read_text()
    except OSError:
        signature = ""
    return signature or "another process"  # one that has not signed yet
