"""Read amounts of memory as users write them."""

from __future__ import annotations

from pydantic import ByteSize, TypeAdapter, ValidationError

from pipeline.errors import InputError


def memory_bytes(memory: str) -> int:
    """Convert `4GB` or `512 MiB` to bytes. Raises InputError for anything else."""
    try:
        return TypeAdapter(ByteSize).validate_python(memory.strip())
    except ValidationError:
        raise InputError(f"memory: {memory!r} is no size: write it like 4GB or 512MiB") from None
