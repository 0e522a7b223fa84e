"""Read amounts of memory as users write them."""

from __future__ import annotations

import re

from pipeline.errors import InputError


def memory_bytes(memory: str) -> int:
    """Convert `4GB` or `512 MiB` to bytes. Raises InputError for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])(i?)B\s*", memory, re.IGNORECASE)
    if not found:
        raise InputError(f"memory: {memory!r} is no size: write it like 4GB or 512MiB")
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** ("KMGT".index(found[2].upper()) + 1))
