"""Hash values and files: digests are the names of outputs in a store, and tell files that were
changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

_known: dict[tuple[int, ...], str] = {}  # of the files that this process has hashed


def canonical(value: Any) -> str:
    """Write a value as JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """Hash the canonical JSON of `value` to 16 hexadecimal digits."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=8).hexdigest()


def file_digest(path: Path) -> str:
    """Hash a file's bytes to 32 hexadecimal digits; within one process an unchanged file is read
    once."""
    state = path.stat()
    file_state = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    if file_state not in _known:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
        _known[file_state] = found.hexdigest()
    return _known[file_state]
