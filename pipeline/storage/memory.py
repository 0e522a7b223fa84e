"""Bound the memory that work on the data of strangers may take."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock

USUAL_SHARE = 2 * 2**30  # bytes, where no study says how many
_share: ContextVar[int] = ContextVar("share_of_memory", default=USUAL_SHARE)
_limiting = RLock()  # the limit is of the process


@contextmanager
def share_of_memory(most: int) -> Iterator[None]:
    """Let the readers of files in this block take about `most` bytes, what `data.memory` leaves."""
    before = _share.set(most)
    try:
        yield
    finally:
        _share.reset(before)


def bytes_to_take() -> int:
    """Return the bytes that the readers of files may take here."""
    return _share.get()


@contextmanager
def bounded_memory(most: int) -> Iterator[None]:
    """Let the block take `most` further bytes; MemoryError is raised where it asks for more.

    What a decoder will ask for is not known in advance: the metadata of a file may lie. Other
    threads of this process have the same limit meanwhile.
    """
    with _limiting:
        before, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = _bytes_of_data() + most
        if before != resource.RLIM_INFINITY:  # the user's own
            limit = min(limit, before)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _bytes_of_data() -> int:
    """Return the bytes that the system counts for this process under this limit."""
    with open("/proc/self/status", encoding="utf-8") as status:
        line = next(line for line in status if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024
