"""Bound the memory that work on the data of strangers may take."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_limiting = RLock()  # the limit is of the process


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
